"""What a program with asyncpg does with a server: values in binary form, parameters, errors, transactions, a pool, a copy."""

import asyncio
import datetime
import decimal
import io
import sys

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
    # It knows lists of texts by itself, and asks for the types of others: those it gets as texts.
    row = await connection.fetchrow("SELECT ['a', NULL, 'b c'] AS texts, [1, 2] AS numbers")
    equal(tuple(row), (["a", None, "b c"], "{1,2}"))


async def parameters(connection):
    typed = [
        ("BIGINT", -(2**40)), ("INTEGER", 7), ("SMALLINT", -7), ("DOUBLE", 0.1), ("BOOLEAN", True), ("VARCHAR", "it's"),
        ("DECIMAL(10, 2)", decimal.Decimal("-0.50")), ("DATE", datetime.date(1969, 12, 31)),
        ("TIMESTAMP", datetime.datetime(2026, 11, 22, 17, 5, 0, 1)), ("BYTEA", b"\x00'\xff"),
    ]
    for name, value in typed:
        equal(await connection.fetchval(f"SELECT CAST($1 AS {name})", value), value)
        equal(await connection.fetchval(f"SELECT CAST($1 AS {name})", None), None)
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
