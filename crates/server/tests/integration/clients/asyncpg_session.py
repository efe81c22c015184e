"""What a program with asyncpg does with a server: values in binary form, parameters, errors, transactions, a pool, a copy."""

import asyncio
import datetime
import decimal
import io
import sys
import time

import asyncpg

PORT, PASSWORD = int(sys.argv[1]), sys.argv[2]
ADDRESS = {"host": "127.0.0.1", "port": PORT, "user": "ada", "password": PASSWORD, "database": "db"}


def equal(found, expected):
    if found != expected:
        raise AssertionError(f"{found!r} is not {expected!r}")


async def values(connection):
    row = await connection.fetchrow(
        """SELECT true AS b, CAST(-2 AS SMALLINT) AS s, CAST(3 AS INTEGER) AS i, CAST(-4 AS BIGINT) AS l, 1e300 AS d,
        'ö' AS t, X'00ff' AS x, CAST(-12345.678 AS DECIMAL(10, 3)) AS n, DATE '2026-11-22' AS day,
        TIMESTAMP '2026-11-22 17:05:00.25' AS at, INTERVAL '1 day 2 hours' AS span, CAST(NULL AS BIGINT) AS nothing"""
    )
    equal(tuple(row), (
        True, -2, 3, -4, 1e300, "ö", b"\x00\xff", decimal.Decimal("-12345.678"), datetime.date(2026, 11, 22),
        datetime.datetime(2026, 11, 22, 17, 5, 0, 250000), datetime.timedelta(days=1, hours=2), None,
    ))
    equal(row["n"], decimal.Decimal("-12345.678"))
    # It knows lists of texts by itself, and asks for the types of others.
    row = await connection.fetchrow(
        "SELECT ['a', NULL, 'b c'] AS texts, [1, NULL, 2] AS numbers, [DATE '2026-11-22'] AS days, [true] AS truths"
    )
    equal(tuple(row), (["a", None, "b c"], [1, None, 2], [datetime.date(2026, 11, 22)], [True]))


async def parameters(connection):
    typed = [
        ("BIGINT", -(2**40)), ("INTEGER", 7), ("SMALLINT", -7), ("DOUBLE", 0.1), ("BOOLEAN", True), ("VARCHAR", "it's"),
        ("DECIMAL(10, 2)", decimal.Decimal("-0.50")), ("DATE", datetime.date(1969, 12, 31)),
        ("TIMESTAMP", datetime.datetime(2026, 11, 22, 17, 5, 0, 1)), ("BYTEA", b"\x00'\xff"),
    ]
    for name, value in typed:
        equal(await connection.fetchval(f"SELECT CAST($1 AS {name})", value), value)
        equal(await connection.fetchval(f"SELECT CAST($1 AS {name})", None), None)
    lists = [
        ("BIGINT", [1, -(2**63), None]), ("SMALLINT", []), ("VARCHAR", ["a", None, "null", 'x"y\\z{},ö ', ""]),
        ("DOUBLE", [0.1, float("inf")]), ("BOOLEAN", [True, False, None]), ("DATE", [datetime.date(1969, 12, 31)]),
        ("DECIMAL(10, 2)", [decimal.Decimal("-0.50"), None]), ("BYTEA", [b"\x00'\xff", b""]), ("INTEGER", None),
        ("TIMESTAMP", [datetime.datetime(2026, 11, 22, 17, 5, 0, 1)]), ("INTERVAL", [datetime.timedelta(-1, 2, 3)]),
    ]
    for name, value in lists:
        equal(await connection.fetchval(f"SELECT CAST($1 AS {name}[])", value), value)
    among = "SELECT name FROM prices WHERE id = ANY($1) ORDER BY id"
    equal([row["name"] for row in await connection.fetch(among, [3, 1, 7])], ["apple", "plum"])
    equal([row["name"] for row in await connection.fetch("SELECT name FROM prices WHERE name <> ALL($1)", ["apple", "plum"])], ["pear"])
    equal(await connection.fetch("SELECT name FROM prices WHERE NOT id = ANY($1)", [3, None]), [])
    # Where only a constant can stand, and where its type follows from the place.
    places = [
        ("SELECT date_trunc($1, TIMESTAMP '2026-01-05 10:00:00')", ["month"], datetime.datetime(2026, 1, 1)),
        ("SELECT date_part($1, TIMESTAMP '2026-01-05 10:00:00')", ["day"], 5),
        ("SELECT TIMESTAMP '2026-01-05 10:00:00' + $1", [datetime.timedelta(hours=1)], datetime.datetime(2026, 1, 5, 11)),
        ("SELECT count(*) FROM (SELECT id FROM prices LIMIT $1 OFFSET $2) few", [2, 1], 2),
        ("SELECT max(id) FROM prices WHERE id IN ($1, $2) AND price BETWEEN $3 AND $4", [1, 2, 0.0, 9.0], 2),
        ("SELECT max(name) FROM prices WHERE name LIKE $1 OR ($2::text IS NULL AND id < $3)", ["pe%", None, 0], "pear"),
        ("SELECT CASE WHEN $1 THEN coalesce($2, 'x') ELSE 'y' END", [True, None], "x"),
        ("SELECT substring('apple' FROM $1 FOR $2) || $3", [2, 3, "!"], "ppl!"),
    ]
    for text, given, expected in places:
        equal(await connection.fetchval(text, *given), expected)
    statement = await connection.prepare("SELECT name FROM prices WHERE price > $1 AND id < $2 ORDER BY id")
    equal([row["name"] for row in await statement.fetch(2.0, 3)], ["pear"])
    equal([row["name"] for row in await statement.fetch(0.0, 9)], ["apple", "pear", "plum"])
    equal([attribute.name for attribute in statement.get_attributes()], ["name"])


async def errors(connection):
    try:
        await connection.fetch("SELECT nope FROM prices")
        raise AssertionError("it is wrong")
    except asyncpg.UndefinedColumnError as error:
        equal(error.position, "8")
    try:
        async with connection.transaction():
            await connection.fetch("SELECT * FROM nothing")
    except asyncpg.UndefinedTableError:
        pass
    try:
        await connection.fetch("SELECT value FROM sequence(rate => 10) WHERE value < 0", timeout=0.2)
        raise AssertionError("it has no end")
    except asyncio.TimeoutError:
        pass
    await connection.execute("SET statement_timeout = '100ms'")
    try:
        await connection.fetch("SELECT value FROM sequence(rate => 10) WHERE value < 0")
        raise AssertionError("it has no end")
    except asyncpg.QueryCanceledError:
        await connection.execute("RESET statement_timeout")
    equal(await connection.fetchval("SELECT 1"), 1)


async def transactions(connection):
    async with connection.transaction(readonly=True, isolation="repeatable_read"):
        equal(await connection.fetchval("SELECT count(*) FROM prices"), 3)
        async with connection.transaction():
            equal(await connection.fetchval("SELECT max(id) FROM prices"), 3)
        found = [row["id"] async for row in connection.cursor("SELECT id FROM prices WHERE id > $1 ORDER BY id", 1)]
        equal(found, [2, 3])


async def copies(connection):
    out = io.BytesIO()
    await connection.copy_from_query("SELECT id, name FROM prices WHERE id < $1 ORDER BY id", 3, output=out, format="csv")
    equal(out.getvalue(), b"1,apple\n2,pear\n")
    await connection.execute(
        """CREATE SOURCE copied_in (b BOOLEAN, s SMALLINT, i INTEGER, l BIGINT, r REAL, d DOUBLE, n DECIMAL(20, 5), t VARCHAR,
        day DATE, time TIME, at TIMESTAMP, span INTERVAL) WITH (connector = 'push');
        CREATE MATERIALIZED VIEW copied AS SELECT * FROM copied_in"""
    )
    rows = [
        (True, -2, 3, -4, 1.5, 1e300, decimal.Decimal("-12345.67800"), 'a\tb\\N\n\r"ö', datetime.date(1969, 12, 31),
         datetime.time(23, 59, 59, 999999), datetime.datetime(2026, 11, 22, 17, 5, 0, 1), datetime.timedelta(1, 2, 3)),
        (None,) * 12,
        (False, 32767, -(2**31), -(2**63), float("inf"), -0.1, decimal.Decimal(0), "", datetime.date(2262, 1, 1),
         datetime.time(0), datetime.datetime(1700, 1, 1), datetime.timedelta(-1, 0, -3)),
    ]
    equal(await connection.copy_records_to_table("copied_in", records=rows), "COPY 3")
    start = time.monotonic()
    while await connection.fetchval("SELECT count(*) FROM copied") < 3:
        if time.monotonic() > start + 120:
            raise AssertionError("the view has no rows")
    equal([tuple(row) for row in await connection.fetch("SELECT * FROM copied")], rows)
    out = io.BytesIO()
    await connection.copy_from_query("SELECT * FROM copied", output=out, format="binary")
    out.seek(0)
    equal(await connection.copy_to_table("copied_in", source=out, format="binary"), "COPY 3")
    while await connection.fetchval("SELECT count(*) FROM copied") < 6:
        if time.monotonic() > start + 120:
            raise AssertionError("the view has no more rows")
    equal([tuple(row) for row in await connection.fetch("SELECT * FROM copied")], rows + rows)


async def follows(connection):
    async with connection.transaction():
        changes = await connection.cursor("SUBSCRIBE TO prices")
        equal([row["name"] for row in await changes.fetch(3)], ["apple", "pear", "plum"])


async def main():
    connection = await asyncpg.connect(**ADDRESS)
    for step in (values, parameters, errors, transactions, copies, follows):
        await step(connection)
    await connection.close()
    async with asyncpg.create_pool(min_size=1, max_size=3, **ADDRESS) as pool:
        found = await asyncio.gather(*(pool.fetchval("SELECT name FROM prices WHERE id = $1", 1 + n % 3) for n in range(9)))
        equal(found, ["apple", "pear", "plum"] * 3)
    try:
        await asyncpg.connect(**{**ADDRESS, "password": "wrong"})
        raise AssertionError("it is the wrong password")
    except asyncpg.InvalidPasswordError:
        pass
    print("done")


asyncio.run(main())
