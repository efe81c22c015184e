"""What a program with SQLAlchemy does with a server: it looks at tables, and reads them by expressions, through two drivers."""

import asyncio
import datetime
import decimal
import sys

import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

PORT, PASSWORD = sys.argv[1], sys.argv[2]


def address(driver):
    return f"postgresql+{driver}://ada:{PASSWORD}@127.0.0.1:{PORT}/db"


def equal(found, expected):
    if found != expected:
        raise AssertionError(f"{found!r} is not {expected!r}")


def looks(connection):
    inspector = sqlalchemy.inspect(connection)
    equal(inspector.get_schema_names(), ["information_schema", "public"])
    equal(inspector.get_table_names(), ["prices_in"])
    equal(inspector.get_view_names(), [])
    equal(inspector.get_materialized_view_names(), ["prices"])
    equal(inspector.has_table("prices"), True)
    equal(inspector.has_table("nothing"), False)


def reads(connection):
    columns = [sqlalchemy.Column("id", sqlalchemy.BigInteger), sqlalchemy.Column("price", sqlalchemy.Double),
               sqlalchemy.Column("name", sqlalchemy.String)]
    prices = sqlalchemy.Table("prices", sqlalchemy.MetaData(), *columns)
    dear = sqlalchemy.select(prices.c.name).where(prices.c.price > 2.0).order_by(prices.c.id.desc()).limit(2)
    equal(connection.execute(dear).scalars().all(), ["plum", "pear"])
    grouped = sqlalchemy.select(sqlalchemy.func.count(), sqlalchemy.func.sum(prices.c.price)).where(
        prices.c.name.in_(["apple", "plum"]) & prices.c.name.like("%p%")
    )
    equal(tuple(connection.execute(grouped).one()), (2, 5.0))
    given = {
        "n": decimal.Decimal("1.50"), "d": datetime.date(2026, 11, 22), "t": datetime.datetime(2026, 11, 22, 17, 5),
        "b": True, "s": "ö", "i": 7,
    }
    types = {
        "n": sqlalchemy.Numeric(10, 2), "d": sqlalchemy.Date, "t": sqlalchemy.DateTime, "b": sqlalchemy.Boolean,
        "s": sqlalchemy.String, "i": sqlalchemy.BigInteger,
    }
    marks = [sqlalchemy.cast(sqlalchemy.bindparam(name, value, types[name]), types[name]).label(name) for name, value in given.items()]
    equal(dict(connection.execute(sqlalchemy.select(*marks)).mappings().one()), given)
    equal(connection.execute(sqlalchemy.select(sqlalchemy.cast(None, sqlalchemy.BigInteger))).scalar(), None)


def fails(connection):
    try:
        connection.execute(sqlalchemy.text("SELECT nope FROM prices"))
        raise AssertionError("it is wrong")
    except sqlalchemy.exc.ProgrammingError as error:
        equal(error.orig.sqlstate, "42703")
        connection.rollback()


def everything(connection):
    looks(connection)
    reads(connection)
    fails(connection)
    with connection.begin_nested():
        equal(connection.scalar(sqlalchemy.text("SELECT count(*) FROM prices")), 3)


async def with_asyncpg():
    engine = create_async_engine(address("asyncpg"))
    async with engine.connect() as connection:
        await connection.run_sync(everything)
    await engine.dispose()


with sqlalchemy.create_engine(address("psycopg"), pool_pre_ping=True).connect() as synchronous:
    everything(synchronous)
asyncio.run(with_asyncpg())
print("done")
