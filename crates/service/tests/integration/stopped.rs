//! Queries that are stopped and started again: nothing of a durable source is lost or given twice, whatever happens meanwhile; and
//! nothing that is stopped holds up what runs.

use std::fs;

use tidemill_engine::StreamSettings;
use tidemill_service::{QueryReport, QueryState, ReplacementOutcome, Reply, Runtime, Session};

use crate::database::Database;
use crate::fed::{PATIENCE, Row, until};
use crate::statements::{define, execute, numbers};

const COUNT: &str = "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM s";
const OTHER: &str = "CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM s";

/// What a statement says that it has done.
fn said(session: &mut Session, statement: &str) -> String {
    match execute(session, statement) {
        Ok(Reply::Done(text)) => text,
        Ok(_) => panic!("no text: {statement}"),
        Err(error) => panic!("{error}"),
    }
}

fn refused(session: &mut Session, statement: &str) -> String {
    execute(session, statement).err().unwrap_or_else(|| panic!("not refused: {statement}")).to_string()
}

fn n(session: &mut Session, view: &str) -> Vec<i64> {
    numbers(session, &format!("SELECT n FROM {view}"))
}

fn report(runtime: &Runtime, name: &str) -> QueryReport {
    runtime.reports().into_iter().find(|report| report.name == name).expect("it is reported")
}

fn sink_of(database: &Database) -> (String, impl Fn() -> Vec<i64>) {
    let path = database.sink("out");
    let sink = format!("CREATE SINK out WITH (path = '{path}') AS SELECT v FROM s");
    let written = move || {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().skip(1).map(|line| line.parse().unwrap()).collect()
    };
    (sink, written)
}

fn rows(values: std::ops::RangeInclusive<i64>) -> Vec<Row> {
    values.map(|value| (0, value)).collect()
}

#[test]
fn a_sink_that_is_stopped_continues_behind_its_last_commit() {
    let database = Database::new(2);
    let (mut runtime, mut session) = database.open();
    let (sink, written) = sink_of(&database);
    database.start(&mut session, "out", &sink);
    database.start(&mut session, "w", OTHER);
    database.sources[0].feed(rows(1..=100));
    until("the rows are written", || written().len() == 100);
    let text = said(&mut session, "STOP SINK out");
    assert!(text.contains("is stopped, behind cycle") && text.contains("START continues there"), "{text}");
    assert_eq!(runtime.state("out"), Ok(QueryState::Stopped));
    assert_eq!(said(&mut session, "STOP SINK out"), "'out' is stopped already");
    for round in 1..=3 {
        let last = round * 100;
        database.sources[0].feed(rows(last + 1..=last + 100));
        until("the view has them", || n(&mut session, "w") == [last + 100]);
        assert_eq!(written().len(), 100, "a stopped sink writes nothing");
        // In order or not, it is stopped in the next run.
        if round == 2 {
            assert!(runtime.close(PATIENCE).is_empty());
        }
        drop((session, runtime));
        (runtime, session) = database.open();
        assert_eq!(runtime.state("out"), Ok(QueryState::Stopped));
        assert_eq!(runtime.state("w"), Ok(QueryState::Running));
    }
    let waiting = report(&runtime, "out");
    assert!(waiting.lag.cycles > 0 && waiting.lag.oldest_ns > 0, "{:?}", waiting.lag);
    let kept = waiting.kept.unwrap();
    assert!(kept.starts_with("the journal keeps ") && kept.contains(" rows behind cycle "), "{kept}");
    let holders = runtime.journal_status().unwrap().queries;
    let holders: Vec<_> = holders.iter().map(|needs| (needs.name.as_str(), needs.is_stopped)).collect();
    assert_eq!(holders, [("w", false), ("out", true)]);
    let text = said(&mut session, "START SINK out");
    assert!(text.contains("'out' continues behind cycle"), "{text}");
    assert_eq!(said(&mut session, "START SINK out"), "'out' is running already");
    database.sources[0].feed(rows(401..=450));
    until("every row is written", || written().len() >= 450);
    assert_eq!(written(), (1..=450).collect::<Vec<_>>());
    drop((session, runtime));
    let (runtime, _session) = database.open();
    assert_eq!(runtime.state("out"), Ok(QueryState::Running));
}

#[test]
fn a_view_that_is_stopped_is_read_as_it_was_also_after_a_restart() {
    let database = Database::new(1);
    let (runtime, mut session) = database.open();
    database.start(&mut session, "v", COUNT);
    database.start(&mut session, "w", OTHER);
    database.sources[0].feed(rows(1..=100));
    until("both have every row", || n(&mut session, "v") == [100] && n(&mut session, "w") == [100]);
    said(&mut session, "STOP MATERIALIZED VIEW v");
    database.sources[0].feed(rows(101..=150));
    until("the other view goes on", || n(&mut session, "w") == [150]);
    assert_eq!(n(&mut session, "v"), [100]);
    let query = tidemill_sql::parse("SELECT n FROM v", "test").unwrap().remove(0);
    let notices = session.stopped_views(&query).unwrap();
    assert!(
        matches!(&notices[..], [notice] if notice.contains("'v' is stopped; its rows are those after cycle"))
    );
    // What is read together does not wait for it.
    session.begin_transaction();
    assert_eq!((n(&mut session, "w"), n(&mut session, "v")), (vec![150], vec![100]));
    session.end_transaction();
    drop((session, runtime));
    let (runtime, mut session) = database.open();
    assert_eq!((runtime.state("v"), n(&mut session, "v")), (Ok(QueryState::Stopped), vec![100]));
    said(&mut session, "START MATERIALIZED VIEW v");
    until("it has what came meanwhile", || n(&mut session, "v") == [150]);
    database.sources[0].feed(rows(151..=160));
    until("both go on", || n(&mut session, "v") == [160] && n(&mut session, "w") == [160]);
}

#[test]
fn only_what_reads_a_source_keeps_it_open() {
    let database = Database::new(1);
    let (_runtime, mut session) = database.open();
    database.start(&mut session, "v", COUNT);
    database.sources[0].feed(rows(1..=10));
    until("it has every row", || n(&mut session, "v") == [10]);
    said(&mut session, "STOP MATERIALIZED VIEW v");
    until("its source is closed", || {
        database.sources[0].is_open.load(std::sync::atomic::Ordering::SeqCst) == 0
    });
    database.sources[0].feed(rows(11..=20));
    said(&mut session, "START MATERIALIZED VIEW v");
    until("it has what waited", || n(&mut session, "v") == [20]);
}

#[test]
fn what_a_stopped_query_needs_holds_up_nothing_and_is_let_go_at_the_limit() {
    let stream =
        StreamSettings { segment_bytes: 16 << 10, bytes_max: 256 << 10, ..StreamSettings::default() };
    let database = Database { stream, ..Database::new(1) };
    let (runtime, mut session) = database.open();
    database.start(&mut session, "v", COUNT);
    database.start(&mut session, "w", OTHER);
    database.sources[0].feed(rows(1..=10));
    until("both have every row", || n(&mut session, "v") == [10] && n(&mut session, "w") == [10]);
    said(&mut session, "STOP MATERIALIZED VIEW v");
    let batch: Vec<Row> = (0..200).map(|n| (n % 7, 1)).collect();
    (0..800).for_each(|_| database.sources[0].feed(batch.clone()));
    until("the other view has every row", || n(&mut session, "w") == [160_010]);
    let is_let_go =
        || report(&runtime, "v").kept.is_some_and(|kept| kept.contains("too many for the journal"));
    until("the rows are let go", is_let_go);
    let reason = refused(&mut session, "START MATERIALIZED VIEW v");
    assert!(reason.contains("the query continues with"), "{reason}");
    assert_eq!((runtime.state("v"), n(&mut session, "v")), (Ok(QueryState::Stopped), vec![10]));
    drop((session, runtime));
    let (runtime, mut session) = database.open();
    assert_eq!((runtime.state("v"), n(&mut session, "v")), (Ok(QueryState::Stopped), vec![10]));
    let again =
        "CREATE OR REPLACE MATERIALIZED VIEW v WITH (start = 'earliest') AS SELECT sum(v) AS n FROM s";
    let ReplacementOutcome::RowsAfter(_) = database.replace(&mut session, again).unwrap() else {
        panic!("some rows are gone")
    };
    assert_eq!(runtime.state("v"), Ok(QueryState::Running));
}

#[test]
fn a_sink_that_could_not_be_started_is_stopped_and_continues_later() {
    let database = Database::new(1);
    let (runtime, mut session) = database.open();
    let folder = database.path().join("results");
    fs::create_dir(&folder).unwrap();
    let path = folder.join("out.csv").to_str().unwrap().to_owned();
    database.start(
        &mut session,
        "out",
        &format!("CREATE SINK out WITH (path = '{path}') AS SELECT v FROM s"),
    );
    database.start(&mut session, "w", OTHER);
    let has = |rows: &str| fs::read_to_string(&path).is_ok_and(|text| text == format!("v\n{rows}"));
    database.sources[0].feed(rows(1..=2));
    until("it has both rows", || has("1\n2\n"));
    drop((session, runtime));
    let aside = database.path().join("aside");
    fs::rename(&folder, &aside).unwrap();
    let (runtime, mut session) = database.open();
    assert_eq!(runtime.state("out"), Ok(QueryState::Failed));
    said(&mut session, "STOP SINK out");
    database.sources[0].feed(rows(3..=4));
    until("the view has them", || n(&mut session, "w") == [4]);
    let reason = refused(&mut session, "START SINK out");
    assert!(reason.contains("results"), "{reason}");
    drop((session, runtime));
    let (runtime, mut session) = database.open();
    assert_eq!(runtime.state("out"), Ok(QueryState::Stopped));
    fs::rename(&aside, &folder).unwrap();
    said(&mut session, "START SINK out");
    until("it has every row", || has("1\n2\n3\n4\n"));
    drop(runtime);
}

#[test]
fn what_is_stopped_is_dropped_and_replaced_as_what_runs() {
    let database = Database::new(1);
    let (runtime, mut session) = database.open();
    let (sink, written) = sink_of(&database);
    database.start(&mut session, "out", &sink);
    database.start(&mut session, "v", COUNT);
    database.sources[0].feed(rows(1..=10));
    until("both have every row", || n(&mut session, "v") == [10] && written().len() == 10);
    said(&mut session, "STOP SINK out");
    said(&mut session, "STOP MATERIALIZED VIEW v");
    let sum = "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT CAST(sum(v) AS BIGINT) AS n FROM s";
    assert_eq!(database.replace(&mut session, sum).unwrap(), ReplacementOutcome::AllRows);
    assert_eq!((runtime.state("v"), n(&mut session, "v")), (Ok(QueryState::Running), vec![55]));
    let negated = sink.replacen("CREATE", "CREATE OR REPLACE", 1).replace("SELECT v", "SELECT 0 - v AS v");
    let ReplacementOutcome::Place(_) = database.replace(&mut session, &negated).unwrap() else {
        panic!("it follows")
    };
    database.sources[0].feed(rows(11..=12));
    until("it has every row once", || written().len() >= 12);
    assert_eq!(written()[10..], [-11, -12]);
    // After a restart, how far it has written is only known once it has been started.
    said(&mut session, "STOP SINK out");
    drop((session, runtime));
    let (runtime, mut session) = database.open();
    let reason =
        database.replace(&mut session, &sink.replacen("CREATE", "CREATE OR REPLACE", 1)).unwrap_err();
    assert!(reason.to_string().contains("START SINK out"), "{reason}");
    assert_eq!(runtime.state("out"), Ok(QueryState::Stopped));
    define(&mut session, "DROP SINK out");
    said(&mut session, "STOP MATERIALIZED VIEW v");
    define(&mut session, "DROP MATERIALIZED VIEW v");
    assert!(runtime.queries().is_empty());
    drop((session, runtime));
    let (runtime, mut session) = database.open();
    assert!(runtime.queries().is_empty());
    // A new one of the name begins, and is not stopped.
    database.start(&mut session, "v", COUNT);
    drop((session, runtime));
    let (runtime, _session) = database.open();
    assert_eq!(runtime.queries(), [("v".to_owned(), QueryState::Running)]);
}

#[test]
fn what_a_source_that_keeps_no_rows_gives_meanwhile_is_missed_and_that_is_said() {
    let database = Database::new(1);
    let (runtime, mut session) = database.open();
    database.start(
        &mut session,
        "v",
        "CREATE MATERIALIZED VIEW v AS SELECT max(value) AS n FROM sequence(rate => 500)",
    );
    until("it has rows", || !n(&mut session, "v").is_empty());
    let text = said(&mut session, "STOP MATERIALIZED VIEW v");
    assert!(text.contains("keep no rows"), "{text}");
    assert!(!n(&mut session, "v").is_empty(), "its rows stay");
    let text = said(&mut session, "START MATERIALIZED VIEW v");
    assert!(text.contains("are missed") && text.contains("empty state"), "{text}");
    until("it has rows again", || !n(&mut session, "v").is_empty());
    said(&mut session, "STOP MATERIALIZED VIEW v");
    drop((session, runtime));
    let (runtime, mut session) = database.open();
    assert_eq!(runtime.state("v"), Ok(QueryState::Stopped));
    let reason = refused(&mut session, "SELECT n FROM v");
    assert!(reason.contains("in memory only") && reason.contains("START MATERIALIZED VIEW v"), "{reason}");
    said(&mut session, "START MATERIALIZED VIEW v");
    until("it has rows again", || !n(&mut session, "v").is_empty());
}

#[test]
fn wrong_names_and_kinds_are_refused_with_what_was_meant() {
    let database = Database::new(1);
    let (_runtime, mut session) = database.open();
    database.start(&mut session, "totals", "CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS n FROM s");
    for (statement, part) in [
        ("STOP MATERIALIZED VIEW total", "did you mean totals?"),
        ("STOP SINK totals", "'totals' is a materialized view"),
        ("START SINK s", "'s' is a view"),
        ("STOP MATERIALIZED VIEW", "the name of the materialized view"),
        ("STOP totals", "MATERIALIZED VIEW or SINK"),
        ("START SOURCE s", "only materialized views and sinks are started"),
    ] {
        let refused = match tidemill_sql::parse(statement, "test") {
            Ok(_) => match session.execute(&tidemill_sql::parse(statement, "test").unwrap()[0]) {
                Err(tidemill_service::Error::Statement(error)) => format!("{error} {:?}", error.hint),
                Err(error) => error.to_string(),
                Ok(_) => panic!("not refused: {statement}"),
            },
            Err(error) => format!("{error} {:?}", error.hint),
        };
        assert!(refused.contains(part), "{statement}: {refused}");
    }
}

/// Its start has failed when it was created: it begins once the cause is mended, and is as any other from then on.
#[test]
fn what_was_never_started_is_started() {
    let database = Database::new(1);
    let (runtime, mut session) = database.open();
    define(&mut session, "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM s");
    assert!(refused(&mut session, "STOP MATERIALIZED VIEW v").contains("nothing to stop"));
    assert!(said(&mut session, "START MATERIALIZED VIEW v").contains("begins now"));
    database.sources[0].feed(rows(1..=10));
    until("it has every row", || n(&mut session, "v") == [10]);
    drop((session, runtime));
    let (runtime, mut session) = database.open();
    assert_eq!(runtime.state("v"), Ok(QueryState::Running));
    until("it has every row", || n(&mut session, "v") == [10]);
}

/// Whoever waits for a stop and gives up has stopped it nevertheless.
#[test]
fn a_stop_that_is_cancelled_goes_on_and_loses_nothing() {
    let database = Database::new(1);
    let (runtime, mut session) = database.open();
    database.start(&mut session, "w", OTHER);
    database.start(&mut session, "v", "CREATE MATERIALIZED VIEW v AS SELECT max(gated(v)) AS n FROM s");
    database.sources[0].feed(rows(1..=5));
    until("both have every row", || n(&mut session, "v") == [5] && n(&mut session, "w") == [5]);
    database.gate.set(true);
    database.sources[0].feed(rows(6..=7));
    until("the other view has them", || n(&mut session, "w") == [7]);
    // The gate holds its worker, so it cannot end.
    let cancellation = session.cancellation();
    let text = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = Session::new(&runtime);
            until("it is being stopped", || {
                let statement = "START MATERIALIZED VIEW v";
                matches!(execute(&mut other, statement), Err(error) if error.to_string().contains("being stopped"))
            });
            cancellation.request();
        });
        said(&mut session, "STOP MATERIALIZED VIEW v")
    });
    assert!(text.contains("is being stopped"), "{text}");
    assert!(refused(&mut session, "DROP MATERIALIZED VIEW v").contains("being stopped already"));
    database.gate.set(false);
    until("it has ended", || runtime.state("v") == Ok(QueryState::Stopped));
    until("it is started", || execute(&mut session, "START MATERIALIZED VIEW v").is_ok());
    until("it has every row", || n(&mut session, "v") == [7]);
}
