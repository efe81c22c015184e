"""The part of the package that is in Rust. It is not for users: names and arguments may change."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

class Error(Exception):
    """Why a statement or call was not carried out."""

    sqlstate: str
    """A code of five letters, as PostgreSQL has it."""
    position: int | None
    """The place in the text of the statement: the number of a character, from 1."""
    hint: str | None
    """What to do about it."""

class Column:
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

class Rows:
    message: str | None
    is_complete: bool
    def __arrow_c_schema__(self) -> object: ...
    def next_batch(self) -> Column | None: ...
    def cancel(self) -> None: ...

class Connection:
    def __new__(
        cls,
        folder: str | PathLike[str] | None = None,
        functions: Sequence[tuple[str, Callable[..., Any], Sequence[Any], Any]] = ...,
        workers: int | None = None,
        strict: bool = False,
    ) -> Connection: ...
    def sql(self, text: str) -> Rows: ...
    def push(self, name: str, data: object) -> int: ...
    def columns(self, name: str) -> object: ...
    def changes(self, view: str) -> Rows: ...
    def has(self, name: str) -> bool: ...
    def close(self) -> None: ...
