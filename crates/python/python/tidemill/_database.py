"""A database in this process."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Iterable, Mapping
from os import PathLike
from types import TracebackType
from typing import Any, Literal

from tidemill import _arrow
from tidemill._functions import Function
from tidemill._result import Result
from tidemill._tidemill import Connection
from tidemill._view import View, quoted


class Database:
    """A database in this process, opened by `connect`. Use it in a `with` block, or `close` it.

    Threads may share it: their statements are executed one after the other. It does not survive `fork()`.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        _open.add(self)

    def sql(self, text: str) -> Result:
        """Executes statements, each ended by `;`, and returns the rows of the last one.

        Definitions take effect at once, and materialized views and sinks run from then on. Raises `Error` with the place in the
        text. Ctrl-C cancels what runs.
        """
        return Result(self._connection.sql(text))

    def push(self, name: str, data: Any) -> int:
        """Gives rows to a source with `connector = 'push'`, or adds them to a table, and returns how many there are.

        `data` is anything that offers Arrow data (pyarrow, pandas, polars, DuckDB), a list of dicts, or a dict of columns. Columns
        are found by their names; where types agree nothing is copied, and others are converted as `CAST` would. It waits while
        queries have more to do than they may hold in memory, and returns when the rows are taken in; if the source is durable, when
        they are on the disk. What is read from then on has them.
        """
        if not _arrow.offered(data):
            schema = _arrow.arrow_schema(self._connection.columns(name))
            if isinstance(data, Mapping):
                data = _arrow.from_columns(data, schema)
            elif isinstance(data, Iterable):
                data = _arrow.from_rows(data, schema)
            else:
                raise TypeError(f"rows are a table, a list of dicts or a dict of columns, not {type(data).__name__}")
        return self._connection.push(name, data)

    def view(
        self, name: str, sql: str | None = None, *, exists: Literal["error", "keep", "replace"] = "error"
    ) -> View:
        """Creates a materialized view of a query, and returns it; without a query, returns the one that there is.

        `exists` says what happens if there is one: it stays as it is, or a new query takes its place (`CREATE OR REPLACE`).
        """
        if sql is None:
            view = View(self, name)
            self.sql(f"SELECT * FROM {quoted(name)} LIMIT 0")
            return view
        if exists != "keep" or not self._connection.has(name):
            replace = "OR REPLACE " if exists == "replace" else ""
            self.sql(f"CREATE {replace}MATERIALIZED VIEW {quoted(name)} AS {sql}")
        return View(self, name)

    def close(self) -> None:
        """Closes the database: what its queries have taken in is answered and committed. Ctrl-C ends them at once."""
        self._connection.close()
        _open.discard(self)

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(
    folder: str | PathLike[str] | None = None,
    *,
    functions: Iterable[Function] = (),
    workers: int | None = None,
    strict: bool = False,
) -> Database:
    """Opens a database: in memory, or in a folder, which is created if it does not exist.

    The folder is as `tidemill serve --data` has it: definitions are kept, views continue where they were, and rows of durable
    sources are on the disk. One process at a time has it open. `functions` are those that its queries call; `workers` is the number
    of threads of each query, by default one for each core. A row over a stream that cannot be used, or a result that cannot be
    computed, is left out or NULL, and counted; with `strict`, the query stops there instead.
    """
    if isinstance(folder, str) and "://" in folder:
        raise ValueError("connect opens a folder; to reach a server, use a client of PostgreSQL such as psycopg or ADBC")
    return Database(Connection(folder, [function._definition() for function in functions], workers, strict))


_open: weakref.WeakSet[Database] = weakref.WeakSet()
"""Databases that are closed when the interpreter ends: afterwards, threads of the engine could not call functions."""


# The databases of a process that was forked are its parent's.
os.register_at_fork(after_in_child=_open.clear)


@atexit.register
def _close_all() -> None:
    for database in list(_open):
        database.close()
