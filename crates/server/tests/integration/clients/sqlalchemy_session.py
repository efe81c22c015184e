"""What a program with SQLAlchemy does with a server: it looks at tables, and reads them by expressions, through three drivers."""

import asyncio
import datetime
import decimal
import io
import sys

import psycopg2
import psycopg2.extras
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
    equal(inspector.get_view_names(), ["Dear Ones"])
    equal(sorted(inspector.get_materialized_view_names()), ["newest", "prices", "totals", "visits"])
    equal(inspector.has_table("prices"), True)
    equal(inspector.has_table("nothing"), False)


def inspects(connection):
    inspector = sqlalchemy.inspect(connection)
    found = [(column["name"], str(column["type"]), column["nullable"]) for column in inspector.get_columns("prices")]
    equal(found, [("id", "BIGINT", False), ("price", "DOUBLE PRECISION", True), ("name", "TEXT", True)])
    found = [(column["name"], column["type"].compile(connection.dialect)) for column in inspector.get_columns("Dear Ones")]
    equal(found, [("id", "BIGINT"), ("pair", "DOUBLE PRECISION[]"), ("exact", "NUMERIC(10, 2)")])
    key = inspector.get_pk_constraint("newest")
    equal((key["constrained_columns"], key["name"]), (["id"], "newest_pkey"))
    # A key whose values can be NULL identifies rows, but is no primary key.
    equal(inspector.get_pk_constraint("totals")["constrained_columns"], [])
    [unique] = inspector.get_unique_constraints("totals")
    equal((unique["column_names"], unique["name"]), (["name", "id"], "totals_name_id_key"))
    indexes(connection, inspector)
    equal(inspector.get_foreign_keys("newest"), [])
    equal(inspector.get_check_constraints("newest"), [])
    equal(inspector.get_table_comment("newest"), {"text": None})


def indexes(connection, inspector):
    [index] = inspector.get_indexes("totals")
    equal((index["column_names"], index["unique"]), (["name", "id"], True))
    [index] = inspector.get_indexes("visits")
    equal((index["name"], index["column_names"], index["unique"]), ("visits_name_idx", ["name"], False))
    equal(inspector.get_indexes("prices"), [])

    newest = sqlalchemy.Table("newest", sqlalchemy.MetaData(), autoload_with=connection)
    equal([column.name for column in newest.primary_key], ["id"])
    equal([tuple(row) for row in connection.execute(sqlalchemy.select(newest.c.price).where(newest.c.id == 2))], [(2.5,)])
    everything = sqlalchemy.MetaData()
    everything.reflect(connection, views=True)
    equal(sorted(everything.tables), ["Dear Ones", "newest", "prices", "prices_in", "totals", "visits"])
    equal(connection.scalar(sqlalchemy.text("SELECT [price, 2.5] FROM prices WHERE id = 1")), [1.5, 2.5])


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
        equal(getattr(error.orig, "sqlstate", None) or error.orig.pgcode, "42703")
        connection.rollback()


def everything(connection):
    looks(connection)
    inspects(connection)
    reads(connection)
    fails(connection)
    with connection.begin_nested():
        equal(connection.scalar(sqlalchemy.text("SELECT count(*) FROM prices")), 3)


async def with_asyncpg():
    engine = create_async_engine(address("asyncpg"))
    async with engine.connect() as connection:
        await connection.run_sync(everything)
    await engine.dispose()


def with_psycopg2():
    """What programs do with the driver that is the default of SQLAlchemy."""
    connection = psycopg2.connect(host="127.0.0.1", port=PORT, user="ada", password=PASSWORD, dbname="db")
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE made_by_psycopg2 (id INT, note TEXT)")
        psycopg2.extras.execute_values(cursor, "INSERT INTO made_by_psycopg2 VALUES %s", [(1, "a"), (2, None)])
        cursor.copy_expert("COPY made_by_psycopg2 FROM STDIN WITH CSV", io.StringIO("3,x\n"))
    with connection, connection.cursor("named") as cursor:
        cursor.itersize = 2
        cursor.execute("SELECT id, note FROM made_by_psycopg2 ORDER BY id")
        equal(list(cursor), [(1, "a"), (2, None), (3, "x")])
    connection.autocommit = True
    connection.cursor().execute("DROP TABLE made_by_psycopg2")
    connection.close()


for driver in ("psycopg", "psycopg2"):
    with sqlalchemy.create_engine(address(driver), pool_pre_ping=True).connect() as synchronous:
        everything(synchronous)
with_psycopg2()
asyncio.run(with_asyncpg())
print("done")
