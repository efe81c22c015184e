//! `STOP` and `START` of a view at gateways, also at those that are away, and `ALTER` and `CREATE OR REPLACE`: at all of them or at
//! none, whoever is killed.

use std::process::Command;
use std::thread;
use std::time::Duration;

use super::fleet::{Fleet, ROWS_PER_REQUEST};
use super::kill;
use crate::support::child::wait_until;
use crate::support::folder_with;

fn signal(name: &str, process: &str) {
    assert!(Command::new("kill").args([name, process]).status().expect("kill runs").success());
}

#[test]
fn a_view_stays_stopped_and_continues_with_every_row() {
    let folder = folder_with(&[]);
    let requests = 60;
    let mut fleet = Fleet::start(folder.path(), 2, requests);
    wait_until("requests are answered", || fleet.answered().iter().all(|answered| *answered >= 20));
    fleet.text("STOP MATERIALIZED VIEW recent");
    let is_stopped = |fleet: &mut Fleet| {
        let queries = fleet.text("SHOW QUERIES");
        queries.contains("recent at g0|stopped") && queries.contains("recent at g1|stopped")
    };
    assert!(is_stopped(&mut fleet));
    let count = "SELECT count(*) FROM recent";
    let stopped = fleet.text(count);
    let process = fleet.process_at(1);
    kill(&process);
    wait_until("it is back", || is_stopped(&mut fleet) && fleet.answer(count).is_ok());
    assert_eq!(fleet.text(count), stopped, "the rows of durable views stay");
    fleet.restart_server();
    wait_until("they are back", || is_stopped(&mut fleet) && fleet.answer(count).is_ok());
    assert_eq!(fleet.text(count), stopped);
    fleet.text("START MATERIALIZED VIEW recent");
    fleet.finish();
    wait_until("every row is there", || fleet.check_whole_cycles(&[requests; 2]));
    assert!(fleet.text("SHOW QUERIES").contains("recent at g1|running"));
    fleet.text("STOP MATERIALIZED VIEW recent");
    fleet.text("DROP MATERIALIZED VIEW recent");
    assert_eq!(fleet.text("SHOW GATEWAYS"), "");
}

#[test]
fn answers_after_that_of_a_gateway_that_dies_belong_to_their_orders() {
    let folder = folder_with(&[]);
    let mut fleet = Fleet::start(folder.path(), 2, 5);
    fleet.finish();
    wait_until("every row is there", || fleet.check_whole_cycles(&[5, 5]));
    let process = fleet.process_at(0);
    signal("-STOP", &process);
    let mut other = fleet.connect();
    let stopping = thread::spawn(move || other.query("STOP MATERIALIZED VIEW recent").unwrap().values());
    // The one that can answer has done so.
    thread::sleep(Duration::from_secs(2));
    kill(&process);
    let error = stopping.join().unwrap().expect_err("one has died");
    assert!(error.contains("gateway 'g0'"), "{error}");
    wait_until("the other is stopped", || fleet.text("SHOW QUERIES").contains("recent at g1|stopped"));
    fleet.text("CREATE MATERIALIZED VIEW east WITH (start = 'earliest') AS SELECT count(*) AS n FROM cars1");
    wait_until("it is filled", || fleet.text("SELECT n FROM east") == "50");
    wait_until("both are stopped", || {
        let queries = fleet.text("SHOW QUERIES");
        queries.contains("recent at g0|stopped") && queries.contains("recent at g1|stopped")
    });
    // Whoever stops it again gives the order again.
    assert!(fleet.text("STOP MATERIALIZED VIEW recent; SHOW QUERIES").contains("recent at g1|stopped"));
    fleet.text("START MATERIALIZED VIEW recent");
    wait_until("every row is there", || fleet.check_whole_cycles(&[5, 5]));
}

#[test]
fn a_view_is_altered_or_replaced_at_all_gateways_or_at_none() {
    let folder = folder_with(&[]);
    let requests = 30;
    let mut fleet = Fleet::start(folder.path(), 2, requests);
    fleet.finish();
    wait_until("every row is there", || fleet.check_whole_cycles(&[requests; 2]));
    let rows = (requests * ROWS_PER_REQUEST) as i64;
    fleet.text("ALTER MATERIALIZED VIEW recent SET (retain_versions = 77)");
    assert!(fleet.check_whole_cycles(&[requests; 2]), "it keeps its rows");
    let plan = fleet.text("EXPLAIN ALTER MATERIALIZED VIEW recent SET (retain_versions = 78)");
    assert!(plan.contains("alters 'recent' at all of its gateways"), "{plan}");

    let part = |gate: usize, value: &str| format!("SELECT {value} AS n, 'g{gate}' AS gate FROM cars{gate}");
    let replaced = |one: &str, other: &str| {
        let (one, other) = (part(0, one), part(1, other));
        format!("CREATE OR REPLACE MATERIALIZED VIEW recent AS {one} UNION ALL {other}")
    };
    let sums = "SELECT CAST(sum(n) AS BIGINT) FROM recent GROUP BY gate ORDER BY gate";
    let whole = rows * (rows + 1) / 2;
    fleet.text(&replaced("n", "n * 2"));
    assert_eq!(
        fleet.text(sums),
        format!("{whole}\n{}", whole * 2),
        "it is filled when the statement is answered"
    );

    // One that says nothing is named, and both stay as they were.
    let process = fleet.process_at(1);
    signal("-STOP", &process);
    let error = fleet.error(&format!("SET statement_timeout = '2 s'; {}", replaced("n * 3", "n * 3")));
    signal("-CONT", &process);
    assert!(error.contains("57014") || error.contains("nothing has changed"), "{error}");
    fleet.text("SET statement_timeout = 0");
    wait_until("it can be read", || fleet.answer(sums).is_ok());
    assert_eq!(fleet.text(sums), format!("{whole}\n{}", whole * 2));

    // Only one part computes something else: it is filled again at both, or continues there.
    fleet.text(&replaced("n", "n * 4"));
    assert_eq!(fleet.text(sums), format!("{whole}\n{}", whole * 4));
    kill(&fleet.process_at(0));
    wait_until("it is back", || {
        fleet.answer(sums).is_ok_and(|sums| sums == format!("{whole}\n{}", whole * 4))
    });
    fleet.restart_server();
    wait_until("they are back", || {
        fleet.answer(sums).is_ok_and(|sums| sums == format!("{whole}\n{}", whole * 4))
    });

    let error =
        fleet.error("CREATE OR REPLACE MATERIALIZED VIEW recent AS SELECT n, 'g0' AS gate FROM cars0");
    assert!(error.contains("other gateways than before"), "{error}");
    let error = fleet.error(
        "CREATE OR REPLACE MATERIALIZED VIEW recent AS SELECT m FROM cars0 UNION ALL SELECT m FROM cars1",
    );
    assert!(error.contains("42703"), "{error}");
    assert_eq!(fleet.text(sums), format!("{whole}\n{}", whole * 4));
}

/// Every part of a view continues when the source at its gateway gets a column, while rows come and gateways and the server are killed.
#[test]
fn sources_at_gateways_get_columns() {
    let folder = folder_with(&[]);
    let requests = 120;
    let mut fleet = Fleet::start(folder.path(), 2, requests);
    let answered = |fleet: &Fleet, due: u64| {
        wait_until("requests are answered", || fleet.answered().iter().all(|answered| *answered >= due));
    };
    answered(&fleet, 10);
    fleet.text("ALTER SOURCE cars0 ADD COLUMN speed DOUBLE");
    answered(&fleet, 30);
    kill(&fleet.process_of(0));
    answered(&fleet, 50);
    fleet.text("ALTER SOURCE cars1 ADD COLUMN title TEXT FIRST, ADD COLUMN speed DOUBLE AFTER x");
    fleet.restart_server();
    fleet.finish();
    wait_until("every row is there", || fleet.check_whole_cycles(&[requests; 2]));
    fleet
        .text("CREATE MATERIALIZED VIEW fast WITH (start = 'earliest') AS SELECT n, title, speed FROM cars1");
    // The journal keeps rows of before the change only while somebody needs them.
    let filled = "SELECT count(*) - count(DISTINCT n), count(title), count(speed) FROM fast";
    wait_until("it can be read", || fleet.answer(filled).is_ok_and(|answer| answer == "0|0|0"));
    kill(&fleet.process_of(1));
    wait_until("it is back", || fleet.answer(filled).is_ok_and(|answer| answer == "0|0|0"));
    assert!(fleet.check_whole_cycles(&[requests; 2]));
}
