"""A materialized view."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tidemill._result import Changes, Result

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

    from tidemill._database import Database


def quoted(name: str) -> str:
    """Returns a name as SQL has it, whatever its letters are."""
    return '"' + name.replace('"', '""') + '"'


class View:
    """A materialized view. Each call reads its rows as they are then, with everything that this database has been given before."""

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self.name = name
        """Its name."""

    def rows(self) -> Result:
        """Returns its rows."""
        return self._database.sql(f"SELECT * FROM {quoted(self.name)}")

    def arrow(self) -> pa.Table:
        """Returns its rows as a `pyarrow.Table`."""
        return self.rows().arrow()

    def df(self) -> pandas.DataFrame:
        """Returns its rows as a data frame of pandas."""
        return self.rows().df()

    def pl(self) -> polars.DataFrame:
        """Returns its rows as a data frame of polars."""
        return self.rows().pl()

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Returns its rows as tuples."""
        return self.rows().fetchall()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows())

    def changes(self) -> Changes:
        """Returns its rows, and then its changes as they come."""
        return Changes(self._database._connection.changes(self.name))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.rows().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"View({self.name!r})"

    def _repr_html_(self) -> str:
        return self.rows()._repr_html_()
