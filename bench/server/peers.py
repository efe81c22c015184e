"""The same reports and the same questions for Tidemill and for what a user would take in its place: PostgreSQL with PostGIS, Redis with its
geo commands, DuckDB. All of them run on this machine, one after the other, and are asked by one client in Python that reads while another
process writes at a stated rate. Answers are compared with a loop over all rows first; a wrong one ends the run.

Installing what it needs (Debian 12):

    apt-get install --no-install-recommends postgresql-15 postgresql-15-postgis-3 redis-server
    python3 -m venv peers && peers/bin/pip install 'psycopg[binary]==3.*' 'redis==8.*' 'duckdb==2.*'

Running it:

    peers/bin/python bench/server/peers.py --server target/release/tidemill
"""

import argparse
import contextlib
import csv
import glob
import itertools
import math
import multiprocessing
import os
import pwd
import signal
import socket
import subprocess
import sys
import tempfile
import time

EXPRESSWAYS, LENGTH, SEGMENT = 10, 528_000, 5280
PATIENCE_S = 600
# Redis and PostGIS' geography know places on the Earth; a foot here is this part of a degree for Redis, near the equator.
DEGREES = 1e-4


def mixed(value):
    """SplitMix64: the runs repeat."""
    mask = (1 << 64) - 1
    value = (value + 0x9E37_79B9_7F4A_7C15) & mask
    value = ((value ^ (value >> 30)) * 0xBF58_476D_1CE4_E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D0_49BB_1331_11EB) & mask
    return (value ^ (value >> 31)) >> 24


class Traffic:
    """Cars that report in turn. A report is (number, vid, x, y, speed), in whole numbers."""

    def __init__(self, cars):
        self.cars = cars
        self.of_car = [(mixed(vid + 7), 20 + mixed(vid) % 80) for vid in range(cars)]

    def report(self, number):
        turn, vid = divmod(number, self.cars)
        start, speed = self.of_car[vid]
        return number, vid, (start + turn * speed * 22 // 5) % LENGTH, vid % EXPRESSWAYS * 1000 + vid % 4 * 12, speed

    def reports(self, first, end):
        return [self.report(number) for number in range(first, end)]


class Question:
    """The constants of a question; "now" is the last turn of all cars before the report `latest`."""

    def __init__(self, number, latest, cars):
        random = mixed(number)
        self.vid = mixed(random ^ 5) % cars
        self.x = mixed(random) % 100 * (LENGTH // 100)
        self.y = random % EXPRESSWAYS * 1000
        self.box = (self.x, self.x + SEGMENT, self.y, self.y + 50)
        self.now = latest - cars
        self.path_from = latest - 20 * cars


def in_box(report, box):
    return box[0] <= report[2] <= box[1] and box[2] <= report[3] <= box[3]


class Naive:
    """Answers by looking at every report."""

    def __init__(self, reports):
        self.all = reports

    def last_position(self, question):
        return [report for report in self.all if report[1] == question.vid][-1:]

    def cars_in_box(self, question):
        return sorted(r for r in self.all if r[0] > question.now and in_box(r, question.box))

    def path(self, question):
        return sorted(r for r in self.all if r[0] > question.path_from and r[1] == question.vid)

    def statistics(self, question):
        found = [r[4] for r in self.all if r[0] > question.path_from and in_box(r, question.box)]
        return len(found), sum(found) / len(found) if found else None

    def nearest(self, question):
        return sorted((r[2] - question.x) ** 2 + (r[3] - question.y) ** 2 for r in self.all)[:5]


QUESTIONS = [
    ("Q1 last position of a car", "last_position"),
    ("Q2 cars in a box now", "cars_in_box"),
    ("Q3 path of a car", "path"),
    ("Q4 statistics of a segment", "statistics"),
    ("   5 nearest reports", "nearest"),
]


def integers(rows):
    return [tuple(int(value) for value in row) for row in rows]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until(what, holds):
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            sys.exit(f"{what} does not come to be")
        time.sleep(0.02)


class Server:
    """A server that speaks PostgreSQL's protocol."""

    def connect(self):
        import psycopg

        address = f"host=127.0.0.1 port={self.port} user=bench dbname={self.database}"
        session = psycopg.connect(address, autocommit=True)
        session.prepare_threshold = 0
        return session

    def is_there(self):
        with contextlib.suppress(Exception):
            self.connect().close()
            return True
        return False

    def rows(self, text, parameters=()):
        return self.session.execute(text, parameters, binary=True).fetchall()


class Tidemill(Server):
    database = "bench"
    name = "Tidemill"
    lacks = {}

    def __init__(self, folder, options):
        self.port = free_port()
        self.socket = os.path.join(folder, "reports.sock")
        command = [os.path.abspath(options.server), "serve", "--data", "data", "--listen", f"127.0.0.1:{self.port}", "--http", "off"]
        self.process = subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wait_until("the server", self.is_there)
        self.session = self.connect()
        self.session.execute(f"""
            CREATE SOURCE reports (number BIGINT NOT NULL, vid BIGINT NOT NULL, x DOUBLE, y DOUBLE, speed DOUBLE,
                time AS to_timestamp_micros(number), WATERMARK FOR time AS time)
                WITH (connector = 'unix', listen = '{self.socket}', format = 'csv', header = false, ordered = true)""")
        self.session.execute(f"""
            CREATE MATERIALIZED VIEW recent AS SELECT time, number, vid, x, y, speed FROM reports
                WITH (retain_bytes = '{options.stored_mib} MB', key = 'vid', point = 'x, y')""")
        self.session.execute(
            "CREATE MATERIALIZED VIEW positions PRIMARY KEY (vid) AS SELECT number, vid, x, y, speed FROM reports")

    def writer(self):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.socket)
        return lambda rows: connection.sendall("".join("%d,%d,%d,%d,%d\n" % row for row in rows).encode())

    def has(self, count):
        newest = "SELECT max(number) FROM {}"
        return all(self.rows(newest.format(view)) == [(count - 1,)] for view in ["recent", "positions"])

    def last_position(self, q):
        return integers(self.rows("SELECT number, vid, x, y, speed FROM positions WHERE vid = %s", [q.vid]))

    def in_box(self, what, q, after):
        # Within a cast, a parameter has the type of the column beside it.
        text = f"SELECT {what} FROM recent WHERE x BETWEEN %s AND %s AND y BETWEEN %s AND %s AND time > to_timestamp_micros(%s)"
        return self.rows(text, [*map(float, q.box), after])

    def cars_in_box(self, q):
        return sorted(integers(self.in_box("number, vid, x, y, speed", q, q.now)))

    def path(self, q):
        text = "SELECT number, vid, x, y, speed FROM recent WHERE vid = %s AND time > to_timestamp_micros(%s)"
        return sorted(integers(self.rows(text, [q.vid, q.path_from])))

    def statistics(self, q):
        return self.in_box("count(*), avg(speed)", q, q.path_from)[0]

    def nearest(self, q):
        text = "SELECT x, y FROM recent ORDER BY st_distance(point, st_point(%s, %s)) LIMIT 5"
        rows = self.rows(text, [float(q.x), float(q.y)])
        return sorted((int(x) - q.x) ** 2 + (int(y) - q.y) ** 2 for x, y in rows)

    def stop(self):
        self.session.close()
        self.process.terminate()
        self.process.wait()


class PostgreSQL(Server):
    database = "postgres"
    name = "PostgreSQL + PostGIS"
    lacks = {"AS OF": "no earlier versions", "retention": "DELETE and VACUUM by oneself", "subscriptions": "no changes of a query"}

    def __init__(self, folder, options):
        programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
        self.port = free_port()
        self.folder = os.path.join(folder, "postgres")
        # PostgreSQL refuses to run as root.
        self.user = pwd.getpwnam("postgres") if os.getuid() == 0 else None
        os.mkdir(self.folder)
        if self.user:
            os.chmod(folder, 0o755)
            os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        initdb = [f"{programs}/initdb", "-D", self.folder, "-A", "trust", "-U", "bench", "--no-sync"]
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, **self.as_user())
        # As fast as it can be told to be: nothing is synced, as in Tidemill's volatile streams.
        settings = ["fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=2GB", "max_wal_size=8GB",
                    f"port={self.port}", "listen_addresses=127.0.0.1", "unix_socket_directories="]
        command = [f"{programs}/postgres", "-D", self.folder, *itertools.chain(*(("-c", s) for s in settings))]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL, **self.as_user())
        wait_until("PostgreSQL", self.is_there)
        self.session = self.connect()
        for statement in [
            "CREATE EXTENSION postgis",
            "CREATE UNLOGGED TABLE recent (number BIGINT, vid BIGINT, place geometry(Point), speed DOUBLE PRECISION)",
            "CREATE INDEX ON recent (vid, number)",
            "CREATE INDEX ON recent USING brin (number)",
            "CREATE INDEX ON recent USING gist (place)",
        ]:
            self.session.execute(statement)

    def as_user(self):
        return {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}

    def writer(self):
        session = self.connect()

        def write(rows):
            with session.cursor().copy("COPY recent (number, vid, place, speed) FROM STDIN") as copy:
                copy.write("".join("%d\t%d\tPOINT(%d %d)\t%d\n" % row for row in rows))

        return write

    def has(self, count):
        return self.rows("SELECT max(number) FROM recent") == [(count - 1,)]

    COLUMNS = "number, vid, st_x(place), st_y(place), speed"
    IN_BOX = "place && st_makeenvelope(%s, %s, %s, %s) AND number > %s"

    @staticmethod
    def envelope(q):
        return [float(q.box[0]), float(q.box[2]), float(q.box[1]), float(q.box[3])]

    def last_position(self, q):
        text = f"SELECT {self.COLUMNS} FROM recent WHERE vid = %s ORDER BY number DESC LIMIT 1"
        return integers(self.rows(text, [q.vid]))

    def cars_in_box(self, q):
        return sorted(integers(self.rows(f"SELECT {self.COLUMNS} FROM recent WHERE {self.IN_BOX}", [*self.envelope(q), q.now])))

    def path(self, q):
        text = f"SELECT {self.COLUMNS} FROM recent WHERE vid = %s AND number > %s"
        return sorted(integers(self.rows(text, [q.vid, q.path_from])))

    def statistics(self, q):
        return self.rows(f"SELECT count(*), avg(speed) FROM recent WHERE {self.IN_BOX}", [*self.envelope(q), q.path_from])[0]

    def nearest(self, q):
        text = "SELECT st_x(place), st_y(place) FROM recent ORDER BY place <-> st_makepoint(%s, %s) LIMIT 5"
        rows = self.rows(text, [float(q.x), float(q.y)])
        return sorted((int(x) - q.x) ** 2 + (int(y) - q.y) ** 2 for x, y in rows)

    def stop(self):
        self.session.close()
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


class Redis:
    """Keeps the last position of each car only: its geo commands know places, and no times."""

    name = "Redis"
    lacks = {
        "path": "no history by time and place in one command",
        "statistics": "no aggregates over places",
        "nearest": "of the last positions only, on a sphere",
        "AS OF": "no earlier versions",
        "SQL": "no joins, no files",
    }

    def __init__(self, folder, options):
        self.path_of_socket = os.path.join(folder, "redis.sock")
        command = ["redis-server", "--port", "0", "--unixsocket", self.path_of_socket, "--save", "", "--dir", folder]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_until("Redis", self.is_there)
        self.session = self.connect()

    def connect(self):
        import redis

        return redis.Redis(unix_socket_path=self.path_of_socket)

    def is_there(self):
        with contextlib.suppress(Exception):
            return self.connect().ping()
        return False

    @staticmethod
    def degrees(x, y):
        return (x - LENGTH / 2) * DEGREES, (y - 5000) * DEGREES

    def writer(self):
        session = self.connect()

        def write(rows):
            pipeline = session.pipeline(transaction=False)
            places = itertools.chain(*((*self.degrees(row[2], row[3]), row[1]) for row in rows))
            pipeline.execute_command("GEOADD", "places", *places)
            pipeline.mset({f"car:{row[1]}": "%d,%d,%d,%d,%d" % row for row in rows})
            pipeline.set("count", rows[-1][0] + 1)
            pipeline.execute()

        return write

    def has(self, count):
        return int(self.session.get("count") or 0) == count

    def last_position(self, q):
        found = self.session.get(f"car:{q.vid}")
        return [tuple(map(int, found.split(b",")))] if found else []

    def cars_in_box(self, q):
        # The box in the middle of which it searches, a little larger, because the curvature of the Earth moves its edges; the reports say
        # which of them are in it.
        x, y = self.degrees((q.box[0] + q.box[1]) / 2, (q.box[2] + q.box[3]) / 2)
        feet_m = DEGREES * 111_226
        found = self.session.geosearch("places", longitude=x, latitude=y, unit="m", width=(SEGMENT + 200) * feet_m, height=200 * feet_m)
        if not found:
            return []
        reports = (tuple(map(int, r.split(b","))) for r in self.session.mget([b"car:" + vid for vid in found]))
        return sorted(report for report in reports if report[0] > q.now and in_box(report, q.box))

    def stop(self):
        self.session.close()
        self.process.terminate()
        self.process.wait()


class DuckDB:
    """In this process: another one cannot read the file while one writes. The writer is a thread with a connection of its own."""

    name = "DuckDB"
    lacks = {"AS OF": "no earlier versions", "retention": "DELETE by oneself", "clients": "no server", "subscriptions": "no changes of a query"}
    writes_in_this_process = True

    def __init__(self, folder, options):
        import duckdb

        self.database = duckdb.connect(os.path.join(folder, "reports.duckdb"))
        self.database.execute("CREATE TABLE recent (number BIGINT, vid BIGINT, x DOUBLE, y DOUBLE, speed DOUBLE)")
        self.session = self.database.cursor()
        self.folder = folder

    def writer(self):
        session = self.database.cursor()
        path = os.path.join(self.folder, "piece.csv")

        def write(rows):
            # Its fastest way from Python without another library.
            with open(path, "w", newline="") as piece:
                csv.writer(piece).writerows(rows)
            session.execute(f"COPY recent FROM '{path}' (HEADER false)")

        return write

    def has(self, count):
        return self.rows("SELECT max(number) FROM recent") == [(count - 1,)]

    def rows(self, text, parameters=()):
        return self.session.execute(text, parameters).fetchall()

    IN_BOX = "x BETWEEN ? AND ? AND y BETWEEN ? AND ? AND number > ?"

    def last_position(self, q):
        return integers(self.rows("SELECT * FROM recent WHERE vid = ? ORDER BY number DESC LIMIT 1", [q.vid]))

    def cars_in_box(self, q):
        return sorted(integers(self.rows(f"SELECT * FROM recent WHERE {self.IN_BOX}", [*q.box, q.now])))

    def path(self, q):
        return sorted(integers(self.rows("SELECT * FROM recent WHERE vid = ? AND number > ?", [q.vid, q.path_from])))

    def statistics(self, q):
        return self.rows(f"SELECT count(*), avg(speed) FROM recent WHERE {self.IN_BOX}", [*q.box, q.path_from])[0]

    def nearest(self, q):
        text = "SELECT x, y FROM recent ORDER BY (x - ?) * (x - ?) + (y - ?) * (y - ?) LIMIT 5"
        return sorted((int(x) - q.x) ** 2 + (int(y) - q.y) ** 2 for x, y in self.rows(text, [q.x, q.x, q.y, q.y]))

    def stop(self):
        self.database.close()


SYSTEMS = {"tidemill": Tidemill, "postgresql": PostgreSQL, "redis": Redis, "duckdb": DuckDB}


def write_at_rate(system, traffic, first, rate, sent, end):
    """Writes reports until the end, as many as are due; `sent` has the number of the next one."""
    write, start = system.writer(), time.monotonic()
    while not end.is_set():
        due = first + int((time.monotonic() - start) * rate)
        piece = min(due - sent.value, 10_000)
        if piece < 1:
            time.sleep(0.001)
            continue
        write(traffic.reports(sent.value, sent.value + piece))
        sent.value += piece


def check(system, naive, latest, cars):
    """Compares the answers with a loop over all rows."""
    for name, method in QUESTIONS:
        for number in range(20):
            question = Question(number, latest, cars)
            if not hasattr(system, method):
                continue
            found, right = getattr(system, method)(question), getattr(naive, method)(question)
            is_right = all(map(lambda a, b: a == b or math.isclose(a, b), found, right)) if method == "statistics" else found == right
            if not is_right:
                sys.exit(f"{system.name}: {name}: {found} is not {right}")


def milliseconds(times, share):
    return f"{sorted(times)[min(len(times) - 1, int(len(times) * share))] * 1e3:9.2f}"


def measure(of, options, traffic):
    """A line for each question: how long it took while reports were written."""
    with tempfile.TemporaryDirectory() as folder:
        system = of(folder, options)
        try:
            write, checked = system.writer(), 30 * options.cars
            for first in range(0, checked, 10_000):
                write(traffic.reports(first, min(first + 10_000, checked)))
            wait_until("all reports", lambda: system.has(checked))
            check(system, Naive(traffic.reports(0, checked)), checked, options.cars)
            for first in range(checked, options.rows, 10_000):
                write(traffic.reports(first, min(first + 10_000, options.rows)))
            stored = max(checked, options.rows)
            wait_until("all reports", lambda: system.has(stored))
            kind = multiprocessing.get_context("fork")
            sent, end = kind.Value("q", stored), kind.Event()
            if getattr(system, "writes_in_this_process", False):
                import threading

                writer = threading.Thread(target=write_at_rate, args=(system, traffic, stored, options.rate, sent, end))
            else:
                writer = kind.Process(target=write_at_rate, args=(system, traffic, stored, options.rate, sent, end))
            writer.start()
            took = {name: [] for name, method in QUESTIONS if hasattr(system, method)}
            start = time.monotonic()
            for number in itertools.count():
                if time.monotonic() - start > options.seconds:
                    break
                for name, method in QUESTIONS:
                    if hasattr(system, method):
                        question = Question(number, sent.value, options.cars)
                        begun = time.perf_counter()
                        getattr(system, method)(question)
                        took[name].append(time.perf_counter() - begun)
            written = (sent.value - stored) / (time.monotonic() - start)
            end.set()
            writer.join()
            return written, took, system.lacks
        finally:
            system.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", help="the program `tidemill`", required=True)
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="which of them")
    parser.add_argument("--rate", type=int, default=50_000, help="reports per second that are written while it is asked")
    parser.add_argument("--rows", type=int, default=5_000_000, help="reports that are there before")
    parser.add_argument("--cars", type=int, default=10_000)
    parser.add_argument("--stored-mib", type=int, default=1024, help="what Tidemill's view keeps")
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    traffic = Traffic(options.cars)
    print(f"{options.rows} reports of {options.cars} cars, {options.rate} more each second; one client, {os.cpu_count()} processors")
    print("answers: compared with a loop over all rows before; times in ms, with what the client in Python takes\n")
    print(f"{'':22}{'':30}{'p50':>9}{'p99':>9}{'max':>9}{'asked':>9}")
    for key in options.systems.split(","):
        written, took, lacks = measure(SYSTEMS[key], options, traffic)
        name = SYSTEMS[key].name
        print(f"{name:22}{written:.0f} reports/s were written")
        for question, method in QUESTIONS:
            if question in took:
                times = [milliseconds(took[question], share) for share in (0.5, 0.99, 1)]
                print(f"{'':22}{question:30}{''.join(times)}{len(took[question]):9}")
            else:
                print(f"{'':22}{question:30}  not offered: {lacks.get(method, '')}")
        for what, why in lacks.items():
            if what not in dict(map(reversed, QUESTIONS)):
                print(f"{'':22}{what:30}  not offered: {why}")


if __name__ == "__main__":
    main()
