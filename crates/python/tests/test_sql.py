"""Statements, their results and their errors."""

import datetime
import os
import signal
import threading
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pytest

import tidemill as tm


def test_the_last_statement_gives_the_rows(db: tm.Database) -> None:
    rows = db.sql("CREATE VIEW v AS SELECT 1 AS a; SELECT a, 'x' AS b FROM v; SELECT a + 1 AS c FROM v;")
    assert (rows.columns, rows.fetchall(), rows.fetchall()) == (["c"], [(2,)], [(2,)])
    assert db.sql("CREATE VIEW w AS SELECT 1 AS a").message is not None
    assert db.sql("").fetchall() == []


def test_values_of_each_type(db: tm.Database) -> None:
    text = """SELECT 1::BIGINT, 1.5::DOUBLE, 'ä', true, NULL::INT, DATE '2026-01-02', TIMESTAMP '2026-01-02 03:04:05.678',
              1.25::DECIMAL(10,2), [1, 2, 3]"""
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000)
    row = db.sql(text).fetchall()[0]
    assert row[:6] == (1, 1.5, "ä", True, None, datetime.date(2026, 1, 2))
    assert row[6] == at
    assert (float(row[7]), row[8]) == (1.25, [1, 2, 3])


def test_other_packages_read_a_result(db: tm.Database) -> None:
    rows = db.sql("SELECT value AS n FROM sequence(count => 1000)")
    assert rows.arrow().column("n").to_pylist() == list(range(1000))
    assert polars.DataFrame(rows)["n"].sum() == 499_500
    assert rows.pl()["n"].sum() == 499_500
    assert rows.df()["n"].sum() == 499_500
    assert pa.table(rows).num_rows == 1000
    assert duckdb.sql("SELECT sum(n) FROM rows").fetchall() == [(499_500,)]


def test_a_column_is_handed_over_without_a_copy(db: tm.Database) -> None:
    rows = db.sql("SELECT value AS n FROM sequence(count => 1000)").arrow()
    frame = polars.DataFrame(rows)
    buffer = rows.column("n").chunk(0).buffers()[1]
    assert frame.to_arrow().column("n").chunk(0).buffers()[1].address == buffer.address


def test_rows_of_a_stream_come_as_they_are_taken(db: tm.Database) -> None:
    rows = db.sql("SELECT value FROM sequence(rate => 1000)")
    assert "come" in repr(rows)
    taken = [row for row, _ in zip(rows, range(50))]
    assert taken == [(n,) for n in range(50)]
    rows.cancel()


def test_what_is_shown(db: tm.Database) -> None:
    rows = db.sql("SELECT value AS n, '<b>' AS text FROM sequence(count => 30) ORDER BY value")
    html = rows._repr_html_()
    assert html.count("<tr>") == 21 and "&lt;b&gt;" in html and "and 10 more rows" in html
    assert repr(rows).splitlines()[:2] == ["n\ttext", "0\t<b>"]
    plan = db.sql("EXPLAIN SELECT value FROM sequence(count => 3)")
    assert plan.columns == ["text"] and "sequence" in repr(plan)
    measured = db.sql("EXPLAIN ANALYZE SELECT value FROM sequence(count => 3)")
    assert len(measured.fetchall()) > 3


def test_an_error_has_its_place_its_code_and_a_hint(db: tm.Database) -> None:
    db.sql("CREATE VIEW ticks AS SELECT 1 AS px")
    with pytest.raises(tm.Error) as raised:
        db.sql("SELECT px\nFROM tick")
    error = raised.value
    assert (error.sqlstate, error.position) == ("42P01", 16)
    assert error.hint is not None and "ticks" in error.hint
    assert "sql:2:6" in str(error) and str(error).count(error.hint) == 1
    with pytest.raises(tm.Error) as raised:
        db.sql("SELEKT 1")
    assert raised.value.sqlstate in ("42601", "42000")
    with pytest.raises(tm.Error) as raised:
        db.sql("SELECT value % 3, count(*) FROM sequence(rate => 10) GROUP BY 1")
    assert raised.value.sqlstate == "0A000" and "MATERIALIZED VIEW" in str(raised.value.hint)


def test_a_closed_database_says_so() -> None:
    database = tm.connect()
    database.close()
    database.close()
    with pytest.raises(tm.Error, match="closed"):
        database.sql("SELECT 1")


def test_a_folder_keeps_views_and_their_rows(tmp_path: Path) -> None:
    functions = [tm.function([pa.int64()], pa.int64(), name="twice")(lambda n: [value.as_py() * 2 for value in n])]
    with tm.connect(tmp_path / "data", functions=functions) as database:
        database.sql("CREATE SOURCE readings (n BIGINT) WITH (connector = 'push', durable = true)")
        view = database.view("totals", "SELECT sum(twice(n)) AS total FROM readings")
        database.push("readings", {"n": [1, 2, 3]})
        assert view.fetchall() == [(12,)]
        with pytest.raises(tm.Error, match="process"):
            tm.connect(tmp_path / "data")
    with tm.connect(tmp_path / "data", functions=functions) as database:
        view = database.view("totals")
        database.push("readings", {"n": [4]})
        assert view.fetchall() == [(20,)]


def test_a_server_is_not_a_folder() -> None:
    with pytest.raises(ValueError, match="psycopg"):
        tm.connect("postgres://localhost/db")


def test_ctrl_c_ends_a_statement(db: tm.Database) -> None:
    thread = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        db.sql("SELECT count(*) FROM sequence(count => 100000000000)")
    assert db.sql("SELECT 1").fetchall() == [(1,)]


def test_ctrl_c_ends_a_stream(db: tm.Database) -> None:
    thread = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        for _ in db.sql("SELECT value FROM sequence(rate => 10)"):
            pass
    assert db.sql("SELECT 1").fetchall() == [(1,)]
