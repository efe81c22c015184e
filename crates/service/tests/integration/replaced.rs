//! Views and sinks whose definition is replaced while their queries run: there is always a query that runs, no row is lost or
//! given twice, and what cannot be computed again is not thrown away silently.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use tidemill_engine::StreamSettings;
use tidemill_service::{QueryState, ReplacementOutcome, Reply, Runtime, Session};

use crate::database::Database;
use crate::fed::{PATIENCE, Row, until};
use crate::statements::{define, execute, numbers};

const COUNT: &str = "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM s";
const SUM: &str = "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT CAST(sum(v) AS BIGINT) AS n FROM s";

fn n(session: &mut Session) -> Vec<i64> {
    numbers(session, "SELECT n FROM v")
}

/// Rows that a journal of small segments does not keep for long.
fn small_journal() -> Database {
    let stream =
        StreamSettings { segment_bytes: 16 << 10, bytes_max: 256 << 10, ..StreamSettings::default() };
    Database { stream, ..Database::new(1) }
}

/// Feeds rows until the first ones are no longer in the journal; how many.
fn feed_until_rows_are_gone(database: &Database, session: &mut Session) -> i64 {
    let rows: Vec<Row> = (0..200).map(|n| (n % 7, 1)).collect();
    (0..800).for_each(|_| database.sources[0].feed(rows.clone()));
    until("the view has every row", || n(session) == [160_000]);
    until("the first rows are removed", || {
        let files = files_below(&database.path().join("journal/streams"));
        // Segments have the position of their first row in their names.
        !files.is_empty() && !files.iter().any(|name| name.starts_with(&"0".repeat(20)))
    });
    160_000
}

fn files_below(folder: &std::path::Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let files = entries.flatten().flat_map(|entry| match entry.path() {
        path if path.is_dir() => files_below(&path),
        path => vec![path.file_name().unwrap().to_string_lossy().into_owned()],
    });
    files.collect()
}

/// The folders of queries in the journal of the database.
fn folders(database: &Database) -> Vec<String> {
    let entries = fs::read_dir(database.path().join("journal")).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> =
        names.filter(|name| name.starts_with("query-") || name.starts_with("removed-")).collect();
    names.sort();
    names
}

fn queries(runtime: &Runtime) -> Vec<(String, QueryState)> {
    runtime.queries()
}

#[test]
fn a_view_that_computes_the_same_keeps_its_state_even_if_the_rows_are_gone() {
    let database = small_journal();
    let (runtime, mut session) = database.open();
    database.start(&mut session, "v", COUNT);
    let fed = feed_until_rows_are_gone(&database, &mut session);
    let again = "CREATE OR REPLACE MATERIALIZED VIEW v WITH (retain_versions = 7, max_latency = '1 s')
        AS SELECT count(*) AS n FROM s -- as before";
    assert_eq!(database.replace(&mut session, again).unwrap(), ReplacementOutcome::State);
    database.sources[0].feed(vec![(0, 1); 5]);
    until("it goes on", || n(&mut session) == [fed + 5]);
    assert_eq!(runtime.max_latency("v").unwrap(), Some(Duration::from_secs(1)));
    assert_eq!(folders(&database), ["query-v"]);
    drop((session, runtime));
    let (_runtime, mut session) = database.open();
    database.sources[0].feed(vec![(0, 1); 5]);
    until("it goes on after a restart", || n(&mut session) == [fed + 10]);
}

#[test]
fn a_view_that_computes_something_else_is_filled_from_the_journal() {
    let database = Database::new(2);
    let (runtime, mut session) = database.open();
    database.start(&mut session, "v", COUNT);
    database.sources[0].feed((1..=100).map(|n| (0, n)).collect());
    until("it has every row", || n(&mut session) == [100]);
    assert_eq!(database.replace(&mut session, SUM).unwrap(), ReplacementOutcome::AllRows);
    // At once: it was read in the old form until it was there.
    assert_eq!(n(&mut session), [5050]);
    assert_eq!(queries(&runtime), [("v".to_owned(), QueryState::Running)]);
    assert_eq!(folders(&database).len(), 1);
    assert!(folders(&database)[0].starts_with("query-v-"));
    database.sources[0].feed(vec![(0, 50)]);
    until("it goes on", || n(&mut session) == [5100]);
    drop((session, runtime));
    let (runtime, mut session) = database.open();
    until("it comes back", || n(&mut session) == [5100]);
    // And once more, from a query that was replaced.
    let third = "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT max(v) AS n FROM s";
    assert_eq!(database.replace(&mut session, third).unwrap(), ReplacementOutcome::AllRows);
    assert_eq!((n(&mut session), folders(&database).len()), (vec![100], 1));
    define(&mut session, "DROP MATERIALIZED VIEW v");
    assert!(folders(&database).is_empty() && queries(&runtime).is_empty());
}

#[test]
fn what_the_journal_no_longer_has_is_not_thrown_away_silently() {
    let database = small_journal();
    let (runtime, mut session) = database.open();
    database.start(&mut session, "v", COUNT);
    let fed = feed_until_rows_are_gone(&database, &mut session);
    let error = database.replace(&mut session, SUM).unwrap_err().to_string();
    assert!(error.contains("would lose") && error.contains("start = 'earliest'"), "{error}");
    assert_eq!((n(&mut session), folders(&database)), (vec![fed], vec!["query-v".to_owned()]));
    database.sources[0].feed(vec![(0, 1); 5]);
    until("it continues as it was", || n(&mut session) == [fed + 5]);
    let earliest = SUM.replacen(" AS", " WITH (start = 'earliest') AS", 1);
    let ReplacementOutcome::RowsAfter(_) = database.replace(&mut session, &earliest).unwrap() else {
        panic!("some rows are gone")
    };
    let some = n(&mut session)[0];
    assert!(some > 0 && some < fed, "{some}");
    let now = "CREATE OR REPLACE MATERIALIZED VIEW v WITH (start = 'now') AS SELECT max(v) AS n FROM s";
    assert_eq!(database.replace(&mut session, now).unwrap(), ReplacementOutcome::Nothing);
    let or_none = "SELECT coalesce(n, -1) FROM v";
    assert_eq!(numbers(&mut session, or_none), [-1], "the maximum of no rows");
    database.sources[0].feed(vec![(0, 9)]);
    until("it has the new row", || n(&mut session) == [9]);
    drop(runtime);
}

#[test]
fn a_replacement_that_fails_or_is_cancelled_leaves_the_view_as_it_is() {
    let database = Database::new(1);
    let (runtime, mut session) = database.open();
    database.start(&mut session, "v", COUNT);
    database.sources[0].feed((1..=100).map(|n| (0, n)).collect());
    until("it has every row", || n(&mut session) == [100]);
    let wrong = "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT nothing FROM s";
    assert!(database.replace(&mut session, wrong).is_err());
    // The new query does not come to an end.
    database.gate.set(true);
    let stuck = "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT max(gated(v)) AS n FROM s";
    let cancellation = session.cancellation();
    let waiting = AtomicBool::new(true);
    thread::scope(|scope| {
        scope.spawn(|| {
            until("it is being filled", || {
                !waiting.load(Ordering::SeqCst)
                    || queries(&runtime).contains(&("v (replacement)".to_owned(), QueryState::Running))
            });
            let mut other = Session::new(&runtime);
            assert_eq!(numbers(&mut other, "SELECT n FROM v"), [100], "it is read as it was");
            let refused = database.replace(&mut other, SUM).unwrap_err().to_string();
            assert!(refused.contains("is being replaced already"), "{refused}");
            // The gate holds a worker, which is waited for at the end.
            cancellation.request();
            database.gate.set(false);
        });
        let outcome = database.replace(&mut session, stuck);
        waiting.store(false, Ordering::SeqCst);
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("continues as it was") && error.contains("cancelled"), "{error}");
    });
    assert_eq!(queries(&runtime), [("v".to_owned(), QueryState::Running)]);
    assert_eq!(folders(&database), ["query-v"]);
    database.sources[0].feed(vec![(0, 1); 5]);
    until("it goes on", || n(&mut session) == [105]);
    let version = runtime.catalog().version();
    drop((session, runtime));
    let (runtime, mut session) = database.open();
    assert_eq!(runtime.catalog().version(), version);
    until("it comes back", || n(&mut session) == [105]);
}

#[test]
fn a_sink_that_cannot_be_opened_is_not_replaced() {
    let database = Database::new(1);
    let (_runtime, mut session) = database.open();
    let path = database.sink("out");
    let sink = |path: &str, query: &str| format!("CREATE SINK out WITH (path = '{path}') AS {query}");
    database.start(&mut session, "out", &sink(&path, "SELECT v FROM s"));
    database.sources[0].feed(vec![(0, 1), (0, 2)]);
    let has = |rows: &str| fs::read_to_string(&path).is_ok_and(|text| text == format!("v\n{rows}"));
    until("it has both rows", || has("1\n2\n"));
    let nowhere = sink("/nowhere/at/all.csv", "SELECT v + 1 AS v FROM s");
    let error = database.replace(&mut session, &nowhere.replacen("CREATE", "CREATE OR REPLACE", 1));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("continues as it was") && error.contains("nowhere"), "{error}");
    assert_eq!(folders(&database), ["query-out"]);
    database.sources[0].feed(vec![(0, 3)]);
    until("it goes on", || has("1\n2\n3\n"));
}

/// Two forms of a sink take turns while rows come in; the database ends in between, in order or not.
#[test]
fn a_replaced_sink_has_each_row_once_in_one_form_or_the_other() {
    let database = Database::new(2);
    let (mut runtime, mut session) = database.open();
    let path = database.sink("out");
    let define_as = |sign: &str| {
        format!("CREATE OR REPLACE SINK out WITH (path = '{path}') AS SELECT {sign} v AS v FROM s")
    };
    database.start(&mut session, "out", &define_as("0 +").replacen("OR REPLACE ", "", 1));
    let mut random = Rng::with_seed(5);
    let mut fed = 0_i64;
    for round in 0..12 {
        for _ in 0..random.u64(..20) {
            let count = random.i64(0..200) + 1;
            database.sources[0].feed((fed + 1..=fed + count).map(|n| (0, n)).collect());
            fed += count;
        }
        thread::sleep(Duration::from_millis(random.u64(..20)));
        let inherited = database.replace(&mut session, &define_as(["0 -", "0 +"][round % 2])).unwrap();
        assert!(matches!(inherited, ReplacementOutcome::Place(_)), "{inherited:?}");
        if random.u64(..3) == 0 {
            if random.u64(..2) == 0 {
                assert!(runtime.close(PATIENCE).is_empty());
            }
            drop((session, runtime));
            (runtime, session) = database.open();
        }
    }
    let written = || -> Vec<i64> {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().skip(1).map(|line| line.parse::<i64>().unwrap().abs()).collect()
    };
    until("every row is written", || written().len() as i64 >= fed);
    assert_eq!(written(), (1..=fed).collect::<Vec<_>>());
    assert_eq!(folders(&database).len(), 1);
    let _ = execute(&mut session, "DROP SINK out").unwrap();
    assert!(folders(&database).is_empty());
}

#[test]
fn a_view_over_what_keeps_no_rows_begins_empty_and_says_so() {
    let database = Database::new(1);
    let (runtime, mut session) = database.open();
    let ticking =
        |column: &str| format!("MATERIALIZED VIEW v AS SELECT value AS {column} FROM sequence(rate => 500)");
    database.start(&mut session, "v", &format!("CREATE {}", ticking("n")));
    until("it has rows", || !n(&mut session).is_empty());
    let replaced = database.replace(&mut session, &format!("CREATE OR REPLACE {}", ticking("m"))).unwrap();
    assert_eq!(replaced, ReplacementOutcome::Nothing);
    until("it has rows again", || !numbers(&mut session, "SELECT m FROM v").is_empty());
    assert_eq!(queries(&runtime), [("v".to_owned(), QueryState::Running)]);
}

/// The text of a reply.
fn text(session: &mut Session, statement: &str) -> String {
    match execute(session, statement).unwrap_or_else(|error| panic!("{error}")) {
        Reply::Text(text) => text,
        _ => panic!("no text: {statement}"),
    }
}

#[test]
fn what_would_be_kept_is_said_before_it_is_done() {
    let database = Database::new(1);
    let (_runtime, mut session) = database.open();
    database.start(&mut session, "v", COUNT);
    let sink = format!("CREATE SINK out WITH (path = '{}') AS SELECT v FROM s", database.sink("out"));
    database.start(&mut session, "out", &sink);
    database.sources[0].feed(vec![(0, 1), (0, 2)]);
    until("it has both rows", || n(&mut session) == [2]);
    let version = session.runtime().catalog().version();
    let same = COUNT.replacen("CREATE", "CREATE OR REPLACE", 1);
    for (statement, said) in [
        (same.clone(), "keeps its state"),
        (SUM.to_owned(), "computed again from the journal"),
        (SUM.replacen(" AS", " WITH (start = 'now') AS", 1), "begins empty"),
        (sink.replacen("CREATE", "CREATE OR REPLACE", 1), "keeps its state"),
        (sink.replacen("CREATE", "CREATE OR REPLACE", 1) + " WHERE v > 1", "behind the last cycle"),
    ] {
        let plan = text(&mut session, &format!("EXPLAIN {statement}"));
        assert!(plan.contains(said) && plan.lines().count() > 1, "{statement}: {plan}");
    }
    assert_eq!(
        (session.runtime().catalog().version(), n(&mut session)),
        (version, vec![2]),
        "nothing was done"
    );
    // What does not run yet is not replaced.
    let plan = text(&mut session, "EXPLAIN CREATE OR REPLACE MATERIALIZED VIEW w AS SELECT k FROM s");
    assert!(!plan.contains("replaces"), "{plan}");
}

#[test]
fn a_sink_that_could_not_be_started_loses_nothing_when_it_is_replaced() {
    let database = Database::new(1);
    let (runtime, mut session) = database.open();
    let folder = database.path().join("results");
    fs::create_dir(&folder).unwrap();
    let path = folder.join("out.csv").to_str().unwrap().to_owned();
    let define_as = |column: &str, options: &str| {
        format!("CREATE OR REPLACE SINK out WITH (path = '{path}'{options}) AS SELECT {column} AS v FROM s")
    };
    database.start(&mut session, "out", &define_as("v", "").replacen("OR REPLACE ", "", 1));
    database.sources[0].feed(vec![(0, 1), (0, 2)]);
    let has = |rows: &str| fs::read_to_string(&path).is_ok_and(|text| text == format!("v\n{rows}"));
    until("it has both rows", || has("1\n2\n"));
    drop((session, runtime));
    let aside = database.path().join("aside");
    fs::rename(&folder, &aside).unwrap();
    let (runtime, mut session) = database.open();
    assert_eq!(queries(&runtime), [("out".to_owned(), QueryState::Failed)]);
    database.sources[0].feed(vec![(0, 3)]);
    fs::rename(&aside, &folder).unwrap();
    let error = database.replace(&mut session, &define_as("v + 1", "")).unwrap_err().to_string();
    assert!(error.contains("does not run") && error.contains("start = 'now'"), "{error}");
    assert_eq!(database.replace(&mut session, &define_as("v", "")).unwrap(), ReplacementOutcome::State);
    until("it continues", || has("1\n2\n3\n"));
    let again = define_as("v * 10", ", start = 'earliest'");
    assert_eq!(database.replace(&mut session, &again).unwrap(), ReplacementOutcome::AllRows);
    drop(runtime);
}
