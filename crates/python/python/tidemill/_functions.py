"""Functions in Python that queries call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidemill._tidemill import Column


@dataclass(frozen=True)
class Function:
    """A function that queries call by its name. It can still be called in Python."""

    name: str
    """What it is called in SQL."""
    implementation: Callable[..., Any]
    """What computes it: whole columns (`pyarrow.Array`) in, one column of as many values out."""
    arguments: tuple[pa.DataType, ...]
    """The types of its arguments."""
    returns: pa.DataType
    """The type of its result."""

    def __call__(self, *columns: Any) -> Any:
        return self.implementation(*columns)

    def _definition(self) -> tuple[str, Callable[..., pa.Array], list[pa.DataType], pa.DataType]:
        def call(*columns: Column) -> pa.Array:
            result = self.implementation(*(pa.array(column) for column in columns))
            if isinstance(result, pa.ChunkedArray):
                result = result.combine_chunks()
            if isinstance(result, pa.Array):
                return result if result.type == self.returns else result.cast(self.returns)
            return pa.array(result, type=self.returns)

        return self.name, call, list(self.arguments), self.returns


def function(
    arguments: Sequence[pa.DataType], returns: pa.DataType, name: str | None = None
) -> Callable[[Callable[..., Any]], Function]:
    """Declares a function for queries: pass it to `connect(functions=[...])`.

    It must be pure, that is depend on its arguments only, because a durable query computes rows again after a restart. Its
    columns may have NULLs. The result is a `pyarrow.Array`, an array of numpy, or a list, with a value for each row.

    >>> import pyarrow as pa
    >>> import pyarrow.compute as pc
    >>> import tidemill as tm
    >>> @tm.function([pa.float64()], pa.float64())
    ... def celsius(fahrenheit):
    ...     return pc.divide(pc.multiply(pc.subtract(fahrenheit, 32.0), 5.0), 9.0)
    >>> with tm.connect(functions=[celsius]) as db:
    ...     db.sql("SELECT celsius(212.0)").fetchall()
    [(100.0,)]
    """
    if not arguments:
        raise ValueError("a function needs an argument: a function of nothing is a constant")

    def declare(implementation: Callable[..., Any]) -> Function:
        called = name if name is not None else str(getattr(implementation, "__name__", ""))
        return Function(called.lower(), implementation, tuple(arguments), returns)

    return declare
