"""Threads, processes, and the end of the program."""

import gc
import multiprocessing
import subprocess
import sys
import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

import tidemill as tm


def test_threads_push_and_read_at_once(db: tm.Database, ticks: tm.View) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(20):
                db.push("ticks", {"sym": [f"S{number}"] * 10, "px": [1.0] * 10})
                found = dict((row[0], row[2]) for row in ticks.fetchall())
                assert found[f"S{number}"] % 10 == 0
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert sorted(ticks.fetchall()) == [(f"S{number}", 1.0, 200) for number in range(8)]


def test_others_run_while_one_waits(
    db: tm.Database, ticks: tm.View, within: Callable[[float, Callable[[], None]], None]
) -> None:
    changes = ticks.changes()

    def wait() -> None:
        with pytest.raises(tm.Error, match="cancelled"):
            list(changes)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    within(30, lambda: ticks.fetchall() and None)
    changes.cancel()
    waiting.join(30)
    assert not waiting.is_alive()


def in_child(queue: "multiprocessing.Queue[str]", database: tm.Database) -> None:
    try:
        database.sql("SELECT 1")
        queue.put("it worked")
    except tm.Error as error:
        queue.put(str(error))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_is_told(db: tm.Database) -> None:
    context = multiprocessing.get_context("fork")
    queue: multiprocessing.Queue[str] = context.Queue()
    child = context.Process(target=in_child, args=(queue, db))
    child.start()
    assert "does not survive fork()" in queue.get(timeout=30)
    child.join(30)
    assert child.exitcode == 0
    assert db.sql("SELECT 1").fetchall() == [(1,)]


PROGRAM = """
import pyarrow as pa, tidemill as tm
same = tm.function([pa.int64()], pa.int64(), name="same")(lambda n: n)
db = tm.connect(functions=[same])
db.sql("CREATE SOURCE s (n BIGINT) WITH (connector = 'push')")
view = db.view("v", "SELECT same(n) AS n FROM s")
db.view("w", "SELECT same(value) AS n FROM sequence(rate => 1000)")
stream = iter(db.sql("SELECT same(value) FROM sequence(rate => 1000)"))
next(stream)
db.push("s", {"n": [1]})
print(view.fetchall())
"""


def test_a_program_ends_with_a_database_open() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "[(1,)]\n", "")


def test_what_is_dropped_ends() -> None:
    same = tm.function([pa.int64()], pa.int64(), name="same")(lambda n: n)
    for _ in range(5):
        database = tm.connect(functions=[same])
        rows = iter(database.sql("SELECT same(value) FROM sequence(rate => 100000)"))
        next(rows)
        del rows, database
        gc.collect()
