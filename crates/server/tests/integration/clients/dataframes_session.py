"""What programs that read tables do with a server: ADBC, polars, pandas, SQLAlchemy's streamed rows, and pgcli's questions."""

import sys

import adbc_driver_postgresql.dbapi as adbc
import pandas
import polars
import psycopg
import pyarrow
import sqlalchemy
from pgcli.pgexecute import PGExecute
from pgspecial.main import PGSpecial

PORT, PASSWORD = sys.argv[1:]
URL = f"postgresql://ada:{PASSWORD}@127.0.0.1:{PORT}/tidemill"
QUERY = "SELECT id, price, name FROM prices ORDER BY id"
ROWS = [(1, 1.5, "apple"), (2, 2.5, "pear"), (3, 3.5, "plum")]


def equal(found, expected):
    if found != expected:
        raise AssertionError(f"{found!r} is not {expected!r}")


def reads_with_adbc():
    with adbc.connect(URL) as connection, connection.cursor() as cursor:
        cursor.execute(QUERY)
        equal(cursor.fetch_arrow_table().to_pydict(), dict(zip(("id", "price", "name"), map(list, zip(*ROWS)))))
        cursor.execute("SELECT name FROM prices WHERE id = $1 AND price > $2", (2, 1.0))
        equal(cursor.fetchall(), [("pear",)])
        schema = connection.adbc_get_table_schema("prices")
        equal(dict(zip(schema.names, schema.types)),
              {"id": pyarrow.int64(), "price": pyarrow.float64(), "name": pyarrow.string()})
        objects = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
        tables = [table["table_name"] for catalogue in objects for schema in catalogue["catalog_db_schemas"] or []
                  for table in schema["db_schema_tables"] or [] if schema["db_schema_name"] == "public"]
        equal({"prices", "prices_in", "Dear Ones"} <= set(tables), True)


def writes_with_adbc():
    with adbc.connect(URL) as connection, connection.cursor() as cursor:
        table = pyarrow.table({"id": [8], "price": [8.5], "name": ["quince"]})
        equal(cursor.adbc_ingest("prices_in", table, mode="append"), 1)
        connection.commit()


def reads_with_polars():
    for engine in ("adbc", "connectorx"):
        equal(polars.read_database_uri(QUERY, URL, engine=engine).rows(), ROWS)
    with psycopg.connect(URL) as connection:
        equal(polars.read_database(QUERY, connection).rows(), ROWS)


def streams():
    engine = sqlalchemy.create_engine(URL.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        streamed = connection.execution_options(stream_results=True, max_row_buffer=1)
        equal([tuple(row) for row in streamed.execute(sqlalchemy.text(QUERY))], ROWS)
        pieces = pandas.read_sql(QUERY, streamed, chunksize=2)
        equal([piece.values.tolist() for piece in pieces], [[list(row) for row in ROWS[:2]], [list(ROWS[2])]])
        exact = sqlalchemy.inspect(engine).get_columns("Dear Ones")[2]["type"]
        equal((exact.precision, exact.scale), (10, 2))


def asks_as_pgcli():
    pgcli = PGExecute(database="tidemill", user="ada", password=PASSWORD, host="127.0.0.1", port=PORT)
    equal(sorted(pgcli.schemata()), ["information_schema", "pg_catalog", "public"])
    equal(("public", "prices_in") in pgcli.tables(), True)
    equal(sorted(pgcli.views()), [("public", name) for name in ("Dear Ones", "newest", "prices", "totals", "visits")])
    columns = [column[2] for column in pgcli.table_columns() if column[1] == "prices_in"]
    equal(columns, ["id", "price", "name"])
    equal((list(pgcli.foreignkeys()), pgcli.databases()), ([], ["tidemill"]))
    equal("SELECT id, price, name FROM prices_in" in pgcli.view_definition("prices"), True)
    special = PGSpecial()
    with psycopg.connect(URL, autocommit=True) as connection, connection.cursor() as cursor:
        def names(command, column=1):
            rows = next(iter(special.execute(cursor, command)))[1]
            return sorted(row[column] for row in rows)
        equal([name for name in names("\\dt") if not name.startswith("made_by")], ["prices_in"])
        equal(names("\\dv"), ["Dear Ones"])
        equal(names("\\dm"), ["newest", "prices", "totals", "visits"])
        equal(names("\\d prices_in", 0), ["id", "name", "price"])
        for command in ("\\l", "\\dn", "\\di", "\\ds", "\\d", "\\du", "\\df", "\\dT", "\\dx", "\\db"):
            list(special.execute(cursor, command))


def writes_tables():
    frame = pandas.DataFrame({"id": [1, 2], "price": [1.5, None], "at": pandas.to_datetime(["2026-01-01 10:00", "2026-01-02 00:00"])})
    engine = sqlalchemy.create_engine(URL.replace("postgresql:", "postgresql+psycopg:"))
    frame.to_sql("made_by_pandas", engine)
    frame.to_sql("made_by_pandas", engine, if_exists="append", method="multi")
    read = pandas.read_sql_table("made_by_pandas", engine)
    equal(sorted(read["id"].tolist()), [1, 1, 2, 2])
    equal(sorted(set(read["at"].tolist())), frame["at"].tolist())
    # In a transaction a table cannot be dropped.
    at_once = engine.execution_options(isolation_level="AUTOCOMMIT")
    frame.to_sql("made_by_pandas", at_once, if_exists="replace", index=False)
    equal(len(pandas.read_sql_table("made_by_pandas", at_once)), 2)
    polars.DataFrame({"a": [1, 2], "b": ["x", None]}).write_database("made_by_polars", URL, engine="adbc")
    equal(polars.read_database_uri("SELECT a, b FROM made_by_polars ORDER BY a", URL, engine="adbc").rows(), [(1, "x"), (2, None)])
    with adbc.connect(URL) as connection, connection.cursor() as cursor:
        table = pyarrow.table({"i": [1, None], "s": ["x", "y"], "bytes": [b"\x00\xff", None]})
        equal(cursor.adbc_ingest("made_by_adbc", table, mode="create"), 2)
        connection.commit()
        cursor.adbc_ingest("made_by_adbc", table, mode="append")
        connection.rollback()
        cursor.execute("SELECT i, s, bytes FROM made_by_adbc ORDER BY i")
        equal(cursor.fetch_arrow_table().to_pydict(), table.to_pydict())
    with engine.connect() as connection:
        metadata = sqlalchemy.MetaData()
        metadata.reflect(connection)
        equal({"made_by_pandas", "made_by_polars", "made_by_adbc"} <= set(metadata.tables), True)


def lists_with_adbc():
    with adbc.connect(URL) as connection:
        [objects] = [catalogue for catalogue in connection.adbc_get_objects(depth="all").read_all().to_pylist()
                     if catalogue["catalog_db_schemas"]]
        [public] = [schema for schema in objects["catalog_db_schemas"] if schema["db_schema_name"] == "public"]
        [newest] = [table for table in public["db_schema_tables"] if table["table_name"] == "newest"]
        # In any order.
        places = {column["column_name"]: column["ordinal_position"] for column in newest["table_columns"]}
        equal(places, {"price": 1, "id": 2})
        keys = [(key["constraint_type"], key["constraint_column_names"]) for key in newest["table_constraints"]]
        equal(keys, [("PRIMARY KEY", ["id"])])


reads_with_adbc()
lists_with_adbc()
writes_tables()
reads_with_polars()
streams()
asks_as_pgcli()
writes_with_adbc()
print("done")
