"""What the tests share."""

import threading
from collections.abc import Callable, Iterator

import pytest

import tidemill as tm


@pytest.fixture
def db() -> Iterator[tm.Database]:
    """A database in memory."""
    with tm.connect(workers=2) as database:
        yield database


@pytest.fixture
def ticks(db: tm.Database) -> tm.View:
    """The highest price of each symbol, of a source `ticks`."""
    db.sql("CREATE SOURCE ticks (sym TEXT NOT NULL, px DOUBLE, at TIMESTAMP) WITH (connector = 'push')")
    return db.view("highs", "SELECT sym, max(px) AS high, count(*) AS n FROM ticks GROUP BY sym")


@pytest.fixture
def within() -> Callable[..., None]:
    """Runs something on a thread, and fails if it does not end."""

    def run(seconds: float, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(seconds)
        assert not thread.is_alive(), f"it has not ended after {seconds} s"

    return run
