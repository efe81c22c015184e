//! Options that are altered while a query runs or is stopped: its state stays, and the change outlives the process.

use crate::statements;

use std::time::Duration;

use tidemill_engine::StreamSettings;
use tidemill_service::{Error, QueryState, Reply, Session};
use tidemill_sql::parse;

use crate::database::Database;
use crate::fed::{Row, until};
use crate::statements::{define, execute, numbers};

const COUNT: &str = "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM s";

fn n(session: &mut Session) -> Vec<i64> {
    numbers(session, "SELECT n FROM v")
}

/// The message and the hint with which a statement is refused.
fn refused(session: &mut Session, statement: &str) -> String {
    match execute(session, statement) {
        Err(Error::Statement(error)) => format!("{} {}", error.message, error.hint.unwrap_or_default()),
        Err(error) => error.to_string(),
        Ok(_) => panic!("not refused: {statement}"),
    }
}

fn last_definition(session: &Session) -> String {
    session.runtime().defined_catalog().definitions().last().unwrap().statement.clone()
}

#[test]
fn an_altered_view_keeps_its_state_even_if_the_rows_are_gone() {
    let stream =
        StreamSettings { segment_bytes: 16 << 10, bytes_max: 256 << 10, ..StreamSettings::default() };
    let database = Database { stream, ..Database::new(1) };
    let (runtime, mut session) = database.open();
    database.start(&mut session, "v", COUNT);
    let rows: Vec<Row> = (0..200).map(|n| (n % 7, 1)).collect();
    (0..800).for_each(|_| database.sources[0].feed(rows.clone()));
    until("the view has every row", || n(&mut session) == [160_000]);
    define(&mut session, "ALTER MATERIALIZED VIEW v SET (retain_versions = 7, max_latency = '1 s')");
    assert_eq!(runtime.max_latency("v").unwrap(), Some(Duration::from_secs(1)));
    let kept = |session: &Session| {
        session.runtime().running_view("v").unwrap().store().config().retention.versions_max
    };
    assert_eq!((n(&mut session), kept(&session)), (vec![160_000], 7));
    database.sources[0].feed(vec![(0, 1); 5]);
    until("it goes on", || n(&mut session) == [160_005]);
    let expected = "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM s\n\
                    WITH (retain_versions = 7, max_latency = '1 s')";
    assert_eq!(last_definition(&session), expected);
    drop((session, runtime));
    let (runtime, mut session) = database.open();
    assert_eq!(runtime.max_latency("v").unwrap(), Some(Duration::from_secs(1)));
    assert_eq!(kept(&session), 7);
    define(&mut session, "ALTER MATERIALIZED VIEW v RESET (max_latency, retain_versions)");
    assert_eq!(runtime.max_latency("v").unwrap(), None);
    assert_eq!(
        last_definition(&session).trim_end(),
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM s"
    );
    until("it goes on", || n(&mut session) == [160_005]);
}

#[test]
fn an_altered_sink_writes_each_row_once() {
    let database = Database::new(2);
    let (runtime, mut session) = database.open();
    let path = database.sink("out");
    // A comment, words of the definition in a text, and a name in quotes.
    let sink = format!(
        "CREATE SINK \"out\" WITH (path = '{path}', max_latency = '5 s') AS\n  SELECT v -- all\n FROM s \
         WHERE 'CREATE IF NOT EXISTS' <> ''"
    );
    database.start(&mut session, "out", &sink);
    let written = || -> Vec<i64> {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().skip(1).map(|line| line.parse().unwrap()).collect()
    };
    for round in 0..6_i64 {
        database.sources[0].feed((round * 50 + 1..=round * 50 + 50).map(|value| (0, value)).collect());
        let change = if round % 2 == 0 { "SET (max_latency = '2 s')" } else { "RESET (max_latency)" };
        define(&mut session, &format!("ALTER SINK out {change}"));
        assert_eq!(runtime.max_latency("out").unwrap().is_some(), round % 2 == 0);
    }
    until("every row is written", || written().len() >= 300);
    assert_eq!(written(), (1..=300).collect::<Vec<_>>());
    assert!(last_definition(&session).contains("-- all"), "{}", last_definition(&session));
}

#[test]
fn what_is_stopped_is_altered_and_stays_stopped() {
    let database = Database::new(1);
    let (runtime, mut session) = database.open();
    database.start(&mut session, "v", COUNT);
    database.sources[0].feed(vec![(0, 1); 5]);
    until("it has every row", || n(&mut session) == [5]);
    define(&mut session, "STOP MATERIALIZED VIEW v; ALTER MATERIALIZED VIEW v SET (max_latency = '3 s')");
    assert_eq!((runtime.state("v"), n(&mut session)), (Ok(QueryState::Stopped), vec![5]));
    drop((session, runtime));
    let (runtime, mut session) = database.open();
    assert_eq!((runtime.state("v"), n(&mut session)), (Ok(QueryState::Stopped), vec![5]));
    define(&mut session, "START MATERIALIZED VIEW v");
    assert_eq!(runtime.max_latency("v").unwrap(), Some(Duration::from_secs(3)));
    database.sources[0].feed(vec![(0, 1); 5]);
    until("it goes on", || n(&mut session) == [10]);
}

#[test]
fn what_would_be_kept_is_said_before_and_nothing_is_done() {
    let database = Database::new(1);
    let (runtime, mut session) = database.open();
    database.start(&mut session, "v", COUNT);
    let version = runtime.catalog().version();
    let explained = execute(&mut session, "EXPLAIN ALTER MATERIALIZED VIEW v SET (retain_versions = 9)");
    let Ok(Reply::Text(text)) = explained else { panic!("it is explained") };
    assert!(text.contains("alters 'v': keeps its state and its rows"), "{text}");
    assert_eq!(runtime.catalog().version(), version);
}

#[test]
fn what_cannot_be_altered_is_refused_with_what_to_do() {
    let database = Database::new(1);
    let (runtime, mut session) = database.open();
    database.start(&mut session, "v", COUNT);
    let path = database.sink("out");
    database.start(
        &mut session,
        "out",
        &format!("CREATE SINK out WITH (path = '{path}') AS SELECT v FROM s"),
    );
    database.start(
        &mut session,
        "fast",
        "CREATE MATERIALIZED VIEW fast AS SELECT value FROM sequence(rate => 9)",
    );
    let version = runtime.catalog().version();
    for (statement, part) in [
        ("ALTER MATERIALIZED VIEW v SET (retian = '1 h')", "did you mean retain?"),
        ("ALTER MATERIALIZED VIEW v SET (key = 'n')", "use CREATE OR REPLACE MATERIALIZED VIEW v"),
        ("ALTER SINK out SET (path = 'elsewhere')", "use CREATE OR REPLACE SINK out"),
        ("ALTER MATERIALIZED VIEW v SET (max_latency = 'soon')", "the altered definition is not valid"),
        ("ALTER MATERIALIZED VIEW v SET (retain = '20 minutes')", "the altered definition is not valid"),
        ("ALTER MATERIALIZED VIEW w SET (retain = '1 h')", "there is no materialized view 'w'"),
        ("ALTER SINK v SET (max_latency = '1 s')", "'v' is a materialized view"),
        ("ALTER MATERIALIZED VIEW v RENAME TO w", "CREATE VIEW w AS SELECT * FROM v"),
        ("ALTER SINK out RENAME TO other", "cannot be renamed"),
        ("ALTER MATERIALIZED VIEW fast SET (max_latency = '1 s')", "its sources keep no rows"),
        ("EXPLAIN ALTER MATERIALIZED VIEW fast SET (max_latency = '1 s')", "its sources keep no rows"),
    ] {
        let refused = refused(&mut session, statement);
        assert!(refused.contains(part), "{statement}: {refused}");
    }
    for (statement, part) in [
        ("ALTER SOURCE s SET (x = 1)", "expected ADD COLUMN"),
        ("ALTER SINK out", "SET, RESET or RENAME TO"),
        ("ALTER SINK out SET ()", "the name of an option"),
        ("ALTER SINK out SET (max_latency = '1 s'", "`,` or `)`"),
        ("ALTER SINK out RESET (max_latency", "`,` or `)`"),
        ("ALTER SINK out SET (max_latency = '1 s', max_latency = '2 s')", "given twice"),
    ] {
        let refused = parse(statement, "test").err().unwrap_or_else(|| panic!("not refused: {statement}"));
        assert!(refused.to_string().contains(part), "{statement}: {refused}");
    }
    assert_eq!(runtime.catalog().version(), version);
    assert!(runtime.queries().iter().all(|(_, state)| *state == QueryState::Running));
}

#[test]
fn cycles_from_before_are_computed_with_the_options_of_then() {
    let database = Database::new(1);
    let (_runtime, mut session) = database.open();
    let view = "CREATE MATERIALIZED VIEW v WITH (retain_bytes = '64 MB') AS SELECT gated(v) AS v FROM s";
    database.start(&mut session, "v", view);
    database.start(&mut session, "all_rows", "CREATE MATERIALIZED VIEW all_rows AS SELECT v FROM s");
    // The view falls behind, and the other one sees each cycle.
    database.gate.set(true);
    let mut expected = Vec::new();
    for round in 1..=60 {
        database.sources[0].feed(vec![(0, round); 400]);
        until("it has the rows", || {
            numbers(&mut session, "SELECT count(*) AS n FROM all_rows") == [round * 400]
        });
        let reader = session.runtime().running_view("all_rows").unwrap();
        expected.push((reader.store().latest().cycle().unwrap(), round * 400));
    }
    let mut other = Session::new(session.runtime());
    let altering = std::thread::spawn(move || {
        define(&mut other, "ALTER MATERIALIZED VIEW v SET (retain_bytes = '64 KB')");
    });
    std::thread::sleep(Duration::from_millis(300));
    database.gate.set(false);
    altering.join().unwrap();
    until("it has caught up", || {
        session
            .runtime()
            .running_view("v")
            .unwrap()
            .store()
            .cycles()
            .is_some_and(|(_, newest)| newest >= expected.last().unwrap().0)
    });
    let mut asked = 0;
    for (cycle, rows) in expected {
        // Versions may be gone, but none has other rows.
        let query = format!("SELECT count(*) AS n FROM v AS OF CYCLE {cycle}");
        if let Ok(Reply::Rows(found)) = execute(&mut session, &query) {
            assert_eq!(statements::numbers_of(&found), [rows], "cycle {cycle}");
            asked += 1;
        }
    }
    assert!(asked > 0);
}
