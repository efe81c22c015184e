//! `tidemill serve`, with psql as its client. Where psql is not installed, the test says so and passes; in CI
//! (`TIDEMILL_CLIENTS=required`) it fails.
#![cfg(unix)]

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;

use crate::support::served::{Served, has_psql};
use crate::support::*;

#[test]
fn definitions_are_there_again_when_the_server_starts_again() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[("clicks.csv", "id,price\n1,0.5\n2,1.5\n")]);
    let folder = folder.path();
    let mut server = Served::start(folder);
    let create = "CREATE SOURCE clicks (id BIGINT, price DOUBLE) WITH (path = 'clicks.csv');
        CREATE VIEW prices AS SELECT sum(price) AS total FROM clicks;
        CREATE MATERIALIZED VIEW each AS SELECT id, price * 2 AS twice FROM clicks";
    let created = server.psql(create);
    server.stop();
    assert_eq!(created, "CREATE SOURCE\nCREATE VIEW\nCREATE MATERIALIZED VIEW\n");

    let mut server = Served::start(folder);
    assert_eq!(server.psql("SELECT total FROM prices"), "2\n");
    // The view was started again, and fills itself from its source.
    child::wait_until("the view is filled", || server.psql("SELECT twice FROM each ORDER BY id") == "1\n3\n");
    assert_eq!(server.psql("SHOW QUERIES").split('|').next(), Some("each"));
    // The folder has one server.
    let other = ended(folder, &["serve", "--data", "tides", "--listen", "127.0.0.1:0", "--http", "off"]);
    assert_ne!(other.code, Some(0));
    server.end("INT", Some(0));
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
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[("in.csv", "id\n10\n")]);
    let folder = folder.path();
    let mut server = Served::start(folder);
    let create = "CREATE SOURCE input (id BIGINT) WITH (path = 'in.csv', follow = true, durable = true);
        CREATE SINK doubled AS SELECT id * 2 AS twice FROM input WITH (path = 'doubled.csv');
        CREATE SINK copied WITH (path = 'copied.csv');
        INSERT INTO copied SELECT id FROM input";
    let created = server.psql(create);
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
        server.end(end, (end != "KILL").then_some(0));
        server = Served::start(folder);
        assert_eq!(states(&server), ["copied|running", "doubled|running"]);
        expected.push(value + 20);
    }
    expected.sort_unstable();
    let copied: Vec<String> = expected.iter().map(ToString::to_string).collect();
    child::wait_until("the sinks have every row", || rows(folder, "copied.csv") == copied);
    server.stop();
}

#[test]
fn two_views_over_one_connection_open_it_once_and_have_the_same_rows() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[]);
    let sender = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut server = Served::start(folder.path());
    let create = format!(
        "CREATE SOURCE readings (sensor VARCHAR, value BIGINT)
             WITH (connector = 'tcp', connect = '{}', format = 'csv');
         CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM readings;
         CREATE MATERIALIZED VIEW most AS SELECT sensor, max(value) AS most FROM readings GROUP BY sensor",
        sender.local_addr().unwrap()
    );
    server.psql(&create);
    let (mut connection, _) = sender.accept().unwrap();
    connection.write_all(b"a,1\nb,7\na,3\n").unwrap();
    let reads = |statement: &str, rows: &str| {
        child::wait_until(statement, || server.psql(statement) == rows);
    };
    reads("SELECT n FROM counted", "3\n");
    reads("SELECT most FROM most ORDER BY sensor", "3\n7\n");
    // One that comes later begins with what comes from then on, and the others continue without the first.
    server.psql("CREATE MATERIALIZED VIEW later AS SELECT value FROM readings");
    server.psql("DROP MATERIALIZED VIEW counted");
    connection.write_all(b"a,5\n").unwrap();
    reads("SELECT value FROM later", "5\n");
    reads("SELECT most FROM most ORDER BY sensor", "5\n7\n");
    sender.set_nonblocking(true).unwrap();
    assert!(sender.accept().is_err(), "the source was opened once more");
    server.stop();
}

#[test]
fn views_over_one_connection_begin_together_again_when_the_server_was_killed() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[]);
    let sender = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut server = Served::start(folder.path());
    let create = format!(
        "CREATE SOURCE readings (value BIGINT) WITH (connector = 'tcp', connect = '{}', format = 'csv');
         CREATE MATERIALIZED VIEW first AS SELECT count(*) AS n, sum(value) AS total FROM readings;
         CREATE MATERIALIZED VIEW second AS SELECT count(*) AS n, sum(value) AS total FROM readings",
        sender.local_addr().unwrap()
    );
    server.psql(&create);
    // Open until the server is killed: otherwise it could connect once more before that.
    let (mut connection, _) = sender.accept().unwrap();
    connection.write_all(b"1\n2\n").unwrap();
    server.kill();
    drop(connection);
    // Rows wait in the connection when the server opens it: whichever view was started second must have them, too.
    let sending = std::thread::spawn(move || {
        let (mut connection, _) = sender.accept().unwrap();
        connection.write_all("7\n".repeat(500).as_bytes()).unwrap();
        (sender, connection)
    });
    let mut server = Served::start(folder.path());
    let (sender, connection) = sending.join().unwrap();
    for view in ["first", "second"] {
        child::wait_until("both views have every row", || {
            server.psql(&format!("SELECT n, total FROM {view}")) == "500|3500\n"
        });
    }
    sender.set_nonblocking(true).unwrap();
    assert!(sender.accept().is_err(), "the source was opened once more");
    server.stop();
    drop(connection);
}

#[test]
fn a_replaced_view_is_filled_by_its_new_definition_also_after_a_kill() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[("in.csv", "id\n1\n2\n3\n")]);
    let folder = folder.path();
    let mut server = Served::start(folder);
    let create = "CREATE SOURCE input (id BIGINT) WITH (path = 'in.csv');
        CREATE MATERIALIZED VIEW v AS SELECT id FROM input WHERE id > 1";
    server.psql(create);
    let reads = |server: &Served, rows: &str| {
        child::wait_until("the view is filled", || server.psql("SELECT * FROM v ORDER BY 1") == rows);
    };
    reads(&server, "2\n3\n");
    let replaced = server.psql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT id * 10 AS ten FROM input");
    let said = "NOTICE:  'v' is computed again from the beginning of its files\n";
    assert_eq!(replaced, format!("CREATE MATERIALIZED VIEW\n{said}"));
    // At once: before, it was read in the old form.
    assert_eq!(server.psql("SELECT * FROM v ORDER BY 1"), "10\n20\n30\n");
    server.kill();
    let mut server = Served::start(folder);
    reads(&server, "10\n20\n30\n");
    assert_eq!(states(&server), ["v|ended"]);
    server.stop();
}

/// The queries of a server, each with its state.
fn states(server: &Served) -> Vec<String> {
    let shown = server.psql("SHOW QUERIES");
    shown.lines().map(|line| line.split('|').take(2).collect::<Vec<_>>().join("|")).collect()
}

#[test]
fn an_address_of_other_machines_is_refused() {
    let folder = folder_with(&[]);
    let refused =
        ended(folder.path(), &["serve", "--data", "tides", "--listen", "0.0.0.0:0", "--http", "off"]);
    refused.expect(2).tells(&["can be reached from other machines", "there are no users"]);
}
