"""What a program with PostgreSQL's ODBC driver does with a server."""

import sys

import pyodbc

DRIVER, PORT, PASSWORD = sys.argv[1:]
BASE = f"Driver={DRIVER};Server=127.0.0.1;Port={PORT};Database=db;UID=ada;PWD={PASSWORD};"


def equal(found, expected):
    if found != expected:
        raise AssertionError(f"{found!r} is not {expected!r}")


for options in ("", "UseDeclareFetch=1;Fetch=2;"):
    connection = pyodbc.connect(BASE + options)
    cursor = connection.cursor()
    rows = cursor.execute("SELECT id, price, name FROM prices ORDER BY id").fetchall()
    equal([tuple(row) for row in rows], [(1, 1.5, "apple"), (2, 2.5, "pear"), (3, 3.5, "plum")])
    equal(cursor.execute("SELECT name FROM prices WHERE id = ? AND price > ?", 2, 1.0).fetchall()[0][0], "pear")
    exact = [row for row in cursor.columns("Dear Ones") if row.column_name == "exact"]
    equal([(row.type_name, row.column_size, row.decimal_digits) for row in exact], [("numeric", 10, 2)])
    tables = {(row.table_name, row.table_type) for row in cursor.tables(schema="public")}
    equal({("prices_in", "TABLE"), ("prices", "MATVIEW"), ("Dear Ones", "VIEW")} <= tables, True)
    equal(cursor.foreignKeys("prices_in").fetchall(), [])
    keys = [(row.column_name, row.key_seq, row.pk_name) for row in cursor.primaryKeys("newest")]
    equal(keys, [("id", 1, "newest_pkey")])
    indexes = [row.index_name for row in cursor.statistics("newest") if row.index_name]
    equal(indexes, ["newest_pkey"])
    # The driver knows of no row's id but an OID, and finds none in PostgreSQL's tables either.
    equal(cursor.rowIdColumns("newest").fetchall(), [])
    for asked in (cursor.procedures, cursor.getTypeInfo, lambda: cursor.rowVerColumns("newest"),
                  lambda: cursor.procedureColumns("%"), lambda: cursor.foreignKeys(foreignTable="newest")):
        asked().fetchall()
    name = f"made_by_odbc_{len(options)}"
    cursor.execute(f"CREATE TABLE {name} (id INTEGER, note VARCHAR(20))")
    cursor.executemany(f"INSERT INTO {name} VALUES (?, ?)", [(1, "a"), (2, None)])
    connection.rollback()
    equal(cursor.tables(name).fetchall(), [])
    cursor.execute(f"CREATE TABLE {name} (id INTEGER, note VARCHAR(20))")
    cursor.executemany(f"INSERT INTO {name} VALUES (?, ?)", [(1, "a"), (2, None)])
    connection.commit()
    equal([tuple(row) for row in cursor.execute(f"SELECT * FROM {name} ORDER BY id")], [(1, "a"), (2, None)])
    connection.commit()
    connection.autocommit = True
    cursor.execute(f"DROP TABLE {name}")
    connection.close()
print("done")
