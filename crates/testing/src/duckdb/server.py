"""Answers queries by DuckDB over standard input and output, until its input ends.

A request is the length of a script in bytes, a line break, and the script. The answer is that of its last statement:
`rows N` and N lines, or `error MESSAGE`. A line has the values of a row, separated by tabs, each headed by the letter of
its kind; see `value.rs`, which reads them.
"""

import datetime
import decimal
import sys

import duckdb

EPOCH = datetime.datetime(1970, 1, 1)


def escaped(text):
    for plain, written in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(plain, written)
    return text


def microseconds(length):
    return length // datetime.timedelta(microseconds=1)


def shown(value):
    if value is None:
        return "n"
    if isinstance(value, bool):
        return f"b{int(value)}"
    if isinstance(value, int):
        return f"i{value}"
    if isinstance(value, decimal.Decimal):
        return f"d{value:f}"
    if isinstance(value, float):
        return f"f{value!r}"
    if isinstance(value, str):
        return "t" + escaped(value)
    if isinstance(value, datetime.datetime):
        return f"s{microseconds(value.replace(tzinfo=None) - EPOCH)}"
    if isinstance(value, datetime.date):
        return f"D{(value - EPOCH.date()).days}"
    if isinstance(value, datetime.time):
        return f"c{microseconds(datetime.datetime.combine(EPOCH, value) - EPOCH)}"
    if isinstance(value, datetime.timedelta):
        return f"l{microseconds(value)}"
    return "x" + escaped(repr(value))


def answer(connection, script):
    try:
        cursor = connection.execute(script)
        rows = cursor.fetchall() if cursor.description else []
        lines = ["\t".join(shown(value) for value in row) for row in rows]
        return [f"rows {len(lines)}", *lines]
    except Exception as error:  # whatever it is, the test shall see it
        return ["error " + escaped(f"{type(error).__name__}: {error}")]


def main():
    # Text as it is, whatever the machine's language.
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    connection = duckdb.connect(":memory:")
    connection.execute("SET threads = 1; SET TimeZone = 'UTC'")
    answers.write(f"ready {duckdb.__version__}\n".encode())
    answers.flush()
    while head := requests.readline():
        script = requests.read(int(head)).decode()
        answers.write(("\n".join(answer(connection, script)) + "\n").encode())
        answers.flush()


main()
