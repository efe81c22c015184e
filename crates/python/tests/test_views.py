"""Views and their changes."""

import asyncio
import threading

import pytest

import tidemill as tm


def test_a_view_that_exists(db: tm.Database, ticks: tm.View) -> None:
    db.push("ticks", {"sym": ["A"], "px": [1.0]})
    with pytest.raises(tm.Error) as raised:
        db.view("highs", "SELECT sym FROM ticks")
    assert raised.value.sqlstate == "42P07"
    assert db.view("highs", "SELECT 1 AS one", exists="keep").fetchall() == [("A", 1.0, 1)]
    assert db.view("highs").fetchall() == [("A", 1.0, 1)]
    replaced = db.view("highs", "SELECT sym, min(px) AS low FROM ticks GROUP BY sym", exists="replace")
    db.push("ticks", {"sym": ["A"], "px": [2.0]})
    assert replaced.rows().columns == ["sym", "low"]
    with pytest.raises(tm.Error) as raised:
        db.view("lows")
    assert raised.value.sqlstate == "42P01"


def test_a_view_as_a_data_frame(db: tm.Database, ticks: tm.View) -> None:
    db.push("ticks", {"sym": ["A", "B"], "px": [1.0, 2.0]})
    assert ticks.df().sort_values("sym")["high"].tolist() == [1.0, 2.0]
    assert ticks.pl().sort("sym")["high"].to_list() == [1.0, 2.0]
    assert ticks.arrow().num_rows == 2
    assert "<table>" in ticks._repr_html_()


def test_names_are_taken_as_they_are(db: tm.Database) -> None:
    view = db.view('Odd "name"', "SELECT value FROM sequence(count => 2)")
    assert [change.weight for change in view.changes()] == [1, 1]
    assert sorted(view.fetchall()) == [(0,), (1,)]


def test_changes_come_as_they_happen(db: tm.Database, ticks: tm.View) -> None:
    db.push("ticks", {"sym": ["A"], "px": [1.0]})
    changes = iter(ticks.changes())
    first = next(changes)
    assert (first.weight, first.row) == (1, {"sym": "A", "high": 1.0, "n": 1})
    db.push("ticks", {"sym": ["A"], "px": [3.0]})
    left, came = next(changes), next(changes)
    assert (left.weight, left.row["high"], came.weight, came.row["high"]) == (-1, 1.0, 1, 3.0)
    assert left.cycle == came.cycle > first.cycle
    batch = next(ticks.changes().batches())
    assert batch.schema.names == ["cycle", "change", "sym", "high", "n"]


def test_changes_end_with_the_query_and_fail_if_it_is_dropped(db: tm.Database, ticks: tm.View) -> None:
    finite = db.view("finite", "SELECT value FROM sequence(count => 3)")
    assert len(list(finite.changes())) == 3
    changes = ticks.changes()
    threading.Timer(0.2, lambda: db.sql("DROP MATERIALIZED VIEW highs")).start()
    with pytest.raises(tm.Error, match="dropped"):
        list(changes)


def test_changes_without_blocking(db: tm.Database, ticks: tm.View) -> None:
    async def follow(count: int) -> list[float]:
        highs = []
        async for change in ticks.changes():
            if change.weight > 0:
                highs.append(change.row["high"])
            if len(highs) == count:
                break
        return highs

    async def push() -> None:
        for price in range(1, 4):
            await asyncio.sleep(0.05)
            await asyncio.to_thread(db.push, "ticks", {"sym": ["A"], "px": [float(price)]})

    async def both() -> list[float]:
        # More than the threads of a loop.
        followers = [asyncio.create_task(follow(3)) for _ in range(20)]
        await asyncio.sleep(0.2)
        await push()
        results = await asyncio.wait_for(asyncio.gather(*followers), 30)
        assert all(result == results[0] for result in results)
        return results[0]

    assert asyncio.run(both()) == [1.0, 2.0, 3.0]


def test_a_task_that_follows_changes_can_be_cancelled(db: tm.Database, ticks: tm.View) -> None:
    async def follow() -> None:
        async for _ in ticks.changes():
            pass

    async def run() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(follow(), 0.3)

    asyncio.run(run())
