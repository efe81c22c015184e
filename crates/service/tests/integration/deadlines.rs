//! Deadlines over a whole catalogue: costs that are measured, later definitions that would break a deadline, and running queries
//! that follow what changes beside them.

use crate::runtimes;

use std::path::Path;

use crate::runtimes::start;
use crate::statements::{define, execute};
use crate::waiting::{PATIENCE, until};
use tidemill_service::{QueryState, Reply, Runtime, Session};
use tidemill_sql::Planner;

/// A database on a machine that keeps measured costs in this folder.
fn session(folder: &Path) -> Session {
    let mut planner = Planner::new();
    planner.settings_mut().workers = 2;
    planner.settings_mut().cost_profiles = Some(folder.join("costs"));
    let mut session = Session::new(&Runtime::new(planner));
    session.set_checks_deadlines(true);
    define(&mut session, "CREATE VIEW s AS SELECT value FROM sequence(rate => 1000)");
    session
}

fn stop(session: &Session, query: &str) {
    session.runtime().stop(query).unwrap();
    session.runtime().wait(query).unwrap();
    session.runtime().forget(query).unwrap();
}

fn text(session: &mut Session, statement: &str) -> String {
    match execute(session, statement).unwrap_or_else(|error| panic!("{error}")) {
        Reply::Text(text) | Reply::Done(text) => text,
        Reply::Rows(rows) => format!("{rows:?}"),
        _ => panic!("no text: {statement}"),
    }
}

fn refused(session: &mut Session, statement: &str) -> String {
    match execute(session, statement) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("not refused: {statement}"),
    }
}

/// A sink of every third number.
fn thirds(options: &str) -> String {
    format!(
        "CREATE OR REPLACE SINK thirds WITH (connector = 'blackhole', {options}) \
         AS SELECT value, value * 2 AS double FROM s WHERE value % 3 = 0"
    )
}

const MEASURED: &str = "pool = p, deadline = '100 ms', burst = 4, min_gap = '4 ms'";

#[test]
fn costs_are_measured_then_the_deadline_is_analysed_and_the_next_run_knows_them() {
    let folder = tempfile::tempdir().unwrap();
    {
        let mut session = session(folder.path());
        define(&mut session, "CREATE POOL p WITH (workers = 2)");
        define(&mut session, &thirds(MEASURED));
        let planned = text(&mut session, "EXPLAIN thirds");
        assert!(
            planned.contains("deadline: 100 ms; not analysed yet: costs are measured first"),
            "{planned}"
        );
        assert!(
            planned.contains("costs: 0 cycles are measured, 64 more are needed; 1.5 times the worst"),
            "{planned}"
        );
        assert!(planned.contains("an event waits at most 50 ms\n"), "{planned}");
        start(&mut session, "thirds");
        let is_admitted =
            |text: &str| text.contains("analysed since it started:\ndeadline: 100 ms; released after ");
        until("the query is admitted", || is_admitted(&text(&mut session, "EXPLAIN thirds")));
        let found = text(&mut session, "EXPLAIN thirds");
        println!("{found}");
        assert!(
            found.contains("; 1.5 times the worst is at most ") && found.contains(" for the rest\n"),
            "{found}"
        );
        // Each part of the plan has its worst case.
        assert!(
            found.contains("of the parts at most ") && found.contains(" for compute s.value * 2 AS double, "),
            "{found}"
        );
        let rows = |session: &Session| session.runtime().status("thirds").unwrap().unwrap().rows_in();
        let before = rows(&session);
        until("it continues", || rows(&session) > before + 100);
        stop(&session, "thirds");
    }
    // Another process would find the same.
    let mut session = session(folder.path());
    define(&mut session, "CREATE POOL p WITH (workers = 2)");
    let explained = text(&mut session, &format!("EXPLAIN {}", thirds(MEASURED)));
    assert!(explained.contains("deadline: 100 ms; released after "), "{explained}");
    assert!(explained.contains("costs: measured in "), "{explained}");
    define(&mut session, &thirds(MEASURED));
    start(&mut session, "thirds");
    let running = text(&mut session, "EXPLAIN thirds");
    assert!(running.contains("deadline: 100 ms; released after "), "{running}");
    // Of another query, nothing is known.
    let other = thirds(MEASURED).replace("% 3", "% 5");
    assert!(text(&mut session, &format!("EXPLAIN {other}")).contains("0 cycles are measured"));
    stop(&session, "thirds");
}

#[test]
fn measured_costs_that_break_the_deadline_are_reported_and_refuse_the_next_definition() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path());
    // A hundred times any cost is more than that.
    let options = "deadline = '1 ms', min_gap = '500 us', wcet = 'measure', margin = 100";
    define(&mut session, &thirds(options));
    start(&mut session, "thirds");
    until("it is analysed", || {
        text(&mut session, "EXPLAIN thirds").contains("deadline: 1 ms; not kept for certain: ")
    });
    let rows = |session: &Session| session.runtime().status("thirds").unwrap().unwrap().rows_in();
    let before = rows(&session);
    until("it continues", || rows(&session) > before + 100);
    // A restart does not refuse what ran before.
    stop(&session, "thirds");
    start(&mut session, "thirds");
    let running = text(&mut session, "EXPLAIN thirds");
    assert!(running.contains("deadline: 1 ms; not kept for certain: "), "{running}");
    stop(&session, "thirds");
    let error = refused(&mut session, &thirds(options));
    assert!(
        error.contains("sink 'thirds' cannot keep its deadline of 1 ms by the costs that were measured: "),
        "{error}"
    );
    assert!(error.contains("best_effort = true"), "{error}");
    let accepted = text(&mut session, &thirds(&format!("{options}, best_effort = true")));
    assert!(accepted.starts_with("sink thirds created; but sink 'thirds' cannot keep"), "{accepted}");
    start(&mut session, "thirds");
    stop(&session, "thirds");
}

const ALARMS: &str = "CREATE SINK alarms WITH (connector = 'blackhole', pool = p, deadline = '60 ms', \
                      min_gap = '100 ms', wcet = '20 ms') AS SELECT value FROM s";

/// A sink that goes before the alarms.
fn quick(options: &str) -> String {
    format!(
        "CREATE SINK quick WITH (connector = 'blackhole', pool = p, deadline = '50 ms', min_gap = '100 ms'{options}) \
         AS SELECT value FROM s"
    )
}

#[test]
fn a_definition_that_breaks_the_deadline_of_another_sink_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path());
    define(&mut session, "CREATE POOL p WITH (policy = 'fifo', priority = 20)");
    define(&mut session, ALARMS);
    let version = session.runtime().catalog().version();
    let error = refused(&mut session, &quick(", wcet = '45 ms'"));
    // Two of its releases may come within the response.
    let expected = "beside 'quick', sink 'alarms' cannot keep its deadline of 60 ms: \
                    the bound is 110 ms, of which 90 ms are 'quick'";
    assert!(error.contains(expected), "{error}");
    // Nothing of it is left.
    assert_eq!(session.runtime().catalog().version(), version);
    assert!(!text(&mut session, "SHOW SINKS").contains("quick"));
    define(&mut session, &quick(", wcet = '20 ms'"));
    let above = "CREATE POOL above WITH (policy = 'fifo', priority = 40, budget = '30 ms', period = '100 ms'";
    let error = refused(&mut session, &format!("{above})"));
    let expected = "beside 'above', sink 'alarms' cannot keep its deadline of 60 ms: the bound is 120 ms";
    assert!(error.contains(expected) && error.contains("'pool above'"), "{error}");
    // A pool below is no matter.
    define(
        &mut session,
        "CREATE POOL below WITH (policy = 'fifo', priority = 3, budget = '30 ms', period = '100 ms')",
    );
    let accepted = text(&mut session, &format!("{above}, best_effort = true)"));
    assert!(
        accepted.starts_with("pool above created; but beside 'above', sink 'alarms' cannot keep"),
        "{accepted}"
    );
    // What is there already, or is broken already, keeps nobody from defining more.
    define(&mut session, &ALARMS.replace("CREATE SINK", "CREATE SINK IF NOT EXISTS"));
    let third = quick(", wcet = '1 ms'").replace("quick", "third").replace("50 ms", "500 ms");
    define(&mut session, &third);
    let error = refused(&mut session, &quick(", wcet = '60 ms'").replace("quick", "fourth"));
    assert!(error.contains("sink 'fourth' cannot keep its deadline of 50 ms"), "{error}");
    let accepted =
        text(&mut session, &quick(", wcet = '60 ms', best_effort = true").replace("quick", "fourth"));
    assert!(accepted.contains("; but sink 'fourth' cannot keep"), "{accepted}");
}

#[test]
fn a_running_query_follows_what_changes_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = session(folder.path());
    define(&mut session, "CREATE POOL p WITH (budget = '80 ms', period = '100 ms')");
    define(&mut session, ALARMS.replace("'60 ms'", "'200 ms'").as_str());
    start(&mut session, "alarms");
    let before = text(&mut session, "EXPLAIN alarms");
    assert!(before.contains("released after ") && !before.contains("analysed since"), "{before}");
    define(&mut session, &quick(", wcet = '20 ms'").replace("50 ms", "300 ms"));
    let after = text(&mut session, "EXPLAIN alarms");
    let expected = "analysed since it started:\ndeadline: 200 ms; released after ";
    assert!(after.contains(expected) && after.contains(" for 'quick'"), "{after}");
    let cycles =
        |session: &Session| session.runtime().status("alarms").unwrap().unwrap().engine.committed_end;
    let done = cycles(&session);
    until("cycles close by the new rule", || cycles(&session) > done + 2);
    define(&mut session, "DROP SINK quick");
    let again = text(&mut session, "EXPLAIN alarms");
    assert!(again.contains(expected) && !again.contains(" for 'quick'"), "{again}");
    // Its threads stay where they are.
    define(&mut session, "CREATE OR REPLACE POOL p WITH (budget = '70 ms', period = '100 ms')");
    let replaced = text(&mut session, "EXPLAIN alarms");
    assert!(replaced.contains("its pool was replaced since it started: "), "{replaced}");
    stop(&session, "alarms");
}

#[test]
fn a_restart_brings_back_a_query_whose_deadline_a_later_definition_has_broken() {
    let folder = tempfile::tempdir().unwrap();
    let open = || runtimes::open(Planner::new(), &folder.path().join("catalogue"));
    {
        let mut session = Session::new(&open());
        session.set_checks_deadlines(true);
        define(&mut session, "CREATE VIEW s AS SELECT value FROM sequence(rate => 1000)");
        define(&mut session, "CREATE POOL p WITH (policy = 'fifo', priority = 2, best_effort = true)");
        define(&mut session, ALARMS);
        start(&mut session, "alarms");
        let above = "CREATE POOL above WITH (policy = 'fifo', priority = 40, budget = '90 ms', period = '100 ms', \
                     best_effort = true)";
        assert!(text(&mut session, above).contains("; but beside 'above', sink 'alarms' cannot keep"));
        // The running query says so.
        assert!(text(&mut session, "EXPLAIN alarms").contains("deadline: 60 ms; not kept for certain: "));
        assert!(session.runtime().close(PATIENCE).is_empty());
    }
    let runtime = open();
    assert_eq!(runtime.state("alarms"), Ok(QueryState::Running));
    let mut session = Session::new(&runtime);
    assert!(text(&mut session, "EXPLAIN alarms").contains("deadline: 60 ms; not kept for certain: "));
    // Where it is started again by hand, it is refused.
    stop(&session, "alarms");
    let error = session.pipeline_of(&["alarms"]).err().unwrap().to_string();
    assert!(error.contains("sink 'alarms' cannot keep its deadline of 60 ms"), "{error}");
}
