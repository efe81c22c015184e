//! What a runtime brings back: queries that ran run again, stopped ones do not, and what fails fails alone.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use crate::runtimes::{log, open, open_session, planner, start};
use crate::statements::{define, execute, numbers};
use crate::waiting::{PATIENCE, until};
use tidemill_engine::arrow::array::ArrayRef;
use tidemill_engine::arrow::schema::DataType;
use tidemill_service::{QueryState, Runtime, Session};
use tidemill_sql::Planner;

/// A planner of a program that has a function `same()`.
fn planner_with_same() -> Planner {
    let mut planner = planner();
    let same = |arguments: &[ArrayRef]| Ok(Arc::clone(&arguments[0]));
    planner.register_function("same", vec![DataType::Int64], DataType::Int64, same);
    planner
}

fn why_not(session: &mut Session, script: &str) -> String {
    match execute(session, script) {
        Ok(_) => panic!("{script} works"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_ran_runs_again_and_what_was_stopped_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let (path, file) = (folder.path().join("catalogue"), folder.path().join("rows.csv"));
    let (runtime, mut session) = open_session(planner(), &path);
    let script = format!(
        "CREATE MATERIALIZED VIEW endless AS SELECT count(*) AS n FROM sequence(rate => 1000);
         CREATE MATERIALIZED VIEW stopped AS SELECT count(*) AS n FROM sequence(rate => 1000);
         CREATE MATERIALIZED VIEW forgotten AS SELECT count(*) AS n FROM sequence(count => 7);
         CREATE MATERIALIZED VIEW filled AS SELECT count(*) AS n FROM sequence(count => 7);
         CREATE SINK written WITH (path = '{}') AS SELECT value FROM sequence(count => 3)",
        file.display()
    );
    define(&mut session, &script);
    for name in ["endless", "stopped", "forgotten", "filled", "written"] {
        start(&mut session, name);
    }
    runtime.stop("stopped").unwrap();
    for name in ["stopped", "forgotten", "filled", "written"] {
        runtime.wait(name).unwrap();
    }
    runtime.forget("forgotten").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "value\n0\n1\n2\n");
    drop((session, runtime));

    // A sink that has written everything must not be written again.
    fs::write(&file, "kept").unwrap();
    for _ in 0..2 {
        let (runtime, mut session) = open_session(planner(), &path);
        let queries = runtime.queries();
        let names: Vec<&str> = queries.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["endless", "filled"]);
        assert_eq!(runtime.state("endless").unwrap(), QueryState::Running);
        runtime.wait("filled").unwrap();
        assert_eq!(numbers(&mut session, "SELECT n FROM filled"), [7], "its rows are there again");
        until("the view stays empty", || numbers(&mut session, "SELECT n FROM endless").first() > Some(&0));
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    }

    let runtime = open(planner(), &path);
    runtime.stop("endless").unwrap();
    runtime.wait("endless").unwrap();
    drop(runtime);
    assert!(open(planner(), &path).state("endless").is_err());
}

#[test]
fn a_query_keeps_the_settings_that_it_was_started_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue");
    let (runtime, mut session) = open_session(planner(), &path);
    define(
        &mut session,
        "SET max_latency = '7 ms'; SET max_result_rows = 3;
         CREATE MATERIALIZED VIEW few AS SELECT value FROM sequence(count => 4)",
    );
    start(&mut session, "few");
    assert!(runtime.wait("few").unwrap_err().to_string().contains("max_result_rows"));
    drop((session, runtime));

    // Two queries with other settings do not disturb each other, and sessions begin with those of the program.
    let runtime = open(planner(), &path);
    assert_eq!(runtime.max_latency("few").unwrap(), Some(Duration::from_millis(7)));
    assert!(runtime.wait("few").unwrap_err().to_string().contains("max_result_rows"), "it is tried again");
    assert_eq!(Session::new(&runtime).settings().max_latency, None);
}

#[test]
fn a_definition_that_fails_does_not_take_the_others_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue");
    let (runtime, mut session) = open_session(planner_with_same(), &path);
    define(
        &mut session,
        "CREATE VIEW base AS SELECT same(value) AS value FROM sequence(rate => 1000);
         CREATE VIEW after AS SELECT value FROM base;
         CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM after;
         CREATE VIEW old AS SELECT 1 AS n;
         CREATE OR REPLACE VIEW old AS SELECT same(value) AS n FROM sequence(rate => 1000);
         CREATE MATERIALIZED VIEW well AS SELECT count(*) AS n FROM sequence(rate => 1000)",
    );
    start(&mut session, "counted");
    start(&mut session, "well");
    drop((session, runtime));

    // The program has lost its function.
    let (runtime, mut session) = open_session(planner(), &path);
    let catalog = runtime.catalog();
    let failed = catalog.failed_definitions().iter().map(|failed| {
        let (_, name) = failed.defines.as_ref().unwrap();
        (failed.definition.version, name.as_str(), failed.reason.as_str())
    });
    let reason = "unknown function `same`";
    let of_base = "the definition of `base` has failed: unknown function `same`";
    let of_after = format!("the definition of `after` has failed: {of_base}");
    let expected =
        [(1, "base", reason), (2, "after", of_base), (3, "counted", &of_after), (5, "old", reason)];
    assert_eq!(failed.collect::<Vec<_>>(), expected);
    let queries = runtime.queries();
    assert_eq!(
        queries,
        [("counted".to_owned(), QueryState::Failed), ("well".to_owned(), QueryState::Running)]
    );
    let why = runtime.wait("counted").unwrap_err().to_string();
    assert_eq!(why, format!("the definition of 'counted' has failed: {of_after}"));
    until("the view stays empty", || numbers(&mut session, "SELECT n FROM well").first() > Some(&0));

    // Its name stays taken, and using it says why.
    let why = why_not(&mut session, "SELECT * FROM after");
    assert!(why.contains(&format!("the definition of `after` has failed: {of_base}")), "{why}");
    assert!(why_not(&mut session, "CREATE VIEW base AS SELECT 1 AS n").contains("'base' already exists"));
    define(&mut session, "CREATE VIEW IF NOT EXISTS base AS SELECT 1 AS n");
    assert!(why_not(&mut session, "DROP SOURCE base").contains("there is no source 'base'"));
    assert_eq!(runtime.catalog().failed_definitions().len(), 4);

    // It can be dropped, and replaced, with all that builds on it.
    define(&mut session, "DROP MATERIALIZED VIEW counted; DROP VIEW old; CREATE VIEW old AS SELECT 5 AS n");
    assert!(runtime.state("counted").is_err());
    define(&mut session, "CREATE OR REPLACE VIEW base AS SELECT value FROM sequence(count => 2)");
    define(&mut session, "CREATE OR REPLACE VIEW after AS SELECT value FROM base");
    assert_eq!(numbers(&mut session, "SELECT value FROM after ORDER BY 1"), [0, 1]);
    assert!(runtime.catalog().failed_definitions().is_empty());
    drop((session, runtime));

    // Whether the program has its function again or not, the catalogue is the same now.
    for planner in [planner(), planner_with_same()] {
        let (runtime, mut session) = open_session(planner, &path);
        assert!(runtime.catalog().failed_definitions().is_empty());
        assert_eq!(runtime.catalog().version(), 12);
        assert_eq!(numbers(&mut session, "SELECT value FROM after ORDER BY 1"), [0, 1]);
        assert_eq!(numbers(&mut session, "SELECT n FROM old"), [5]);
        assert!(execute(&mut session, "SELECT * FROM counted").is_err());
        assert_eq!(runtime.queries().len(), 1);
    }
}

#[test]
fn functions_and_what_uses_them_mean_the_same_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue");
    let (runtime, mut session) = open_session(planner(), &path);
    define(
        &mut session,
        "CREATE FUNCTION more(x BIGINT) RETURNS BIGINT AS 'x + 1';
         CREATE FUNCTION from_to(first BIGINT, last BIGINT) RETURNS TABLE (n BIGINT) AS
             $$ SELECT more(value) FROM generate_series(first, last) AS s(value) $$;
         CREATE VIEW before AS SELECT more(10) AS n;
         CREATE OR REPLACE FUNCTION more(x BIGINT) RETURNS BIGINT AS 'x + 2';
         CREATE VIEW after AS SELECT more(10) AS n",
    );
    let asked =
        "SELECT n FROM before UNION ALL SELECT n FROM after UNION ALL SELECT n FROM from_to(1, 2) ORDER BY 1";
    let numbers_before = numbers(&mut session, asked);
    drop((session, runtime));

    let (runtime, mut session) = open_session(planner(), &path);
    assert_eq!(numbers(&mut session, asked), numbers_before);
    let error = why_not(&mut session, "DROP FUNCTION more");
    assert!(
        error.contains("view 'after', view 'before' and function 'from_to' use function 'more'"),
        "{error}"
    );
    define(&mut session, "DROP VIEW before; DROP VIEW after; DROP FUNCTION from_to; DROP FUNCTION more");
    drop((session, runtime));
    let runtime = open(planner(), &path);
    let error = why_not(&mut Session::new(&runtime), "SELECT more(1)");
    assert!(error.contains("unknown function `more`"), "{error}");
}

/// What was accepted once is accepted again at the next start, whether the file is there or not.
#[test]
fn functions_whose_definitions_fail_keep_their_names_and_what_they_use() {
    let folder = tempfile::tempdir().unwrap();
    let (path, file) = (folder.path().join("catalogue"), folder.path().join("rows.csv"));
    std::fs::write(&file, "id\n1\n2\n").unwrap();
    let (runtime, mut session) = open_session(planner(), &path);
    define(
        &mut session,
        &format!(
            "CREATE FUNCTION twice(x BIGINT) RETURNS BIGINT AS 'x + x';
             CREATE FUNCTION from_on(least BIGINT) RETURNS TABLE (id BIGINT) AS
                 $$ SELECT twice(id) FROM '{}' WHERE id >= least $$;
             CREATE VIEW second AS SELECT * FROM from_on(2);
             CREATE FUNCTION third() RETURNS TABLE (id BIGINT) AS 'SELECT id + 2 FROM from_on(2)'",
            file.display()
        ),
    );
    let asked = "SELECT id FROM second UNION ALL SELECT id FROM third() ORDER BY 1";
    assert_eq!(numbers(&mut session, asked), [4, 6]);
    drop((session, runtime));

    std::fs::remove_file(&file).unwrap();
    let (runtime, mut session) = open_session(planner(), &path);
    assert_eq!(runtime.catalog().failed_definitions().len(), 3);
    for (statement, reason) in [
        ("SELECT * FROM from_on(1)", "the definition of `from_on` has failed"),
        ("SELECT from_on(1)", "the definition of `from_on` has failed"),
        ("SELECT * FROM from_on", "the definition of `from_on` has failed"),
        ("SELECT * FROM third()", "the definition of `third` has failed"),
        ("DROP FUNCTION twice", "function 'from_on' uses function 'twice'"),
        ("DROP FUNCTION from_on", "view 'second' and function 'third' use function 'from_on'"),
        ("CREATE FUNCTION from_on() RETURNS INT AS '1'", "function 'from_on' already exists"),
        ("CREATE VIEW from_on AS SELECT 1 AS n", "'from_on' is a function"),
        ("CREATE FUNCTION second() RETURNS INT AS '1'", "'second' already exists and is not a function"),
    ] {
        let why = why_not(&mut session, statement);
        assert!(why.contains(reason), "{statement}: {why}");
    }
    define(&mut session, "CREATE FUNCTION IF NOT EXISTS third() RETURNS BIGINT AS 'twice(1)'");
    drop((session, runtime));

    std::fs::write(&file, "id\n1\n2\n").unwrap();
    let (runtime, mut session) = open_session(planner(), &path);
    assert_eq!(numbers(&mut session, asked), [4, 6]);
    drop((session, runtime));

    std::fs::remove_file(&file).unwrap();
    let runtime = open(planner(), &path);
    define(
        &mut Session::new(&runtime),
        "DROP FUNCTION third; DROP VIEW second; DROP FUNCTION from_on; DROP FUNCTION twice",
    );
    drop(runtime);
    std::fs::write(&file, "id\n1\n2\n").unwrap();
    let runtime = open(planner(), &path);
    assert!(runtime.catalog().failed_definitions().is_empty());
    let why = why_not(&mut Session::new(&runtime), "SELECT * FROM from_on(1)");
    assert!(!why.contains("has failed"), "{why}");
}

#[test]
fn a_query_that_cannot_be_opened_fails_alone_and_is_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, sub) = (folder.path().join("catalogue"), folder.path().join("sub"));
    fs::create_dir(&sub).unwrap();
    let (runtime, mut session) = open_session(planner(), &path);
    let script = format!(
        "CREATE SINK s WITH (path = '{}') AS SELECT value FROM sequence(rate => 100);
         CREATE MATERIALIZED VIEW well AS SELECT count(*) AS n FROM sequence(rate => 1000)",
        sub.join("rows.csv").display()
    );
    define(&mut session, &script);
    start(&mut session, "s");
    start(&mut session, "well");
    drop((session, runtime));
    fs::remove_dir_all(&sub).unwrap();

    let runtime = open(planner(), &path);
    assert_eq!(runtime.state("s").unwrap(), QueryState::Failed);
    assert!(runtime.wait("s").unwrap_err().to_string().contains("sub/rows.csv"));
    assert_eq!(runtime.state("well").unwrap(), QueryState::Running);
    drop(runtime);

    fs::create_dir(&sub).unwrap();
    let runtime = open(planner(), &path);
    assert_eq!(runtime.state("s").unwrap(), QueryState::Running);
    drop(runtime);

    fs::remove_dir_all(&sub).unwrap();
    let runtime = open(planner(), &path);
    runtime.forget("s").unwrap();
    drop(runtime);
    fs::create_dir(&sub).unwrap();
    assert!(open(planner(), &path).state("s").is_err(), "it was forgotten");
}

#[test]
fn dropping_what_a_query_writes_ends_the_query() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue");
    let (runtime, mut session) = open_session(planner(), &path);
    define(
        &mut session,
        "CREATE MATERIALIZED VIEW one AS SELECT count(*) AS n FROM sequence(rate => 1000);
         CREATE MATERIALIZED VIEW two AS SELECT count(*) AS n FROM sequence(rate => 1000);
         CREATE MATERIALIZED VIEW three AS SELECT count(*) AS n FROM sequence(rate => 1000)",
    );
    start(&mut session, "one");
    let both = session.pipeline_of(&["two", "three"]).unwrap();
    runtime.start("both", both, false).unwrap();
    define(&mut session, "DROP MATERIALIZED VIEW one");
    assert_eq!(runtime.state("one").unwrap_err().to_string(), "there is no query 'one'");
    assert!(execute(&mut session, "SELECT * FROM one").is_err());
    let why = why_not(&mut session, "DROP MATERIALIZED VIEW two");
    assert_eq!(why, "query 'both' writes 'two' together with others; stop that query first");
    runtime.stop("both").unwrap();
    runtime.wait("both").unwrap();
    define(&mut session, "DROP MATERIALIZED VIEW two");
    drop((session, runtime));
    let runtime = open(planner(), &path);
    assert!(runtime.queries().is_empty());
    assert!(runtime.catalog().failed_definitions().is_empty());
}

/// Whoever only defines does not run anything, and does not take from others what they run.
#[test]
fn an_idle_runtime_starts_nothing_and_forgets_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue");
    let (runtime, mut session) = open_session(planner(), &path);
    define(
        &mut session,
        "CREATE MATERIALIZED VIEW kept AS SELECT count(*) AS n FROM sequence(rate => 1000);
         CREATE MATERIALIZED VIEW dropped AS SELECT count(*) AS n FROM sequence(rate => 1000)",
    );
    start(&mut session, "kept");
    start(&mut session, "dropped");
    drop((session, runtime));

    let runtime = Runtime::open_idle(planner(), log(&path)).unwrap_or_else(|cause| panic!("{cause}"));
    let mut session = Session::new(&runtime);
    assert!(runtime.queries().iter().all(|(_, state)| *state == QueryState::Failed));
    assert!(runtime.wait("kept").unwrap_err().to_string().contains("only definitions were asked for"));
    define(&mut session, "DROP MATERIALIZED VIEW dropped; CREATE VIEW more AS SELECT 1 AS n");
    drop((session, runtime));

    let runtime = open(planner(), &path);
    assert_eq!(runtime.queries(), [("kept".to_owned(), QueryState::Running)]);
    assert_eq!(runtime.catalog().version(), 4);
}

/// A definition means what it says, whatever runs when it is made: otherwise it would mean something else after a restart.
#[test]
fn a_definition_does_not_depend_on_what_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalogue");
    let (runtime, mut session) = open_session(planner(), &path);
    define(&mut session, "CREATE MATERIALIZED VIEW a AS SELECT value FROM sequence(rate => 1000)");
    start(&mut session, "a");
    until("the view stays empty", || !numbers(&mut session, "SELECT value FROM a LIMIT 1").is_empty());
    define(&mut session, "CREATE MATERIALIZED VIEW b AS SELECT count(*) AS n FROM a");
    start(&mut session, "b");
    // It is computed from the stream, and not from the rows that `a` had when `b` was defined.
    let before = numbers(&mut session, "SELECT n FROM b");
    until("the view stands still", || numbers(&mut session, "SELECT n FROM b") > before);
    assert_eq!(runtime.state("b").unwrap(), QueryState::Running);
}

#[test]
fn a_database_that_is_closed_in_order_has_committed_everything_and_runs_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let out = folder.path().join("out.csv");
    let (runtime, mut session) = open_session(planner(), &path);
    let out_path = out.display();
    define(
        &mut session,
        &format!(
            "CREATE SINK kept AS SELECT value FROM sequence(rate => 2000) WITH (path = '{out_path}', overwrite = true);
             CREATE MATERIALIZED VIEW many AS SELECT count(*) AS n FROM sequence(rate => 2000);
             CREATE SINK few AS SELECT value FROM sequence(count => 3) WITH (path = '{out_path}.few.csv')"
        ),
    );
    ["kept", "many", "few"].into_iter().for_each(|name| start(&mut session, name));
    runtime.wait("few").unwrap();
    until("rows come in", || runtime.status("kept").unwrap().is_some_and(|status| status.rows_in() > 50));
    assert_eq!(runtime.close(PATIENCE), Vec::<String>::new());
    let status = runtime.status("kept").unwrap().expect("it has ended in order");
    let lines = fs::read_to_string(&out).unwrap().lines().count() as u64;
    assert_eq!(lines, status.rows_in() + 1, "all that was taken in is written, below the names");
    let refused = session.pipeline_of(&["many"]).map(|pipeline| runtime.start("many", pipeline, false));
    assert!(refused.unwrap().unwrap_err().message.contains("being closed"));
    drop((session, runtime));

    let again = open(planner(), &path);
    let states = again.queries();
    let running = |name: &str| (name.to_owned(), QueryState::Running);
    assert_eq!(states, [running("kept"), running("many")], "the one that was done is not started again");
}
