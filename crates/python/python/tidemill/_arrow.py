"""Data of other packages as something that offers Arrow data by the PyCapsule interface."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa


class Schema:
    """A schema that is handed over once, to pyarrow."""

    def __init__(self, capsule: object) -> None:
        self._capsule = capsule

    def __arrow_c_schema__(self) -> object:
        return self._capsule


def arrow_schema(capsule: object) -> pa.Schema:
    """Returns the schema in a capsule."""
    return pa.schema(Schema(capsule))


def offered(data: Any) -> bool:
    """Returns whether an object offers Arrow data by itself."""
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def from_rows(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Returns rows as a table with the columns of `schema` that they name.

    A column that no row names is left out, and a name that is no column stays, so that it is refused with its name.
    """
    rows = list(rows)
    if not rows:
        return schema.empty_table()
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    return from_columns(columns, schema)


def from_columns(columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """Returns columns by their names as a table."""

    def column(name: str, values: Any) -> Any:
        if isinstance(values, (pa.Array, pa.ChunkedArray)) or name not in schema.names:
            return values
        return _array(name, values, schema.field(name).type)

    return pa.table({name: column(name, values) for name, values in columns.items()})


def _array(name: str, values: Any, wanted: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, type=wanted)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    # Texts become times and numbers where SQL would read them; what does not fit is refused by the database, with the column.
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"column '{name}' is {wanted}: {error}") from error
