"""Rows that a statement gives, and the changes of a view."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from tidemill._arrow import arrow_schema

if TYPE_CHECKING:
    import pandas
    import polars

    from tidemill._tidemill import Rows

ROWS_SHOWN = 20
"""How many rows a notebook shows."""


class Result:
    """Rows that a statement gives. Pass it to anything that reads Arrow data: pyarrow, polars, pandas, DuckDB.

    The rows of a query over streams come as they are computed; such rows are taken once. Other rows are there, and can be read
    again.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._table: pa.Table | None = None
        self.schema: pa.Schema = arrow_schema(rows.__arrow_c_schema__())
        """The columns."""

    @property
    def message(self) -> str | None:
        """What was done, if the statement gives no rows."""
        return self._rows.message

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.schema.names)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows as Arrow batches, each as soon as it is there."""
        if self._table is not None:
            yield from self._table.to_batches()
            return
        if self._rows.is_complete:
            yield from self.arrow().to_batches()
            return
        while (column := self._rows.next_batch()) is not None:
            yield pa.record_batch(column)

    def arrow(self) -> pa.Table:
        """Waits for all rows, and returns them as a `pyarrow.Table`."""
        if self._table is None:
            batches = []
            while (column := self._rows.next_batch()) is not None:
                batches.append(pa.record_batch(column))
            self._table = pa.Table.from_batches(batches, self.schema)
        return self._table

    def df(self) -> pandas.DataFrame:
        """Waits for all rows, and returns them as a data frame of pandas."""
        return self.arrow().to_pandas()

    def pl(self) -> polars.DataFrame:
        """Waits for all rows, and returns them as a data frame of polars."""
        import polars

        return polars.DataFrame(self.arrow())

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Waits for all rows, and returns them as tuples. Times have microseconds, as those of Python do."""
        return list(self)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yields the rows as tuples, each as soon as it is there."""
        for batch in self.batches():
            yield from _tuples(batch)

    def cancel(self) -> None:
        """Ends the query whose rows these are, from any thread."""
        self._rows.cancel()

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        reader = pa.RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        if self.message is not None:
            return self.message
        if self._table is None and not self._rows.is_complete:
            return f"rows of {', '.join(self.columns)}, which come as they are taken"
        table = self.arrow()
        lines = ["\t".join(self.columns)]
        lines += ["\t".join(map(str, row)) for row in _tuples_of(table.slice(0, ROWS_SHOWN))]
        return "\n".join([*lines, *_left(table)])

    def _repr_html_(self) -> str:
        if self.message is not None or (self._table is None and not self._rows.is_complete):
            return f"<p>{escape(repr(self))}</p>"
        table = self.arrow()
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        rows = (
            "".join(f"<td>{'' if value is None else escape(str(value))}</td>" for value in row)
            for row in _tuples_of(table.slice(0, ROWS_SHOWN))
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        left = "".join(f"<p>{line}</p>" for line in _left(table))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{left}"


class Change(NamedTuple):
    """A row that a view got or lost."""

    cycle: int
    """The cycle after which it counts."""
    weight: int
    """1: the view got the row; -1: it lost it."""
    row: dict[str, Any]
    """The row, by the names of its columns."""


class Changes:
    """The rows of a view, and then its changes as they come: `for change in ...` or `async for change in ...`.

    It ends with the query of the view. A reader that is so slow that the view no longer keeps what it has missed gets an error.
    """

    def __init__(self, rows: Rows) -> None:
        self._result = Result(rows)
        self._rows = rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the changes as Arrow batches with the columns `cycle`, `change` (`insert` or `delete`), and those of the view."""
        return self._result.batches()

    def __iter__(self) -> Iterator[Change]:
        for batch in self.batches():
            yield from _changes(batch)

    async def __aiter__(self) -> AsyncIterator[Change]:
        loop = asyncio.get_running_loop()
        # A thread of its own: threads of the loop would be missing to others while this one waits.
        with ThreadPoolExecutor(1, thread_name_prefix="tidemill changes") as thread:
            try:
                while (column := await loop.run_in_executor(thread, self._rows.next_batch)) is not None:
                    for change in _changes(pa.record_batch(column)):
                        yield change
            finally:
                # Or leaving the loop would wait for the next change.
                self._rows.cancel()

    def cancel(self) -> None:
        """Ends it, from any thread."""
        self._rows.cancel()


def _changes(batch: pa.RecordBatch) -> Iterator[Change]:
    names = batch.schema.names[2:]
    for cycle, change, *values in _tuples(batch):
        yield Change(cycle, 1 if change == "insert" else -1, dict(zip(names, values, strict=True)))


def _tuples(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    return zip(*(_values(column) for column in batch.columns), strict=True)


def _values(column: pa.Array) -> list[Any]:
    # Times of Python have microseconds; pyarrow would give those of pandas if that is installed.
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    return list(column.to_pylist())


def _tuples_of(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    for batch in table.to_batches():
        yield from _tuples(batch)


def _left(table: pa.Table) -> list[str]:
    left = table.num_rows - ROWS_SHOWN
    return [f"... and {left} more rows"] if left > 0 else []
