"""What a program with psycopg 3 does with a server: values as text and in binary form, parameters, errors, streams."""

import datetime
import decimal
import json
import sys
import time

import psycopg

PORT = int(sys.argv[1])


def connect(**arguments):
    return psycopg.connect(host="127.0.0.1", port=PORT, user="me", dbname="db", **arguments)


def equal(found, expected):
    if found != expected:
        raise AssertionError(f"{found!r} is not {expected!r}")


def values(connection):
    query = """SELECT true, CAST(-2 AS SMALLINT), CAST(3 AS INTEGER), CAST(-4 AS BIGINT), 1e300, 'ö', X'00ff',
        CAST(-12345.678 AS DECIMAL(10, 3)), DATE '2026-11-22', TIME '17:05:00.25', TIMESTAMP '2026-11-22 17:05:00.25',
        INTERVAL '1 day 2 hours', ['a', 'b c'], NULL"""
    expected = (
        True, -2, 3, -4, 1e300, "ö", b"\x00\xff", decimal.Decimal("-12345.678"), datetime.date(2026, 11, 22),
        datetime.time(17, 5, 0, 250000), datetime.datetime(2026, 11, 22, 17, 5, 0, 250000),
        datetime.timedelta(days=1, hours=2), ["a", "b c"], None,
    )
    for is_binary in (False, True):
        with connection.cursor(binary=is_binary) as cursor:
            equal(cursor.execute(query).fetchone(), expected)
            lists = "SELECT [1, NULL, 3], [1.5], [DATE '2026-11-22'], [true, false], ['', 'NULL', NULL], [CAST(1.50 AS DECIMAL(9, 2))]"
            found = ([1, None, 3], [1.5], [datetime.date(2026, 11, 22)], [True, False], ["", "NULL", None], [decimal.Decimal("1.50")])
            equal(cursor.execute(lists).fetchone(), found)


def parameters(connection):
    given = (
        7, -(2**40), 0.1, "it's; --", b"\x00'\xff", decimal.Decimal("-0.50"), datetime.date(1969, 12, 31),
        datetime.datetime(2026, 11, 22, 17, 5, 0, 1), datetime.timedelta(days=-1, seconds=5), True, None,
    )
    for placeholder in ("%s", "%b"):
        marks = ", ".join(placeholder for _ in given)
        row = connection.execute(f"SELECT {marks}", given).fetchone()
        equal(row, given)
        for items in ([1, None, 3], [2**40], [0.1], [True, None], [datetime.date(1969, 12, 31)], [b"\x00'\xff"],
                      [decimal.Decimal("-0.50"), decimal.Decimal("10.25")]):
            equal(connection.execute(f"SELECT {placeholder}", (items,)).fetchone(), (items,))
        among = f"SELECT value FROM sequence(count => 10) WHERE value = ANY({placeholder}) ORDER BY value"
        equal(connection.execute(among, ([7, 1, 70],)).fetchall(), [(1,), (7,)])
        among = f"SELECT name FROM (VALUES ('a'), ('b')) AS names(name) WHERE name = ANY({placeholder})"
        equal(connection.execute(among, (["b", 'n,"'],)).fetchall(), [("b",)])
    above = "SELECT value FROM sequence(count => 10) WHERE value > %s ORDER BY value LIMIT %s"
    # Prepared on the server from the fifth time on.
    for value in range(8):
        rows = connection.execute(above, (value, 2), prepare=value > 2).fetchall()
        equal(rows, [(value + 1,), (value + 2,)][: 9 - value])
    # A function's parameters have the types that it takes, whatever the client says about them.
    place = "SELECT st_x(st_point(%s, %s)), st_distance(st_point(%s, 0), st_point(0, 4)), upper(%s), coalesce(%s, 7)"
    for given in ((1, 2.5, 3, "tide", None), (1.0, 2, 3.0, "tide", 7)):
        for prepare in (False, True):
            equal(connection.execute(place, given, prepare=prepare).fetchone(), (1.0, 5.0, "TIDE", 7))
    with connection.cursor() as cursor:
        cursor.executemany("SELECT value FROM sequence(count => 3) WHERE value = %s", [(0,), (1,)], returning=True)
        equal(cursor.fetchall(), [(0,)])
    with connection.pipeline():
        first = connection.execute("SELECT %s + 1", (1,))
        second = connection.execute("SELECT %s + 1", (2,))
    equal((first.fetchone(), second.fetchone()), ((2,), (3,)))


def errors(connection):
    try:
        connection.execute("SELECT nope FROM sequence(count => 1)")
        raise AssertionError("it is wrong")
    except psycopg.errors.UndefinedColumn as error:
        equal(error.diag.statement_position, "8")
        equal("columns" in error.diag.message_hint, True)
    try:
        connection.execute("SELECT %s + 1", (datetime.date(2026, 1, 1),))
    except psycopg.Error:
        pass
    equal(connection.execute("SELECT 1").fetchone(), (1,))


def streams(connection):
    with connection.cursor() as cursor:
        rows = cursor.stream("SELECT value FROM sequence(rate => 100000)")
        for expected, (value,) in zip(range(1000), rows):
            equal(value, expected)
        # Closing the generator cancels the query.
        rows.close()
    equal(connection.execute("SELECT 1").fetchone(), (1,))


def cursors(connection):
    query = "SELECT value FROM sequence(count => 5) WHERE value >= %s"
    with connect() as reader:
        with reader.cursor(name="named") as cursor:
            cursor.itersize = 2
            cursor.execute(query, (1,))
            equal([column.name for column in cursor.description], ["value"])
            equal((cursor.fetchone(), cursor.fetchmany(2), cursor.fetchall()), ((1,), [(2,), (3,)], [(4,)]))
        with reader.cursor(name="again", binary=True) as cursor:
            equal(list(cursor.execute(query, (3,))), [(3,), (4,)])
        with reader.cursor(name="skips") as cursor:
            cursor.execute(query, (0,))
            cursor.scroll(3)
            equal(cursor.fetchall(), [(3,), (4,)])
        with reader.cursor(name="open") as cursor:
            cursor.execute("SELECT relname FROM pg_class WHERE relname = 'nowhere'")
            equal(cursor.fetchall(), [])
            equal(reader.execute("SELECT name, is_holdable FROM pg_cursors").fetchall(), [("open", False)])
    with connection.cursor(name="held", withhold=True) as cursor:
        equal(cursor.execute(query, (4,)).fetchall(), [(4,)])
    equal(connection.execute("SELECT count(*) FROM pg_cursors").fetchone(), (0,))


def constants(connection):
    at = datetime.datetime(2026, 1, 1, 10)
    paris = "SELECT CAST(%s AS TIMESTAMP) AT TIME ZONE %s"
    nine = datetime.datetime(2026, 1, 1, 9, tzinfo=datetime.timezone.utc)
    equal(connection.execute(paris, (at, "Europe/Paris")).fetchone(), (nine,))
    equal(connection.execute(paris, (at, None)).fetchone(), (None,))
    equal(connection.execute("SELECT to_char(CAST(%s AS TIMESTAMP), %s)", (at, "YYYY")).fetchone(), ("2026",))
    for prepare in (False, True):
        later = connection.execute("SELECT CAST(%s AS TIMESTAMP) + %s", (at, "1 hour"), prepare=prepare)
        equal(later.fetchone(), (at + datetime.timedelta(hours=1),))


def settings(connection):
    for statement in ("SET jit = off", "SET work_mem = '64MB'", "SET ROLE none", "RESET ROLE", "ANALYZE"):
        connection.execute(statement)
    equal(connection.execute("SHOW work_mem").fetchone(), ("64MB",))
    connection.execute("RESET work_mem")
    equal(connection.execute("SELECT current_setting('work_mem')").fetchone(), ("4MB",))
    try:
        connection.execute("ANALYZE nowhere")
        raise AssertionError("there is no such relation")
    except psycopg.errors.UndefinedTable:
        pass
    (plan,) = connection.execute("EXPLAIN (FORMAT JSON, COSTS off) SELECT value FROM sequence(count => 1)").fetchone()
    equal("Node Type" in json.loads(plan)[0]["Plan"], True)


def transactions():
    with connect() as connection:
        equal(connection.execute("SELECT 1").fetchone(), (1,))
        equal(connection.info.transaction_status, psycopg.pq.TransactionStatus.INTRANS)
        try:
            connection.execute("CREATE VIEW v AS SELECT 1 AS one")
            raise AssertionError("a definition is not part of a transaction")
        except psycopg.errors.ActiveSqlTransaction:
            connection.rollback()


def inserts(connection):
    connection.execute("CREATE SOURCE pushed (id BIGINT, name VARCHAR, at TIMESTAMP, size DOUBLE) WITH (connector = 'push')")
    connection.execute("CREATE MATERIALIZED VIEW taken_in AS SELECT id, name, at, size FROM pushed")
    at = datetime.datetime(2026, 11, 26, 17, 30)
    insert = "INSERT INTO pushed (id, name, at, size) VALUES (%s, %s, %s, %s)"
    given = [(1, "a", at, 0.5), (2, None, at, 3), (2**40, "it's", None, None)]
    # A transaction, as psycopg begins one unless it is told otherwise.
    with connect() as writer:
        with writer.cursor() as cursor:
            cursor.executemany(insert, given)
            equal(cursor.rowcount, 3)
        equal(writer.execute("SELECT count(*) FROM taken_in").fetchone(), (0,))
        writer.commit()
        writer.execute(insert, (7, "is taken back", at, 1))
        writer.rollback()
    for is_binary in (False, True):
        with connection.cursor(binary=is_binary) as cursor:
            cursor.execute(insert.replace("%s", "%b") if is_binary else insert, (3 + is_binary, "alone", at, -1.25))
    alone = [(3, "alone", at, -1.25), (4, "alone", at, -1.25)]
    wanted = sorted(given + alone)
    deadline = time.monotonic() + 30
    while (found := connection.execute("SELECT * FROM taken_in ORDER BY id").fetchall()) != wanted:
        if time.monotonic() > deadline:
            raise AssertionError(f"{found!r} is not {wanted!r}")
        time.sleep(0.01)


def views(connection):
    connection.execute("CREATE MATERIALIZED VIEW parity AS "
                       "SELECT value % 2 AS odd, count(*) AS n FROM sequence(count => 9) GROUP BY 1")
    while connection.execute("SELECT odd, n FROM parity ORDER BY odd").fetchall() != [(0, 5), (1, 4)]:
        pass
    connection.execute("DROP MATERIALIZED VIEW parity")


with connect(autocommit=True) as session:
    equal(session.info.server_version, 150000)
    equal(session.info.parameter_status("TimeZone"), "UTC")
    values(session)
    parameters(session)
    errors(session)
    streams(session)
    views(session)
    inserts(session)
    cursors(session)
    constants(session)
    settings(session)
transactions()
print("done")
