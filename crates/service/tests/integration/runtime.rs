//! Several queries under one catalogue, and several sessions over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::statements::{define, execute, numbers, numbers_of};
use crate::waiting::until;
use tidemill_engine::arrow::array::{Int64Array, RecordBatch};
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_engine::{Cause, Polled, Source};
use tidemill_service::{Error, QueryState, Reply, Runtime, Session};
use tidemill_sql::{Generator, Planner, Projected, SourceDefinition, parse};

fn runtime() -> Runtime {
    let mut planner = Planner::new();
    planner.settings_mut().workers = 1;
    Runtime::new(planner)
}

fn start(session: &mut Session, name: &str) -> Result<(), Cause> {
    let pipeline = session.pipeline_of(&[name]).unwrap_or_else(|error| panic!("{error}"));
    session.runtime().clone().start(name, pipeline, false)
}

/// `failing()`: ends with an error as soon as the flag is set, and has no rows before.
fn register_failing(planner: &mut Planner) -> Arc<AtomicBool> {
    struct Failing(SchemaRef, Arc<AtomicBool>);
    impl Source for Failing {
        fn schema(&self) -> SchemaRef {
            Arc::clone(&self.0)
        }

        fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
            if self.1.load(Ordering::SeqCst) {
                return Err(Cause::operation("the line is dead"));
            }
            thread::sleep(wait.min(Duration::from_millis(1)));
            Ok(Polled::Nothing)
        }

        fn is_finite(&self) -> bool {
            false
        }
    }
    let fails = Arc::new(AtomicBool::new(false));
    let of_source = Arc::clone(&fails);
    let schema = Arc::new(Schema::new(vec![Field::new("value", DataType::Int64, false)]));
    let generator = move |_: &tidemill_sql::DeclaredValues| {
        let (schema, fails) = (Arc::clone(&schema), Arc::clone(&of_source));
        let of_rows = Arc::clone(&schema);
        let open = move |columns: Option<&[usize]>| {
            Projected::open(Failing(Arc::clone(&of_rows), Arc::clone(&fails)), columns)
        };
        Ok(SourceDefinition::new("failing", schema, Arc::new(open)))
    };
    planner.register_generator("failing", Generator::new("rows of a test", &[], generator));
    fails
}

#[test]
fn queries_run_beside_each_other_by_name() {
    let runtime = runtime();
    let mut session = Session::new(&runtime);
    define(
        &mut session,
        "CREATE MATERIALIZED VIEW few AS SELECT count(*) AS n FROM sequence(count => 10);
         CREATE MATERIALIZED VIEW endless AS SELECT count(*) AS n FROM sequence(rate => 1000)",
    );
    start(&mut session, "few").unwrap();
    start(&mut session, "endless").unwrap();
    assert_eq!(runtime.wait("few").unwrap().rows_in(), 10);
    assert_eq!(runtime.state("few").unwrap(), QueryState::Ended);

    until("no row came in", || runtime.status("endless").unwrap().is_some_and(|status| status.rows_in() > 0));
    let states = runtime.queries();
    let names: Vec<&str> = states.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((names, states[0].1), (vec!["endless", "few"], QueryState::Running));
    assert_eq!(runtime.wait_for("endless", Duration::ZERO).unwrap().map(drop), None, "it has no end");

    let twice = start(&mut session, "endless").unwrap_err().to_string();
    assert_eq!(twice, "query 'endless' is already running; stop it first");
    let pipeline = session.pipeline_of(&["endless"]).unwrap();
    let shared = runtime.start("other", pipeline, false).unwrap_err().to_string();
    assert_eq!(shared, "query 'endless' is running and writes to 'endless'; stop that query first");
    assert!(runtime.forget("endless").unwrap_err().to_string().contains("stop it first"));

    runtime.stop("endless").unwrap();
    let rows_in = runtime.wait("endless").unwrap().rows_in();
    let counted: i64 = numbers(&mut session, "SELECT n FROM endless").iter().sum();
    assert_eq!(counted as u64, rows_in, "what was taken in is answered");

    // Its name is free again.
    start(&mut session, "few").unwrap();
    runtime.wait("few").unwrap();
    runtime.forget("few").unwrap();
    assert_eq!(numbers(&mut session, "SELECT n FROM few"), [10], "what it wrote stays");
    let gone = runtime.state("fwe").unwrap_err().to_string();
    assert_eq!(gone, "there is no query 'fwe'");
    let meant = runtime.status("endles").unwrap_err().to_string();
    assert_eq!(meant, "there is no query 'endles'; did you mean 'endless'?");
}

#[test]
fn sessions_share_definitions_and_have_settings_of_their_own() {
    let runtime = runtime();
    let (mut one, mut other) = (Session::new(&runtime), Session::new(&runtime));
    define(&mut one, "CREATE VIEW v AS SELECT value FROM sequence(count => 3); SET max_result_rows = 2");
    assert_eq!(numbers(&mut other, "SELECT value FROM v ORDER BY 1"), [0, 1, 2]);
    assert_ne!(other.settings().max_result_rows, 2);
    let Ok(Reply::Query(query)) = execute(&mut one, "SELECT value FROM v ORDER BY 1") else {
        panic!("it is a query")
    };
    let failed = query.stream().unwrap().find_map(Result::err).expect("two rows are the most here");
    assert!(failed.to_string().contains("max_result_rows"), "{failed}");

    let Err(Error::Statement(error)) = execute(&mut other, "CREATE VIEW v AS SELECT 1 AS a") else {
        panic!("the name is taken")
    };
    assert!(error.to_string().contains("'v' already exists"), "{error}");
    define(&mut other, "DROP VIEW v");
    assert!(execute(&mut one, "SELECT * FROM v").is_err(), "the other session has dropped it");
    assert_eq!(runtime.catalog().version(), 2);
}

#[test]
fn one_name_is_defined_once_however_many_sessions_try() {
    let runtime = runtime();
    let define = |index: usize| {
        let mut session = Session::new(&runtime);
        execute(&mut session, &format!("CREATE VIEW v AS SELECT {index} AS n")).is_ok()
    };
    let done = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|index| scope.spawn(move || define(index))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).filter(|done| *done).count()
    });
    assert_eq!((done, runtime.catalog().version()), (1, 1));
}

/// A generator whose planning waits until it is told to continue, and says how often it was begun.
fn register_slow(planner: &mut Planner) -> (Arc<AtomicUsize>, Arc<AtomicBool>) {
    let (begun, goes_on) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let told = (Arc::clone(&begun), Arc::clone(&goes_on));
    let schema = Arc::new(Schema::new(vec![Field::new("value", DataType::Int64, false)]));
    let generator = move |_: &tidemill_sql::DeclaredValues| {
        told.0.fetch_add(1, Ordering::SeqCst);
        until("nobody lets it go on", || told.1.load(Ordering::SeqCst));
        let never = |_: Option<&[usize]>| Err(Cause::bug("it is never opened"));
        Ok(SourceDefinition::new("slow", Arc::clone(&schema), Arc::new(never)))
    };
    planner.register_generator("slow", Generator::new("rows of a test", &[], generator));
    (begun, goes_on)
}

#[test]
fn a_definition_that_is_planned_slowly_does_not_hold_up_other_sessions() {
    let mut planner = Planner::new();
    planner.settings_mut().workers = 1;
    let (begun, goes_on) = register_slow(&mut planner);
    let runtime = Runtime::new(planner);
    let slow = {
        let mut session = Session::new(&runtime);
        thread::spawn(move || execute(&mut session, "CREATE VIEW v AS SELECT value FROM slow()").map(drop))
    };
    until("it is not planned", || begun.load(Ordering::SeqCst) > 0);
    // Others define, ask and start meanwhile; one of them takes the name.
    let mut other = Session::new(&runtime);
    define(&mut other, "CREATE VIEW v AS SELECT value FROM sequence(count => 3)");
    define(&mut other, "CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM v");
    assert_eq!(numbers(&mut other, "SELECT value FROM v ORDER BY 1"), [0, 1, 2]);
    start(&mut other, "w").unwrap();
    runtime.wait("w").unwrap();
    assert_eq!(numbers(&mut other, "SELECT n FROM w"), [3]);
    goes_on.store(true, Ordering::SeqCst);
    let error = slow.join().unwrap().unwrap_err().to_string();
    assert!(error.contains("'v' already exists"), "{error}");
    assert_eq!(runtime.catalog().version(), 2);
}

#[test]
fn a_view_is_read_from_another_session_while_it_runs() {
    let runtime = runtime();
    let (mut one, mut other) = (Session::new(&runtime), Session::new(&runtime));
    define(&mut one, "CREATE MATERIALIZED VIEW growing AS SELECT count(*) AS n FROM sequence(rate => 1000)");
    start(&mut one, "growing").unwrap();
    until("the view stays empty", || numbers(&mut other, "SELECT n FROM growing").first() > Some(&0));
    let handle = &runtime.views("growing").unwrap()[0];
    assert_eq!(handle.read().unwrap().num_rows(), 1);
    // Dropping the session that started it does not end it.
    drop(one);
    let before = numbers(&mut other, "SELECT n FROM growing");
    until("the view stands still", || numbers(&mut other, "SELECT n FROM growing") > before);

    // Another view that takes the name is not taken for it.
    define(
        &mut other,
        "CREATE OR REPLACE MATERIALIZED VIEW growing AS SELECT value AS n FROM sequence(count => 2)",
    );
    assert_eq!(numbers(&mut other, "SELECT n FROM growing ORDER BY n"), [0, 1]);
    runtime.abandon("growing").unwrap();
    let lost = runtime.wait("growing").unwrap_err().to_string();
    assert_eq!(lost, "the query was stopped at once; the answers that it had not yet given are lost");
}

#[test]
fn a_cancelled_query_answers_what_it_took_in_and_then_nothing() {
    let runtime = runtime();
    let mut session = Session::new(&runtime);
    let cancellation = session.cancellation();
    let query = "SELECT value FROM sequence(rate => 10000)";
    let Ok(Reply::Query(query)) = execute(&mut session, query) else { panic!("it is a query") };
    let mut next = 0;
    for batch in query.stream().unwrap() {
        for value in numbers_of(&batch.unwrap()) {
            assert_eq!(value, next, "each row once, in order");
            next += 1;
        }
        if cancellation.requests() == 0 {
            cancellation.request();
        }
    }
    assert!(next > 0);

    // A request that came before a query is not meant for it.
    assert_eq!(numbers(&mut session, "SELECT value FROM sequence(count => 3)"), [0, 1, 2]);

    // Two requests end it at once. That holds for a query without rows, too.
    let query = "SELECT value FROM sequence(rate => 1000) WHERE value < 0";
    let Ok(Reply::Query(query)) = execute(&mut session, query) else { panic!("it is a query") };
    let mut rows = query.stream().unwrap();
    let asks = thread::spawn(move || {
        cancellation.request();
        cancellation.request();
    });
    let last = rows.next();
    asks.join().unwrap();
    // It may have ended in order between the two.
    assert!(last.is_none_or(|last| last.unwrap_err().to_string().contains("was cancelled")));
    assert!(rows.next().is_none());
}

#[test]
fn dropping_a_stream_ends_its_query() {
    struct Counted(Arc<AtomicBool>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    struct Endless(SchemaRef, #[allow(dead_code)] Counted);
    impl Source for Endless {
        fn schema(&self) -> SchemaRef {
            Arc::clone(&self.0)
        }

        fn poll(&mut self, _wait: Duration) -> Result<Polled, Cause> {
            let values = Int64Array::from(vec![1; 1000]);
            let rows = RecordBatch::try_new(Arc::clone(&self.0), vec![Arc::new(values)]);
            rows.map(Polled::Rows).map_err(|error| Cause::bug(error.to_string()))
        }

        fn is_finite(&self) -> bool {
            false
        }
    }
    let closed = Arc::new(AtomicBool::new(false));
    let of_source = Arc::clone(&closed);
    let mut planner = Planner::new();
    let schema = Arc::new(Schema::new(vec![Field::new("value", DataType::Int64, false)]));
    let generator = move |_: &tidemill_sql::DeclaredValues| {
        let (schema, closed) = (Arc::clone(&schema), Arc::clone(&of_source));
        let of_rows = Arc::clone(&schema);
        let open = move |columns: Option<&[usize]>| {
            Projected::open(Endless(Arc::clone(&of_rows), Counted(Arc::clone(&closed))), columns)
        };
        Ok(SourceDefinition::new("endless", schema, Arc::new(open)))
    };
    planner.register_generator("endless", Generator::new("rows of a test", &[], generator));
    let mut session = Session::new(&Runtime::new(planner));
    let Ok(Reply::Query(query)) = execute(&mut session, "SELECT value FROM endless()") else {
        panic!("it is a query")
    };
    let mut rows = query.stream().unwrap();
    assert_eq!(numbers_of(&rows.next().unwrap().unwrap())[0], 1);
    // By now the queue of rows may be full, with the sink waiting for room.
    thread::sleep(Duration::from_millis(50));
    assert!(!closed.load(Ordering::SeqCst));
    drop(rows);
    until("the source is still open", || closed.load(Ordering::SeqCst));
}

#[test]
fn a_query_that_fails_while_it_is_stopped_says_why() {
    let mut planner = Planner::new();
    planner.settings_mut().workers = 1;
    let fails = register_failing(&mut planner);
    let runtime = Runtime::new(planner);
    let mut session = Session::new(&runtime);
    define(
        &mut session,
        "CREATE MATERIALIZED VIEW broken AS SELECT count(*) AS n FROM failing();
         CREATE MATERIALIZED VIEW well AS SELECT count(*) AS n FROM sequence(rate => 1000)",
    );
    start(&mut session, "broken").unwrap();
    start(&mut session, "well").unwrap();
    assert_eq!(runtime.state("broken").unwrap(), QueryState::Running);
    fails.store(true, Ordering::SeqCst);
    until("it does not fail", || runtime.state("broken").unwrap() == QueryState::Failed);
    runtime.stop("broken").unwrap();
    let why = runtime.wait("broken").unwrap_err().to_string();
    assert!(why.contains("the line is dead"), "{why}");
    assert!(runtime.status("broken").unwrap().is_none());
    assert_eq!(runtime.state("well").unwrap(), QueryState::Running, "a query does not end another one");

    fails.store(false, Ordering::SeqCst);
    start(&mut session, "broken").unwrap();
    runtime.stop("broken").unwrap();
    assert_eq!(runtime.wait("broken").unwrap().rows_in(), 0);
}

#[test]
fn a_query_that_cannot_be_opened_leaves_its_name_free() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime();
    let mut session = Session::new(&runtime);
    let path = folder.path().join("no/such/folder/rows.csv");
    let script =
        format!("CREATE SINK s WITH (path = '{}') AS SELECT value FROM sequence(count => 3)", path.display());
    define(&mut session, &script);
    assert!(start(&mut session, "s").unwrap_err().to_string().contains("no/such/folder"));
    assert!(runtime.queries().is_empty());
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    start(&mut session, "s").unwrap();
    runtime.wait("s").unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "value\n0\n1\n2\n");
}

#[test]
fn a_strict_query_stops_at_the_first_row_that_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    std::fs::write(&path, "a\n1\nx\n").unwrap();
    let runtime = runtime();
    let mut session = Session::new(&runtime);
    let script = format!(
        "CREATE SOURCE rows (a BIGINT) WITH (path = '{}', follow = true);
         CREATE MATERIALIZED VIEW kept AS SELECT a FROM rows",
        path.display()
    );
    define(&mut session, &script);
    let pipeline = session.pipeline().unwrap().unwrap();
    runtime.start("kept", pipeline, true).unwrap();
    // The file has no end, so only the bad row can end it.
    let status = runtime.wait("kept").unwrap();
    assert_eq!((status.is_exact(), status.faults.count), (false, 1));
}

#[test]
fn a_statement_is_planned_each_time_that_it_is_executed() {
    let runtime = runtime();
    let (mut one, mut other) = (Session::new(&runtime), Session::new(&runtime));
    let statement = parse("SELECT value FROM v ORDER BY value", "test.sql").unwrap().remove(0);
    assert!(matches!(one.execute(&statement), Err(Error::Statement(_))), "there is no v yet");
    for count in [1, 2] {
        define(
            &mut other,
            &format!("CREATE OR REPLACE VIEW v AS SELECT value FROM sequence(count => {count})"),
        );
        let Ok(Reply::Query(query)) = one.execute(&statement) else { panic!("it is a query") };
        assert_eq!(query.stream().unwrap().map(|batch| batch.unwrap().num_rows()).sum::<usize>(), count);
    }
}
