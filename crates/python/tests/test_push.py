"""Rows for sources and tables."""

import datetime
import os
import signal
import threading

import pandas
import polars
import pyarrow as pa
import pytest

import tidemill as tm

AT = datetime.datetime(2026, 1, 2, 3, 4, 5)
COLUMNS = {"sym": ["A", "B", "A"], "px": [1.5, 2.5, None], "at": [AT, AT, None]}
RESULT = [("A", 1.5, 2), ("B", 2.5, 1)]


@pytest.mark.parametrize(
    "data",
    [
        pa.table(COLUMNS),
        pa.table(COLUMNS).to_reader(),
        pa.record_batch(COLUMNS),
        pa.table(COLUMNS).select(["at", "px", "sym"]),
        pandas.DataFrame(COLUMNS),
        polars.DataFrame(COLUMNS),
        COLUMNS,
        [{"sym": "A", "px": 1.5, "at": str(AT)}, {"sym": "B", "px": 2.5}, {"sym": "A"}],
        ({"sym": sym, "px": px} for sym, px in [("A", 1.5), ("B", 2.5), ("A", None)]),
    ],
    ids=lambda data: f"{type(data).__module__}.{type(data).__name__}",
)
def test_rows_of_every_package(db: tm.Database, ticks: tm.View, data: object) -> None:
    assert db.push("ticks", data) == 3
    assert sorted(ticks.fetchall()) == RESULT


def test_times_arrive_as_they_are(db: tm.Database) -> None:
    db.sql("CREATE SOURCE s (at TIMESTAMP, day DATE) WITH (connector = 'push')")
    view = db.view("v", "SELECT at, day FROM s")
    db.push("s", polars.DataFrame({"at": [AT], "day": [AT.date()]}))
    db.push("s", pandas.DataFrame({"at": [AT], "day": ["2026-01-02"]}))
    db.push("s", [{"at": "2026-01-02 03:04:05", "day": AT.date()}])
    assert view.fetchall() == [(AT, AT.date())] * 3


def test_no_rows_and_many(db: tm.Database, ticks: tm.View) -> None:
    assert db.push("ticks", []) == 0
    assert db.push("ticks", pa.table(COLUMNS).slice(0, 0)) == 0
    many = pa.table({"sym": pa.array(["A", "B"] * 150_000), "px": pa.array([1.0, 2.0] * 150_000)})
    assert db.push("ticks", many) == 300_000
    assert sorted(ticks.fetchall()) == [("A", 1.0, 150_000), ("B", 2.0, 150_000)]


@pytest.mark.parametrize(
    ("data", "sqlstate", "words"),
    [
        ({"sym": ["A"], "prize": [1.0]}, "42703", "no column 'prize'"),
        ({"px": [1.0]}, "23502", "'sym' is NOT NULL"),
        ({"sym": ["A", None]}, "22000", "sym: the column is NOT NULL"),
        ({"sym": ["A"], "px": ["much"]}, "22000", "px: "),
        (pa.table([["A"], [{"a": 1}]], names=["sym", "px"]), "22000", "px: "),
        (pa.table([["A"], ["B"]], names=["sym", "sym"]), "42701", "more than once"),
    ],
)
def test_rows_that_do_not_fit(
    db: tm.Database, ticks: tm.View, data: object, sqlstate: str, words: str
) -> None:
    with pytest.raises(tm.Error) as raised:
        db.push("ticks", data)
    assert (raised.value.sqlstate, words in str(raised.value)) == (sqlstate, True), str(raised.value)
    assert ticks.fetchall() == []


def test_things_that_are_no_rows(db: tm.Database, ticks: tm.View) -> None:
    with pytest.raises(TypeError, match="list of dicts"):
        db.push("ticks", 7)
    with pytest.raises(TypeError, match="rows are needed"):
        db.push("ticks", pa.array([1, 2]))


def test_places_that_take_no_rows(db: tm.Database) -> None:
    with pytest.raises(tm.Error, match="there is no source 'nowhere'"):
        db.push("nowhere", {"a": [1]})
    db.sql("CREATE SOURCE s (a BIGINT) WITH (connector = 'push'); CREATE VIEW v AS SELECT a FROM s")
    with pytest.raises(tm.Error, match="no query reads 's'") as raised:
        db.push("s", {"a": [1]})
    assert raised.value.sqlstate == "55000"
    with pytest.raises(tm.Error) as raised:
        db.push("v", {"a": [1]})
    assert raised.value.sqlstate == "42809"


def test_who_pushes_reads_what_was_pushed(db: tm.Database, ticks: tm.View) -> None:
    for count in range(1, 101):
        db.push("ticks", {"sym": ["A"], "px": [float(count)]})
        assert ticks.fetchall() == [("A", float(count), count)]


def test_ctrl_c_ends_a_push(db: tm.Database, ticks: tm.View) -> None:
    rows = pa.record_batch({"sym": ["A"] * 1000, "px": [1.0] * 1000})

    def endless():  # type: ignore[no-untyped-def]
        while True:
            yield rows

    thread = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        db.push("ticks", pa.RecordBatchReader.from_batches(rows.schema, endless()))
    assert ticks.fetchall()[0][2] % 1000 == 0
