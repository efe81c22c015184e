"""Functions in Python that queries call."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tidemill as tm


@tm.function([pa.float64(), pa.float64()], pa.float64())
def spread(low: pa.Array, high: pa.Array) -> pa.Array:
    """The width of a range."""
    return pc.subtract(high, low)


@tm.function([pa.int64()], pa.string(), name="Digits")
def digits(numbers: pa.Array) -> list[str | None]:
    return [None if number is None else str(number) for number in numbers.to_pylist()]


@tm.function([pa.int64()], pa.int64())
def broken(numbers: pa.Array) -> pa.Array:
    raise ValueError("not today")


@tm.function([pa.int64()], pa.int64())
def short(numbers: pa.Array) -> list[int]:
    return [1]


def test_queries_call_functions() -> None:
    assert (spread.name, digits.name) == ("spread", "digits")
    with tm.connect(functions=[spread, digits]) as db:
        assert db.sql("SELECT spread(1.0, 3.5), digits(12), digits(NULL)").fetchall() == [(2.5, "12", None)]
        text = "SELECT digits(value) AS d FROM sequence(count => 20000) WHERE length(digits(value)) = 2"
        assert [row[0] for row in db.sql(text)] == [str(number) for number in range(10, 100)]


def test_functions_in_views_run_beside_python() -> None:
    with tm.connect(functions=[spread], workers=2) as db:
        db.sql("CREATE SOURCE ranges (low DOUBLE, high DOUBLE) WITH (connector = 'push')")
        view = db.view("widest", "SELECT max(spread(low, high)) AS widest FROM ranges")
        for width in range(1, 50):
            db.push("ranges", {"low": [1.0] * 500, "high": [1.0 + width] * 500})
            assert view.fetchall() == [(float(width),)]


def test_what_a_function_raises_is_told() -> None:
    with tm.connect(functions=[broken, short]) as db:
        with pytest.raises(tm.Error, match="function 'broken': ValueError: not today"):
            db.sql("SELECT broken(1)").fetchall()
        with pytest.raises(tm.Error, match="'short' returned 1 values for 3 rows"):
            db.sql("SELECT short(n) FROM (VALUES (1), (2), (3)) AS v (n)").fetchall()
        assert db.sql("SELECT 1").fetchall() == [(1,)]


def test_a_function_needs_an_argument() -> None:
    with pytest.raises(ValueError, match="constant"):
        tm.function([], pa.int64())
