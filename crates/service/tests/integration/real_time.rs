//! Queries in pools beside queries under the clock of the database: the same rows, and what each has done.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use crate::runtimes::start;
use crate::statements::{define, execute, numbers};
use crate::waiting::until;
use tidemill_service::{Reply, Runtime, Session};
use tidemill_sql::Planner;

fn runtime() -> (Runtime, Session) {
    let mut planner = Planner::new();
    planner.settings_mut().workers = 2;
    let runtime = Runtime::new(planner);
    let session = Session::new(&runtime);
    (runtime, session)
}

fn text(session: &mut Session, statement: &str) -> String {
    match execute(session, statement).unwrap_or_else(|error| panic!("{error}")) {
        Reply::Text(text) => text,
        Reply::Rows(rows) => format!("{rows:?}"),
        _ => panic!("no text: {statement}"),
    }
}

/// A sink in a pool, of every third number.
fn sink(session: &mut Session, path: &Path, options: &str) {
    let path = path.display();
    define(
        session,
        &format!(
            "CREATE OR REPLACE SINK thirds WITH (path = '{path}', overwrite = true{options}) \
             AS SELECT value, value * 2 AS double FROM s WHERE value % 3 = 0"
        ),
    );
}

#[test]
fn a_query_in_a_pool_has_its_own_cycles_beside_those_of_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let (runtime, mut session) = runtime();
    define(&mut session, "CREATE VIEW s AS SELECT value FROM sequence(count => 3000)");
    define(
        &mut session,
        "CREATE POOL fast WITH (workers = 1, policy = 'fifo', priority = 2, best_effort = true)",
    );
    define(&mut session, "CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM s");
    let mut written = Vec::new();
    let analysed = ", pool = fast, deadline = '10 s', burst = 100, min_gap = '10 s', wcet = '1 us'";
    for options in ["", ", pool = fast, deadline = '1 h'", analysed] {
        let path = folder.path().join(format!("{}.csv", written.len()));
        sink(&mut session, &path, options);
        start(&mut session, "thirds");
        let _ = runtime.wait("thirds").unwrap();
        runtime.forget("thirds").unwrap();
        written.push(fs::read_to_string(path).unwrap());
    }
    assert_eq!(written[0].lines().count(), 1001);
    assert!(written.iter().all(|rows| *rows == written[0]), "the rows depend on the pool");
    // The clock of the database was not disturbed.
    start(&mut session, "n");
    until("the view has all rows", || numbers(&mut session, "SELECT n FROM n") == [3000]);
    until("sources that end are closed", || runtime.clock().sources() == 0);
}

#[test]
fn stopping_and_dropping_ends_a_query_in_a_pool_whatever_its_budget() {
    let folder = tempfile::tempdir().unwrap();
    let (runtime, mut session) = runtime();
    define(&mut session, "CREATE VIEW s AS SELECT value FROM sequence(rate => 1000)");
    for pool in [
        "policy = 'other'",
        "policy = 'rr', priority = 2, budget = '1 ms', period = '20 ms', best_effort = true",
        "budget = '1 ms', period = '1 s', when_empty = 'pause'",
    ] {
        define(&mut session, &format!("CREATE OR REPLACE POOL p WITH ({pool})"));
        let path = folder.path().join("out.csv");
        sink(&mut session, &path, ", pool = p");
        start(&mut session, "thirds");
        until("rows come in", || {
            runtime.status("thirds").unwrap().is_some_and(|status| status.rows_in() > 10)
        });
        runtime.stop("thirds").unwrap();
        let _ = runtime.wait("thirds").unwrap();
        runtime.forget("thirds").unwrap();
        start(&mut session, "thirds");
        define(&mut session, "DROP SINK thirds");
        assert!(runtime.state("thirds").is_err());
    }
}

#[test]
fn a_running_query_explains_its_late_answers() {
    let folder = tempfile::tempdir().unwrap();
    let (runtime, mut session) = runtime();
    define(&mut session, "CREATE VIEW s AS SELECT value FROM sequence(rate => 1000)");
    define(&mut session, "CREATE POOL p");
    let before = text(&mut session, "SHOW POOLS");
    assert!(before.contains("policy other"), "{before}");
    // No answer can be there within a nanosecond.
    sink(&mut session, &folder.path().join("out.csv"), ", pool = p, deadline = '1 ns'");
    let planned = text(&mut session, "EXPLAIN thirds");
    assert!(
        planned.contains("deadline: 1 ns; not analysed") && !planned.contains("events answered"),
        "{planned}"
    );
    start(&mut session, "thirds");
    until("answers are late", || text(&mut session, "EXPLAIN thirds").contains("late answers: "));
    let explained = text(&mut session, "EXPLAIN thirds");
    assert!(explained.starts_with(&planned), "{explained}");
    for part in ["events answered: ", "'thirds' ran ", ", and nothing else of the pool; ", "its pool: "] {
        assert!(explained.contains(part), "{part}: {explained}");
    }
    let pools = runtime.catalog().pools();
    let [(name, status)] = pools.as_slice() else { panic!("{pools:?}") };
    assert!(name == "p" && status.deadline_misses > 0 && status.members > 0, "{status:?}");
    runtime.stop("thirds").unwrap();
    let _ = runtime.wait("thirds").unwrap();
    let status = &runtime.catalog().pools()[0].1;
    assert!(status.members == 0 && status.deadline_misses > 0, "{status:?}");
    assert!(text(&mut session, "EXPLAIN thirds").contains("late answers: "));
}

#[test]
fn a_cost_that_is_exceeded_is_counted_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let (runtime, mut session) = runtime();
    define(&mut session, "CREATE VIEW s AS SELECT value FROM sequence(rate => 1000)");
    define(&mut session, "CREATE POOL p");
    // Nothing costs as little as that.
    let options = ", pool = p, deadline = '10 s', min_gap = '1 ms', wcet = '1 ns'";
    sink(&mut session, &folder.path().join("out.csv"), options);
    start(&mut session, "thirds");
    until("a cost is exceeded", || {
        text(&mut session, "EXPLAIN thirds").contains("the admission was wrong: ")
    });
    let explained = text(&mut session, "EXPLAIN thirds");
    assert!(
        explained.contains("costs: at most ") && explained.contains("state a larger wcet"),
        "{explained}"
    );
    runtime.stop("thirds").unwrap();
    let _ = runtime.wait("thirds").unwrap();
}

/// A query in a pool reads its sources for itself, so a socket is listened at under the clock or in a pool.
#[test]
fn a_socket_is_read_by_views_or_in_a_pool() {
    let folder = tempfile::tempdir().unwrap();
    let (runtime, mut session) = runtime();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    define(
        &mut session,
        &format!(
            "CREATE SOURCE s (value BIGINT) WITH (connector = 'tcp', listen = '{address}', format = 'csv')"
        ),
    );
    define(&mut session, "CREATE POOL p");
    define(&mut session, "CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM s");
    sink(&mut session, &folder.path().join("out.csv"), ", pool = p");
    start(&mut session, "n");
    let second = session.pipeline_of(&["thirds"]).unwrap();
    let refused = runtime.start("thirds", second, false).unwrap_err().to_string();
    assert!(refused.contains(&address.to_string()) && refused.contains("cannot listen"), "{refused}");
    runtime.stop("n").unwrap();
    let _ = runtime.wait("n").unwrap();
    runtime.forget("n").unwrap();
    until("the socket is closed", || runtime.clock().sources() == 0);
    start(&mut session, "thirds");
    TcpStream::connect(address).unwrap().write_all(b"3\n4\n6\n").unwrap();
    until("rows have come", || runtime.status("thirds").unwrap().is_some_and(|status| status.rows_in() == 3));
    runtime.stop("thirds").unwrap();
    let _ = runtime.wait("thirds").unwrap();
    let written = fs::read_to_string(folder.path().join("out.csv")).unwrap();
    assert_eq!(written.lines().skip(1).collect::<Vec<_>>(), ["3,6", "6,12"]);
}

#[test]
fn what_a_pool_does_not_get_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let (_runtime, mut session) = runtime();
    define(&mut session, "CREATE VIEW s AS SELECT value FROM sequence(rate => 1000)");
    define(&mut session, "CREATE POOL p WITH (cores = '1000', best_effort = true)");
    sink(&mut session, &folder.path().join("out.csv"), ", pool = p");
    assert!(!text(&mut session, "SHOW POOLS").contains("core 1000 alone"));
    start(&mut session, "thirds");
    let shown = text(&mut session, "SHOW POOLS");
    assert!(shown.contains("its threads cannot run on core 1000 alone: "), "{shown}");
    assert!(
        text(&mut session, "EXPLAIN thirds").contains("its pool runs without what it asked for: its threads")
    );
    session.runtime().stop("thirds").unwrap();
    let _ = session.runtime().wait("thirds").unwrap();
}
