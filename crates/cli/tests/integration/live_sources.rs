//! Questions about sources whose rows come once, and about views and sinks that do not run: they take no rows from others, and
//! say what is wrong.
#![cfg(unix)]

use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::support::child::wait_until;
use crate::support::served::{self, Served, has_psql};
use crate::support::*;
use tidemill_testing::ports::free_port;
use tidemill_testing::sender::Sender;

fn source(listen: u16) -> String {
    format!(
        "CREATE SOURCE events (n BIGINT, time TIMESTAMP NOT NULL)
            WITH (connector = 'line_protocol', listen = 'http://127.0.0.1:{listen}')"
    )
}

/// Posts the rows 0, 1, ... from a thread. A client's requests are numbered, and each is taken once.
fn sender(listen: u16, client: &'static str, rows: u64) -> Sender {
    let body = |n: u64| format!("events n={n}i 1700000000000\n");
    Sender::start(listen, client, (0..rows).map(body).collect())
}

/// Returns what psql prints for a user.
fn psql_as(server: &Served, user: &str, statement: &str) -> String {
    let arguments =
        ["-X", "-A", "-t", "-h", "127.0.0.1", "-U", user, "-d", "db", "-p", &server.port, "-c", statement];
    let output = Command::new("psql").args(arguments).env("PGPASSWORD", "secret").output().unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_question_about_a_source_that_a_view_reads_sees_the_rows_beside_it() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[]);
    let listen = free_port();
    let server = Served::start(folder.path());
    server.psql(&source(listen));
    server.psql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM events");
    let port = server.port.clone();
    let asked = thread::spawn(move || served::psql(&port, "SELECT n >= 0 FROM events LIMIT 3"));
    let mut posted = 0;
    while !asked.is_finished() {
        sender(listen, Box::leak(format!("agent {posted}").into_boxed_str()), 1).join();
        posted += 1;
        thread::sleep(Duration::from_millis(20));
    }
    let answer = asked.join().unwrap();
    assert!(answer.starts_with("t\nt\nt\n"), "{answer}");
    assert!(answer.contains("NOTICE:  the rows of events go to the queries that run"), "{answer}");
    wait_until("the view has every row", || server.psql("SELECT n FROM total") == format!("{posted}\n"));
}

#[test]
fn a_reader_opens_no_port() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[("some.csv", "n\n1\n2\n")]);
    let listen = free_port();
    let server = Served::start(folder.path());
    server.psql(&source(listen));
    server.psql("CREATE SOURCE some WITH (path = 'some.csv')");
    server.psql("CREATE USER me PASSWORD 'secret' ROLE owner");
    let reader = |statement: &str| psql_as(&server, "eve", statement);
    assert_eq!(psql_as(&server, "me", "CREATE USER eve PASSWORD 'secret' ROLE reader"), "CREATE ROLE\n");
    for statement in ["SELECT n FROM events", "EXPLAIN ANALYZE SELECT n FROM events"] {
        let answer = reader(statement);
        assert!(answer.contains("only an owner may open source 'events'"), "{answer}");
    }
    // Drivers tell it from a wrong statement by its code.
    let arguments =
        ["-X", "-h", "127.0.0.1", "-U", "eve", "-d", "db", "-p", &server.port, "-v", "VERBOSITY=verbose"];
    let mut verbose = Command::new("psql");
    verbose.args(arguments).args(["-c", "SELECT n FROM events"]).env("PGPASSWORD", "secret");
    let told = String::from_utf8(verbose.output().unwrap().stderr).unwrap();
    assert!(told.starts_with("ERROR:  42501: only an owner may open source 'events'"), "{told}");
    assert!(TcpStream::connect(("127.0.0.1", listen)).is_err(), "the port is open");
    assert_eq!(reader("SELECT sum(n) FROM some"), "3\n");
    psql_as(&server, "me", "CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM events");
    let port = server.port.clone();
    let asked = thread::spawn(move || {
        let arguments = ["-X", "-A", "-t", "-h", "127.0.0.1", "-U", "eve", "-d", "db", "-p", &port, "-c"];
        let mut asked = Command::new("psql");
        asked.args(arguments).arg("SELECT n >= 0 FROM events LIMIT 1").env("PGPASSWORD", "secret");
        String::from_utf8(asked.output().unwrap().stdout).unwrap()
    });
    let mut posted = 0;
    while !asked.is_finished() {
        sender(listen, Box::leak(format!("agent {posted}").into_boxed_str()), 1).join();
        posted += 1;
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(asked.join().unwrap(), "t\n");
    wait_until("the view has every row", || reader("SELECT n FROM total") == format!("{posted}\n"));
}

#[test]
fn a_view_that_does_not_run_says_so_and_is_not_computed_in_its_place() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().port();
    let mut server = Served::start(folder.path());
    server.psql(&source(listen));
    let created = server.psql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM events");
    assert!(created.contains("'total' is defined, but it is not running"), "{created}");
    server.psql("CREATE VIEW above AS SELECT n + 1 AS m FROM total");
    for statement in
        ["SELECT n FROM total", "SELECT m FROM above", "SELECT 1 FROM (SELECT m FROM above) AS x"]
    {
        let answer = server.psql(statement);
        assert!(answer.contains("'total' has no rows to read: it was not started"), "{answer}");
    }
    let followed = server.psql("SUBSCRIBE TO total");
    assert!(followed.contains("`total` has no changes to follow: it was not started"), "{followed}");
    let created = server.psql("CREATE SINK out WITH (path = '/nowhere/out.csv') AS SELECT n FROM events");
    assert!(created.contains("'out' is defined, but it is not running"), "{created}");
    // Also when the database is opened again.
    for _ in 0..2 {
        let queries = server.psql("SHOW QUERIES");
        let reason = |name: &str| {
            let line = queries.lines().find(|line| line.starts_with(&format!("{name}|failed|")));
            line.unwrap_or_else(|| panic!("{name}: {queries}")).rsplit('|').next().unwrap().to_owned()
        };
        assert!(reason("total").contains("in use"), "{queries}");
        assert!(reason("out").starts_with("it was not started: "), "{queries}");
        assert!(reason("out").contains("/nowhere"), "{queries}");
        server.kill();
        server = Served::start(folder.path());
    }
    drop(taken);
    let started = server.psql("START MATERIALIZED VIEW total");
    assert!(started.ends_with("START\n") || started.contains("begins now"), "{started}");
    sender(listen, "agent", 5).join();
    wait_until("the view has every row", || server.psql("SELECT m FROM above") == "6\n");
}

#[test]
fn a_sink_whose_target_is_away_says_so_and_its_query_is_named() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[]);
    let (listen, away) = (free_port(), free_port());
    let server = Served::start(folder.path());
    server.psql(&source(listen));
    server.psql(&format!(
        "CREATE SINK hook WITH (connector = 'http', url = 'http://127.0.0.1:{away}/') AS SELECT n FROM events"
    ));
    sender(listen, "agent", 3).join();
    let reason = || {
        let queries = server.psql("SHOW QUERIES");
        queries.lines().find(|line| line.starts_with("hook|")).unwrap_or_default().to_owned()
    };
    wait_until("the reason is shown", || {
        let line = reason();
        line.contains("sink 'hook' has been waiting for its target") && line.contains("refused")
    });
    // Whoever takes the rows has to answer, too.
    let target = TcpListener::bind(("127.0.0.1", away)).unwrap();
    thread::spawn(move || {
        use std::io::{Read, Write};
        for stream in target.incoming().map_while(Result::ok) {
            let mut stream = stream;
            let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
            let mut buffer = [0; 4096];
            while stream.read(&mut buffer).is_ok_and(|read| read > 0) {
                let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
            }
        }
    });
    wait_until("the reason is gone", || reason().ends_with('|'));
}

#[test]
fn a_table_of_rows_without_an_end_is_refused() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[("some.csv", "n\n1\n2\n")]);
    let listen = free_port();
    let mut server = Served::start(folder.path());
    for options in [
        "path = 'some.csv', follow = true".to_owned(),
        format!("connector = 'line_protocol', listen = 'http://127.0.0.1:{listen}'"),
        "connector = 'push'".to_owned(),
    ] {
        let columns = if options.contains("path") { "n BIGINT" } else { "n BIGINT, time TIMESTAMP NOT NULL" };
        let refused = server.psql(&format!("CREATE TABLE t ({columns}) WITH ({options})"));
        assert!(refused.contains("'t' would never be complete"), "{options}: {refused}");
    }
    server.stop();
}

#[test]
fn a_table_that_is_slow_to_come_is_given_up_at_the_timeout() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[]);
    // It accepts connections, and nobody sends the last one.
    let listen = free_port();
    let mut server = Served::start(folder.path());
    let created = server.psql(&format!(
        "CREATE TABLE t (n BIGINT) WITH (connector = 'tcp', listen = '127.0.0.1:{listen}', format = 'csv',
            end_with_last_connection = true)"
    ));
    assert_eq!(created, "CREATE TABLE\n");
    let answer = server.psql("SET statement_timeout = '300 ms'; SELECT count(*) FROM t");
    assert!(answer.contains("ERROR"), "{answer}");
    server.stop();
}
