//! The source for PostgreSQL against a real server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_cast::display::array_value_to_string;
use tidemill_connect::postgres::{PostgresRows, PostgresSource, PostgresSourceSettings};
use tidemill_core::source::{Faults, Polled, Source};
use tidemill_core::{Cause, Fault};

use crate::postgres::user_error;
use tidemill_testing::ports::free_port;
use tidemill_testing::postgres::Server;

const PATIENCE: Duration = Duration::from_secs(60);

fn table(name: &str) -> PostgresRows {
    PostgresRows::Table(name.to_owned())
}

fn source(server: &Server, rows: PostgresRows, refresh: Option<Duration>) -> Result<PostgresSource, Cause> {
    let (url, schema) = (server.url(), rows.columns(&server.url())?);
    let retry_for = Duration::from_secs(600);
    PostgresSource::open(PostgresSourceSettings { url, rows, schema, refresh, retry_for })
}

fn texts(rows: &RecordBatch) -> Vec<String> {
    let value =
        |row: usize| rows.columns().iter().map(move |column| array_value_to_string(column, row).unwrap());
    (0..rows.num_rows()).map(|row| value(row).collect::<Vec<_>>().join("|")).collect()
}

/// The next rows, and what was reported until then; `None` if the source ends.
fn next(source: &mut PostgresSource, faults: &mut Faults) -> Option<Vec<String>> {
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < PATIENCE, "nothing comes: {faults:?}");
        let polled = source.poll(Duration::from_millis(20)).unwrap();
        faults.merge(source.faults());
        match polled {
            Polled::Rows(rows) if rows.num_rows() > 0 => return Some(texts(&rows)),
            Polled::Rows(_) | Polled::Nothing => {}
            Polled::Ended => return None,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_table_is_read_with_its_types() {
    let Some(server) = crate::postgres::server() else { return };
    server.query(
        "CREATE TABLE \"Kinds\" (b boolean, s smallint, i integer, l bigint, r real, d double precision, \
         n numeric(10,2), t text, v varchar(9), day date, clock time, at timestamp, zoned timestamptz, u uuid, \
         j jsonb)",
    );
    server.query(
        "INSERT INTO \"Kinds\" VALUES (true, -1, 2, 9007199254740993, 1.5, 0.1, 12345678.90, E'a,\"b\"\\nc\\\\N', '', \
         '2026-03-01', '12:30:00.5', '2026-03-01 12:00:00.25', '2026-03-01 12:00:00+02', \
         '00000000-0000-0000-0000-000000000001', '{\"a\": [1]}')",
    );
    server.query("INSERT INTO \"Kinds\" (t) VALUES (NULL), ('\\N')");
    let mut source = source(server, table("Kinds"), None).unwrap();
    let mut faults = Faults::default();
    let rows = next(&mut source, &mut faults).unwrap();
    assert_eq!(
        rows,
        [
            "true|-1|2|9007199254740993|1.5|0.1|12345678.90|a,\"b\"\nc\\N||2026-03-01|12:30:00.500|\
             2026-03-01T12:00:00.250|2026-03-01T10:00:00Z|00000000-0000-0000-0000-000000000001|{\"a\": [1]}",
            "||||||||||||||",
            "|||||||\\N|||||||",
        ]
    );
    assert_eq!(next(&mut source, &mut faults), None);
    assert_eq!(faults.count, 0, "{faults:?}");
}

#[test]
fn null_and_empty_text_differ_even_alone() {
    let Some(server) = crate::postgres::server() else { return };
    let rows = PostgresRows::Query("SELECT * FROM (VALUES (''), (NULL), ('x')) AS v (t);".to_owned());
    let mut source = source(server, rows, None).unwrap();
    let start = Instant::now();
    loop {
        assert!(start.elapsed() < PATIENCE);
        if let Polled::Rows(rows) = source.poll(Duration::from_millis(20)).unwrap() {
            assert_eq!(texts(&rows), ["", "", "x"]);
            let nulls: Vec<bool> = (0..3).map(|row| rows.column(0).is_null(row)).collect();
            assert_eq!(nulls, [false, true, false]);
            return;
        }
    }
}

#[test]
fn many_rows_come_in_batches() {
    let Some(server) = crate::postgres::server() else { return };
    let rows =
        PostgresRows::Query("SELECT n, repeat('x', 50) AS t FROM generate_series(1, 100000) AS n".to_owned());
    let mut source = source(server, rows, None).unwrap();
    let (mut faults, mut count) = (Faults::default(), 0);
    while let Some(rows) = next(&mut source, &mut faults) {
        count += rows.len();
    }
    assert_eq!((count, faults.count), (100_000, 0));
}

#[test]
fn a_table_that_is_refreshed_gives_what_is_new_or_has_changed() {
    let Some(server) = Server::start() else { return };
    server.query("CREATE TABLE customers (id bigint PRIMARY KEY, name text)");
    server.query("INSERT INTO customers VALUES (1, 'Ada'), (2, 'Grace')");
    let mut source = source(&server, table("customers"), Some(Duration::from_millis(100))).unwrap();
    let mut faults = Faults::default();
    assert_eq!(next(&mut source, &mut faults).unwrap(), ["1|Ada", "2|Grace"]);
    server.query(
        "BEGIN; UPDATE customers SET name = 'Lovelace' WHERE id = 1; INSERT INTO customers VALUES (3, 'Edsger'); \
         COMMIT",
    );
    let mut changed = next(&mut source, &mut faults).unwrap();
    changed.sort();
    assert_eq!(changed, ["1|Lovelace", "3|Edsger"]);

    // What was read stays, and it is read again when the server is back.
    server.crash();
    let start = Instant::now();
    while faults.notices.is_empty() {
        assert!(start.elapsed() < PATIENCE, "nothing is said");
        assert!(matches!(source.poll(Duration::from_millis(20)).unwrap(), Polled::Nothing));
        faults.merge(source.faults());
    }
    assert!(faults.notices.newest()[0].starts_with("PostgreSQL at 127.0.0.1:"), "{faults:?}");
    assert!(faults.notices.newest()[0].ends_with("; the rows that were read before stay"), "{faults:?}");
    server.resume();
    server.query("INSERT INTO customers VALUES (4, 'Barbara')");
    assert_eq!(next(&mut source, &mut faults).unwrap(), ["4|Barbara"]);
    // That is said once all rows are read.
    let start = Instant::now();
    while !faults.notices.newest().iter().any(|notice| notice.ends_with("is reachable again")) {
        assert!(start.elapsed() < PATIENCE, "{faults:?}");
        assert!(matches!(source.poll(Duration::from_millis(20)).unwrap(), Polled::Nothing));
        faults.merge(source.faults());
    }
    assert_eq!(faults.count, 0);
}

#[test]
fn a_server_that_is_away_at_the_start_is_waited_for() {
    let Some(server) = Server::start() else { return };
    server.query("CREATE TABLE customers (id bigint PRIMARY KEY, name text)");
    server.query("INSERT INTO customers VALUES (1, 'Ada'), (2, 'Grace')");
    let schema = table("customers").columns(&server.url()).unwrap();
    let opened = |retry_for| {
        let (url, rows, schema) = (server.url(), table("customers"), Arc::clone(&schema));
        PostgresSource::open(PostgresSourceSettings { url, rows, schema, refresh: None, retry_for }).unwrap()
    };
    server.crash();
    let (mut patient, mut faults) = (opened(Duration::from_secs(600)), Faults::default());
    let start = Instant::now();
    let gave_up = loop {
        assert!(start.elapsed() < PATIENCE, "it does not give up");
        let mut hasty = opened(Duration::ZERO);
        if let Err(cause) = hasty.poll(Duration::from_secs(30)) {
            break cause;
        }
    };
    assert_eq!(gave_up.fault, Fault::Operation, "{gave_up}");
    assert!(matches!(patient.poll(Duration::from_millis(500)).unwrap(), Polled::Nothing));
    server.resume();
    assert_eq!(next(&mut patient, &mut faults).unwrap(), ["1|Ada", "2|Grace"]);
    assert_eq!(next(&mut patient, &mut faults), None);
    assert_eq!(faults.count, 0, "{faults:?}");
}

#[test]
fn a_wrong_table_or_password_ends_the_first_reading_at_once() {
    let Some(server) = crate::postgres::server() else { return };
    let schema = PostgresRows::Query("SELECT 1 AS n".to_owned()).columns(&server.url()).unwrap();
    let (url, rows, retry_for) = (server.url(), table("not_there"), Duration::from_secs(600));
    let settings = PostgresSourceSettings { url, rows, schema, refresh: None, retry_for };
    let mut source = PostgresSource::open(settings).unwrap();
    let start = Instant::now();
    let text = loop {
        assert!(start.elapsed() < PATIENCE, "it is tried again");
        if let Err(cause) = source.poll(Duration::from_millis(20)) {
            break user_error(Err::<(), _>(cause));
        }
    };
    assert!(text.contains("relation \"not_there\" does not exist"), "{text}");
}

#[test]
fn what_cannot_be_read_is_named() {
    let Some(server) = crate::postgres::server() else { return };
    let refused = |rows: PostgresRows| user_error(source(server, rows, None).map(drop));
    let text = refused(table("not_there"));
    assert!(text.contains("relation \"not_there\" does not exist"), "{text}");
    let text = refused(PostgresRows::Query("SELECT 1::numeric AS n".to_owned()));
    assert!(text.contains("column 'n' is a numeric without a precision; declare the columns"), "{text}");
    // It may only read.
    let text = refused(PostgresRows::Query("SELECT 1 AS n) AS x; CREATE TABLE made (n int); --".to_owned()));
    assert!(text.contains("cannot insert multiple commands"), "{text}");

    let port = free_port();
    let cause = table("t").columns(&format!("postgres://me:geheim@127.0.0.1:{port}/db")).unwrap_err();
    assert_eq!(cause.fault, Fault::Operation);
    assert!(cause.message.contains("cannot be reached") && !cause.message.contains("geheim"), "{cause}");
}
