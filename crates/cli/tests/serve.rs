//! `tidemill serve`, with psql as its client. Where psql is not installed, the test says so and passes; in CI
//! (`TIDEMILL_CLIENTS=required`) it fails.
#![cfg(unix)]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use support::child::signal;
use support::*;

/// A server with data in a folder, and its port.
fn serve(folder: &Path) -> (Child, String) {
    let mut command =
        tidemill(folder, &["serve", "--data", "tides", "--listen", "127.0.0.1:0", "--http", "off"]);
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    let (_, rest) = line.split_once("127.0.0.1:").unwrap_or_else(|| panic!("no address: {line}"));
    (child, rest.split(';').next().unwrap().to_owned())
}

/// The rows of a statement, without headers; `None` if there is no psql.
fn psql(port: &str, statement: &str) -> Option<String> {
    let arguments =
        ["-X", "-A", "-t", "-h", "127.0.0.1", "-U", "me", "-d", "db", "-p", port, "-c", statement];
    match Command::new("psql").args(arguments).output() {
        Ok(output) => {
            Some(String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr))
        }
        Err(error) => {
            let is_required = std::env::var("TIDEMILL_CLIENTS").is_ok_and(|value| value == "required");
            assert!(!is_required, "psql cannot be run: {error}");
            eprintln!("skipped: psql cannot be run: {error}");
            None
        }
    }
}

#[test]
fn definitions_are_there_again_when_the_server_starts_again() {
    let folder = folder_with(&[("clicks.csv", "id,price\n1,0.5\n2,1.5\n")]);
    let folder = folder.path();
    let (mut server, port) = serve(folder);
    let create = "CREATE SOURCE clicks (id BIGINT, price DOUBLE) WITH (path = 'clicks.csv');
        CREATE VIEW prices AS SELECT sum(price) AS total FROM clicks;
        CREATE MATERIALIZED VIEW each AS SELECT id, price * 2 AS twice FROM clicks";
    let created = psql(&port, create);
    signal(&server, "TERM");
    assert_eq!(server.wait().unwrap().code(), Some(0));
    let Some(created) = created else { return };
    assert_eq!(created, "CREATE SOURCE\nCREATE VIEW\nCREATE MATERIALIZED VIEW\n");

    let (mut server, port) = serve(folder);
    assert_eq!(psql(&port, "SELECT total FROM prices").unwrap(), "2\n");
    // The view was started again, and fills itself from its source.
    child::wait_until("the view is filled", || {
        psql(&port, "SELECT twice FROM each ORDER BY id").unwrap() == "1\n3\n"
    });
    assert_eq!(psql(&port, "SHOW QUERIES").unwrap().split('|').next(), Some("each"));
    // The folder has one server.
    let other = ended(folder, &["serve", "--data", "tides", "--listen", "127.0.0.1:0", "--http", "off"]);
    assert_ne!(other.code, Some(0));
    signal(&server, "INT");
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

/// The lines of a file below its first one, in order; none if it does not exist yet.
fn rows(folder: &Path, file: &str) -> Vec<String> {
    let mut rows = rows_of(&folder.join(file));
    rows.sort();
    rows
}

fn append(folder: &Path, file: &str, text: &str) {
    let mut file = std::fs::OpenOptions::new().append(true).open(folder.join(file)).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn sinks_of_a_durable_source_miss_nothing_and_repeat_nothing_whichever_way_the_server_ends() {
    let folder = folder_with(&[("in.csv", "id\n10\n")]);
    let folder = folder.path();
    let (mut server, port) = serve(folder);
    let create = "CREATE SOURCE input (id BIGINT) WITH (path = 'in.csv', follow = true, durable = true);
        CREATE SINK doubled AS SELECT id * 2 AS twice FROM input WITH (path = 'doubled.csv');
        CREATE SINK copied WITH (path = 'copied.csv');
        INSERT INTO copied SELECT id FROM input";
    let Some(created) = psql(&port, create) else {
        signal(&server, "TERM");
        server.wait().unwrap();
        return;
    };
    assert_eq!(created, "CREATE SOURCE\nCREATE SINK\nCREATE SINK\nINSERT 0 0\n");
    let mut expected = vec![10];
    for (round, end) in ["TERM", "KILL", "INT", "KILL"].into_iter().enumerate() {
        let value = 11 + round;
        append(folder, "in.csv", &format!("{value}\n"));
        expected.push(value);
        expected.sort_unstable();
        let copied: Vec<String> = expected.iter().map(ToString::to_string).collect();
        let doubled: Vec<String> = expected.iter().map(|id| (id * 2).to_string()).collect();
        child::wait_until("the sinks have every row", || {
            rows(folder, "copied.csv") == copied && rows(folder, "doubled.csv") == doubled
        });
        // It is taken in, or it is still in the file when the server ends.
        append(folder, "in.csv", &format!("{}\n", value + 20));
        signal(&server, end);
        let code = server.wait().unwrap().code();
        assert_eq!(code, (end != "KILL").then_some(0));
        let (next, port) = serve(folder);
        server = next;
        assert_eq!(states(&port), ["copied|running", "doubled|running"]);
        expected.push(value + 20);
    }
    expected.sort_unstable();
    let copied: Vec<String> = expected.iter().map(ToString::to_string).collect();
    child::wait_until("the sinks have every row", || rows(folder, "copied.csv") == copied);
    signal(&server, "TERM");
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn two_views_over_one_connection_open_it_once_and_have_the_same_rows() {
    let folder = folder_with(&[]);
    let sender = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut server, port) = serve(folder.path());
    let create = format!(
        "CREATE SOURCE readings (sensor VARCHAR, value BIGINT)
             WITH (connector = 'tcp', connect = '{}', format = 'csv');
         CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM readings;
         CREATE MATERIALIZED VIEW most AS SELECT sensor, max(value) AS most FROM readings GROUP BY sensor",
        sender.local_addr().unwrap()
    );
    if psql(&port, &create).is_some() {
        let (mut connection, _) = sender.accept().unwrap();
        connection.write_all(b"a,1\nb,7\na,3\n").unwrap();
        let reads = |statement: &str, rows: &str| {
            child::wait_until(statement, || psql(&port, statement).unwrap() == rows);
        };
        reads("SELECT n FROM counted", "3\n");
        reads("SELECT most FROM most ORDER BY sensor", "3\n7\n");
        // One that comes later begins with what comes from then on, and the others continue without the first.
        psql(&port, "CREATE MATERIALIZED VIEW later AS SELECT value FROM readings").unwrap();
        psql(&port, "DROP MATERIALIZED VIEW counted").unwrap();
        connection.write_all(b"a,5\n").unwrap();
        reads("SELECT value FROM later", "5\n");
        reads("SELECT most FROM most ORDER BY sensor", "5\n7\n");
        sender.set_nonblocking(true).unwrap();
        assert!(sender.accept().is_err(), "the source was opened once more");
    }
    signal(&server, "TERM");
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn views_over_one_connection_begin_together_again_when_the_server_was_killed() {
    let folder = folder_with(&[]);
    let sender = TcpListener::bind("127.0.0.1:0").unwrap();
    let (mut server, port) = serve(folder.path());
    let create = format!(
        "CREATE SOURCE readings (value BIGINT) WITH (connector = 'tcp', connect = '{}', format = 'csv');
         CREATE MATERIALIZED VIEW first AS SELECT count(*) AS n, sum(value) AS total FROM readings;
         CREATE MATERIALIZED VIEW second AS SELECT count(*) AS n, sum(value) AS total FROM readings",
        sender.local_addr().unwrap()
    );
    let mut first = None;
    if psql(&port, &create).is_some() {
        let (mut connection, _) = sender.accept().unwrap();
        connection.write_all(b"1\n2\n").unwrap();
        // Open until the server is killed: otherwise it could connect once more before that.
        first = Some(connection);
    }
    signal(&server, "KILL");
    server.wait().unwrap();
    drop(first);
    if psql(&port, "SELECT 1").is_none() {
        return;
    }
    // Rows wait in the connection when the server opens it: whichever view was started second must have them, too.
    let sending = std::thread::spawn(move || {
        let (mut connection, _) = sender.accept().unwrap();
        connection.write_all("7\n".repeat(500).as_bytes()).unwrap();
        (sender, connection)
    });
    let (mut server, port) = serve(folder.path());
    let (sender, connection) = sending.join().unwrap();
    for view in ["first", "second"] {
        child::wait_until("both views have every row", || {
            psql(&port, &format!("SELECT n, total FROM {view}")).unwrap() == "500|3500\n"
        });
    }
    sender.set_nonblocking(true).unwrap();
    assert!(sender.accept().is_err(), "the source was opened once more");
    signal(&server, "TERM");
    assert_eq!(server.wait().unwrap().code(), Some(0));
    drop(connection);
}

#[test]
fn a_replaced_view_is_filled_by_its_new_definition_also_after_a_kill() {
    let folder = folder_with(&[("in.csv", "id\n1\n2\n3\n")]);
    let folder = folder.path();
    let (mut server, port) = serve(folder);
    let create = "CREATE SOURCE input (id BIGINT) WITH (path = 'in.csv');
        CREATE MATERIALIZED VIEW v AS SELECT id FROM input WHERE id > 1";
    let created = psql(&port, create);
    let reads = |port: &str, rows: &str| {
        child::wait_until("the view is filled", || psql(port, "SELECT * FROM v ORDER BY 1").unwrap() == rows);
    };
    if created.is_some() {
        reads(&port, "2\n3\n");
        let replaced =
            psql(&port, "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT id * 10 AS ten FROM input");
        let said = "NOTICE:  'v' is computed again from the beginning of its files\n";
        assert_eq!(replaced.unwrap(), format!("CREATE MATERIALIZED VIEW\n{said}"));
        // At once: before, it was read in the old form.
        assert_eq!(psql(&port, "SELECT * FROM v ORDER BY 1").unwrap(), "10\n20\n30\n");
    }
    signal(&server, "KILL");
    server.wait().unwrap();
    if created.is_some() {
        let (mut server, port) = serve(folder);
        reads(&port, "10\n20\n30\n");
        assert_eq!(states(&port), ["v|ended"]);
        signal(&server, "TERM");
        assert_eq!(server.wait().unwrap().code(), Some(0));
    }
}

/// The queries of a server, each with its state.
fn states(port: &str) -> Vec<String> {
    let shown = psql(port, "SHOW QUERIES").unwrap();
    shown.lines().map(|line| line.split('|').take(2).collect::<Vec<_>>().join("|")).collect()
}

#[test]
fn an_address_of_other_machines_is_refused() {
    let folder = folder_with(&[]);
    let refused =
        ended(folder.path(), &["serve", "--data", "tides", "--listen", "0.0.0.0:0", "--http", "off"]);
    refused.expect(2).tells(&["can be reached from other machines", "there are no users"]);
}
