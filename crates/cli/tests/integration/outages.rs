//! What an unattended pipeline says by itself when something that it needs is away.
#![cfg(all(unix, feature = "sql"))]

use tidemill_testing::postgres::Server;

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::child::{self, wait_until};
use crate::support::run::{Run, log};
use crate::support::*;
use tidemill_testing::ports::free_port;
use tidemill_testing::sender::Sender;

fn source(port: u16) -> String {
    format!(
        "CREATE SOURCE m (n BIGINT, note VARCHAR) WITH (connector = 'line_protocol', \
         listen = 'http://127.0.0.1:{port}', durable = true);\n"
    )
}

fn bodies(from: u64, to: u64) -> Vec<String> {
    (from..to).map(|n| format!("m n={n}i\n")).collect()
}

/// The last line of the log that has this text.
fn line(folder: &Path, text: &str) -> String {
    let log = log(folder);
    log.lines()
        .rfind(|line| line.contains(text))
        .unwrap_or_else(|| panic!("no '{text}' in:\n{log}"))
        .to_owned()
}

#[test]
fn a_database_that_goes_away_is_told_and_so_is_its_return() {
    let Some(server) = Server::start() else { return };
    let port = free_port();
    let script = source(port)
        + &format!(
            "CREATE SINK t FROM (SELECT n FROM m) WITH (connector = 'postgres', url = '{}', table = 't');\n",
            server.url()
        );
    let folder = folder_with(&[("p.sql", &script)]);
    let folder = folder.path();
    let mut child = Run::begin(folder);
    child.wait_until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    Sender::start(port, "first", bodies(0, 3)).join();
    child.wait_until("the table has all", || server.query("SELECT count(*) FROM t") == "3");

    server.crash();
    // Answered, because they are in the journal.
    Sender::start(port, "second", bodies(3, 6)).join();
    child.wait_until("the log reports it", || {
        log(folder).contains("a commit to PostgreSQL failed; it is tried again")
    });
    let told = line(folder, "a commit to PostgreSQL failed");
    assert!(told.contains("WARN") && told.contains("attempts=") && told.contains("retry_for="), "{told}");
    server.resume();
    child.wait_until("the log reports its return", || log(folder).contains("PostgreSQL is back"));
    let told = line(folder, "PostgreSQL is back");
    assert!(told.contains("after="), "{told}");
    assert_eq!(server.query("SELECT count(*), sum(n) FROM t"), "6|15");
    child.interrupt();
}

/// The rows of both sinks: a table and a file.
fn script_of_two(port: u16, server: &Server) -> String {
    source(port)
        + &format!(
            "CREATE SINK f FROM (SELECT n FROM m) WITH (path = 'f.csv');\n\
             CREATE SINK t FROM (SELECT n FROM m) WITH (connector = 'postgres', url = '{}', table = 't');\n",
            server.url()
        )
}

/// The numbers in the file.
fn numbers_in_file(folder: &Path) -> Vec<u64> {
    rows_of(&folder.join("f.csv")).iter().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn a_database_that_is_away_at_the_start_holds_up_neither_intake_nor_other_sinks() {
    let Some(server) = Server::start() else { return };
    let port = free_port();
    let folder = folder_with(&[("p.sql", &script_of_two(port, &server))]);
    let folder = folder.path();
    for (round, from) in [0, 30, 60].into_iter().enumerate() {
        server.crash();
        let mut child = Run::begin(folder);
        child.wait_until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        // More requests than cycles may be in flight: the file continues without the database.
        Sender::start(port, ["first", "second", "third"][round], bodies(from, from + 30)).join();
        child.wait_until("the file has all", || numbers_in_file(folder).len() as u64 == from + 30);
        let times_told = || log(folder).matches("PostgreSQL is away; the query has started").count();
        let told = times_told();
        assert!(told > round, "{}", log(folder));
        if round == 1 {
            // Killed before the database has come: nobody knows what it has.
            child.kill();
            child = Run::begin(folder);
            child.wait_until("the log reports it again", || times_told() > told);
        }
        server.resume();
        let all = format!("{0}|{0}", from + 30);
        let counts = "SELECT count(*), count(DISTINCT n) FROM t";
        child.wait_until("the table has all, each once", || {
            server.query("SELECT to_regclass('t') IS NOT NULL") == "t" && server.query(counts) == all
        });
        child.wait_until("the log reports that it is there", || {
            log(folder).matches("PostgreSQL is there; the rows are written").count() > round
        });
        child.interrupt();
    }
    assert_eq!(numbers_in_file(folder), (0..90).collect::<Vec<_>>());
}

#[test]
fn a_database_may_come_later_without_a_journal_too() {
    let Some(server) = Server::start() else { return };
    server.crash();
    let script = format!(
        "CREATE SOURCE m (n BIGINT) WITH (path = 'm.csv', follow = true);\n\
         CREATE SINK f FROM m WITH (path = 'f.csv');\n\
         CREATE SINK t FROM m WITH (connector = 'postgres', url = '{}', table = 't');\n",
        server.url()
    );
    let folder = folder_with(&[("p.sql", &script), ("m.csv", "n\n0\n1\n2\n")]);
    let folder = folder.path();
    let mut child = Run::begin(folder);
    child.wait_until("the file has all", || numbers_in_file(folder) == [0, 1, 2]);
    server.resume();
    child.wait_until("the table has all", || {
        server.query("SELECT to_regclass('t') IS NOT NULL") == "t"
            && server.query("SELECT count(*), sum(n) FROM t") == "3|3"
    });
    child.interrupt();
}

#[test]
fn what_is_stated_wrongly_fails_at_once_even_if_others_may_be_waited_for() {
    let Some(server) = Server::start() else { return };
    let script = source(free_port())
        + &format!(
            "CREATE SINK t FROM (SELECT n FROM m) WITH (connector = 'postgres', url = '{}', table = 'no_such_table', \
             create = false);\n",
            server.url()
        );
    let folder = folder_with(&[("p.sql", &script)]);
    let folder = folder.path();
    assert_eq!(Run::begin(folder).ended(), Some(2), "{}", log(folder));
    assert!(log(folder).contains("create = true"), "{}", log(folder));
}

#[test]
fn a_table_to_be_read_may_come_later_and_others_are_read_meanwhile() {
    let Some(server) = Server::start() else { return };
    server.query("CREATE TABLE customers (id bigint, name text)");
    server.query("INSERT INTO customers VALUES (1, 'Ada'), (2, 'Grace')");
    server.crash();
    let script = format!(
        "CREATE SOURCE m (n BIGINT) WITH (path = 'm.csv', follow = true);\n\
         CREATE SOURCE c (id BIGINT, name VARCHAR) WITH (connector = 'postgres', url = '{}', table = 'customers');\n\
         CREATE SINK f FROM m WITH (path = 'f.csv');\n\
         CREATE SINK g FROM c WITH (path = 'g.csv');\n",
        server.url()
    );
    let folder = folder_with(&[("p.sql", &script), ("m.csv", "n\n0\n1\n2\n")]);
    let folder = folder.path();
    let mut child = Run::begin(folder);
    child.wait_until("the file has all", || numbers_in_file(folder) == [0, 1, 2]);
    child.wait_until("the log reports it", || {
        log(folder).contains("PostgreSQL is away; its rows are read later")
    });
    let told = line(folder, "PostgreSQL is away");
    assert!(told.contains("WARN") && told.contains("attempts=") && told.contains("retry_for="), "{told}");
    server.resume();
    child.wait_until("its rows are there", || rows_of(&folder.join("g.csv")) == ["1,Ada", "2,Grace"]);
    child.wait_until("the log reports it", || log(folder).contains("PostgreSQL is there; its rows are read"));
    child.interrupt();
}

/// A transaction that keeps the table `t` locked.
struct TableLock(Child);

impl TableLock {
    fn take(server: &Server) -> TableLock {
        let mut psql = Command::new("psql");
        psql.args(["-qX", "-d", &server.url()]).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut lock = psql.spawn().unwrap();
        lock.stdin.as_mut().unwrap().write_all(b"BEGIN; LOCK TABLE t;\n").unwrap();
        let is_locked = "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted AND relation = \
                         't'::regclass";
        wait_until("it is locked", || server.query(is_locked) == "1");
        TableLock(lock)
    }
}

impl Drop for TableLock {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

#[test]
fn a_locked_table_does_not_hold_up_a_file() {
    let Some(server) = Server::start() else { return };
    let port = free_port();
    let folder = folder_with(&[("p.sql", &script_of_two(port, &server))]);
    let folder = folder.path();
    let mut child = Run::begin(folder);
    child.wait_until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let lock = TableLock::take(&server);
    Sender::start(port, "first", bodies(0, 50)).join();
    child.wait_until("the file has all", || numbers_in_file(folder) == (0..50).collect::<Vec<_>>());
    drop(lock);
    child.wait_until("the table has all", || server.query("SELECT count(*), sum(n) FROM t") == "50|1225");
    child.interrupt();
}

#[test]
fn a_locked_table_is_told() {
    let Some(server) = Server::start() else { return };
    let port = free_port();
    let script = source(port)
        + &format!(
            "CREATE SINK t FROM (SELECT n FROM m) WITH (connector = 'postgres', url = '{}', table = 't');\n",
            server.url()
        );
    let folder = folder_with(&[("p.sql", &script)]);
    let folder = folder.path();
    let mut child = Run::begin(folder);
    child.wait_until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let lock = TableLock::take(&server);
    Sender::start(port, "first", bodies(0, 3)).join();
    child.wait_until("the log reports it", || log(folder).contains("PostgreSQL does not answer"));
    drop(lock);
    child.wait_until("the table has all", || server.query("SELECT count(*) FROM t") == "3");
    child.wait_until("the log reports the end", || {
        log(folder).contains("PostgreSQL has answered") || log(folder).contains("PostgreSQL is back")
    });
    child.interrupt();
}

/// What the log and the notices say of something, in all.
fn told(folder: &Path, text: &str) -> Vec<String> {
    log(folder).lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}

#[test]
fn a_full_disk_is_told_once_when_it_begins() {
    let namespace = ["--map-root-user", "--mount", "sh", "-c"];
    let allowed = Command::new("unshare").args(namespace).arg("mount -t tmpfs none /mnt").output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        println!("skipped: this user may not mount a small disk (unshare --map-root-user --mount)");
        return;
    }
    for (format, level) in [("text", " WARN "), ("json", "\"level\":\"WARN\"")] {
        let rows: String = (0..450_000).map(|n| format!("{n},{n:0100}\n")).collect();
        let script = "CREATE SOURCE m (n BIGINT, note VARCHAR) WITH (path = 'm.csv', follow = true, durable = true, \
                      journal_max = '128 MB');\n\
                      SET journal = 'small/journal';\n\
                      CREATE SINK f FROM (SELECT n FROM m WHERE n < 0) WITH (path = 'f.csv');\n";
        let folder = folder_with(&[("p.sql", script), ("m.csv", &format!("n,note\n{rows}"))]);
        let folder = folder.path();
        std::fs::create_dir(folder.join("small")).unwrap();
        let mounted = format!(
            "mount -t tmpfs -o size=45m none small && exec '{}' run p.sql --log-format {format}",
            env!("CARGO_BIN_EXE_tidemill")
        );
        let log_file = std::fs::File::create(folder.join("log")).unwrap();
        let mut command = Command::new("unshare");
        command.args(namespace).arg(mounted).current_dir(folder).stderr(log_file).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        wait_until("it is logged again, with the number of attempts", || {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("it ended by itself ({status}):\n{}", log(folder));
            }
            told(folder, "the journal's disk has no space").len() > 1
        });
        let all = told(folder, "the journal's disk has no space");
        assert!(all[0].contains("intake pauses") && all[0].contains(level), "{all:?}");
        assert!(all[1..].iter().all(|line| line.contains("attempts")), "{all:?}");
        assert!(told(folder, "note: ").is_empty(), "{}", log(folder));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_table_that_cannot_be_read_again_is_told_once_by_run_and_by_serve() {
    let Some(server) = Server::start() else { return };
    server.query("CREATE TABLE names (n BIGINT, name VARCHAR); INSERT INTO names VALUES (1, 'one')");
    let source = format!(
        "CREATE SOURCE names (n BIGINT, name VARCHAR) WITH (connector = 'postgres', url = '{}', table = 'names', \
         refresh = '20 ms');\n",
        server.url()
    );
    let sink = "CREATE SINK f FROM (SELECT n, name FROM names) WITH (path = 'f.csv');\n";
    let folder = folder_with(&[("p.sql", &format!("{source}{sink}"))]);
    let folder = folder.path();
    let mut child = Run::begin(folder);
    child.wait_until("the row is there", || {
        std::fs::read_to_string(folder.join("f.csv")).is_ok_and(|text| text.contains("1,one"))
    });
    server.crash();
    child.wait_until("it is told again", || !told(folder, "a table was not read again").is_empty());
    let first = told(folder, "the rows that were read before stay");
    assert!(first.len() == 1 && first[0].contains(" WARN "), "{}", log(folder));
    assert!(told(folder, "note: ").is_empty(), "{}", log(folder));
    server.resume();
    child.wait_until("its return is told", || told(folder, "is reachable again").len() == 1);
    child.interrupt();

    // A server has no line of its own for notices, so the log is where they are.
    let listen = free_port();
    let (serving, address) = (folder_with(&[]), format!("127.0.0.1:{listen}"));
    let serving = serving.path();
    let log_file = std::fs::File::create(serving.join("log")).unwrap();
    let mut command = tidemill(serving, &["serve", "--data", "data", "--http", "off", "--listen", &address]);
    let child = command.stderr(log_file).stdout(Stdio::null()).spawn().unwrap();
    wait_until("it serves", || log(serving).contains("accepts PostgreSQL clients"));
    for statement in [&source, sink] {
        server.execute_at(listen, statement.trim().trim_end_matches(';'));
    }
    wait_until("the row is there", || {
        std::fs::read_to_string(serving.join("f.csv")).is_ok_and(|text| text.contains("1,one"))
    });
    server.crash();
    wait_until("it is logged", || told(serving, "the rows that were read before stay").len() == 1);
    child::signal(&child, "TERM");
    child::end(child).expect(0);
}
