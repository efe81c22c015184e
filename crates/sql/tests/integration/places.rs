//! Processes run where the query says: functions note which worker computes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use parking_lot::Mutex;
use tidemill_connect::memory::MemorySink;
use tidemill_sql::{Planner, Reply, parse};

/// What was computed: for each label, the workers that did, and how many rows.
type Noted = Arc<Mutex<BTreeMap<String, (BTreeSet<String>, usize)>>>;

/// A planner with this many workers and `noted(label, value)`, which returns the value.
fn planner(workers: usize) -> (Planner, Noted) {
    let noted = Noted::default();
    let notes = Arc::clone(&noted);
    let note = move |arguments: &[ArrayRef]| {
        let worker = std::thread::current().name().unwrap_or_default().replace("timely:work-", "worker ");
        let values: Int64Array = arguments[1].as_primitive::<Int64Type>().clone();
        for label in arguments[0].as_string::<i32>().iter().flatten() {
            let mut notes = notes.lock();
            let (workers, rows) = notes.entry(label.to_string()).or_default();
            workers.insert(worker.clone());
            *rows += 1;
        }
        Ok(Arc::new(values) as ArrayRef)
    };
    let mut planner = Planner::new();
    planner.register_function("noted", vec![DataType::Utf8, DataType::Int64], DataType::Int64, note);
    planner.settings_mut().workers = workers;
    planner.settings_mut().cycle_events = 2_000;
    planner.settings_mut().cycle_fixed = true;
    (planner, noted)
}

/// Executes a script that ends with a query; its rows.
fn rows(planner: &mut Planner, script: &str) -> RecordBatch {
    for statement in parse(script, "test.sql").unwrap() {
        match planner.execute(&statement).unwrap_or_else(|error| panic!("{error}")) {
            Reply::Query(prepared) => {
                let (sink, kept) = MemorySink::new(&prepared.outputs()[0].schema, 1_000_000);
                prepared.open(vec![Box::new(sink)]).unwrap().start().unwrap().wait().unwrap();
                return kept.read().unwrap();
            }
            Reply::Done(_) => {}
            _ => panic!("neither a definition nor a query"),
        }
    }
    panic!("there is no query");
}

fn workers(noted: &Noted, label: &str) -> Vec<String> {
    noted.lock()[label].0.iter().cloned().collect()
}

const SCRIPT: &str = "
    CREATE PROCESS made AT 3 AS SELECT noted('made', value) AS value, event_time FROM sequence(count => 9000);
    CREATE PROCESS part FOR i IN (0, 1) AT 1, 2 AS
        SELECT noted('part', value) AS value
        FROM postfilter((SELECT value FROM made WHERE noted('sent', value) % 2 = i));
    CREATE PROCESS other PREFER 99, 2 AS SELECT noted('other', value) AS value FROM made WHERE value < 5;
    SELECT value FROM part UNION ALL SELECT value FROM other
    UNION ALL SELECT noted('outside', value) FROM sequence(9000)
";

#[test]
fn what_a_process_computes_is_computed_in_its_place() {
    let (mut planner, noted) = planner(4);
    let rows = rows(&mut planner, SCRIPT);
    assert_eq!(rows.num_rows(), 9000 + 5 + 9000);
    assert_eq!(workers(&noted, "made"), ["worker 3"]);
    assert_eq!(workers(&noted, "part"), ["worker 1"]);
    assert_eq!(workers(&noted, "other"), ["worker 2"]);
    assert_eq!(workers(&noted, "sent"), ["worker 3"], "a postfilter runs where the rows come from");
    assert!(workers(&noted, "outside").len() > 1, "what is in no process is shared by the workers");
}

#[test]
fn a_process_that_is_used_three_times_runs_once() {
    let (mut planner, noted) = planner(4);
    rows(&mut planner, SCRIPT);
    let noted = noted.lock();
    assert_eq!(noted["made"].1, 9000);
    assert_eq!(noted["sent"].1, 18_000, "a postfilter is asked once for each subscriber");
    assert_eq!(noted["part"].1, 9000, "and only what it lets pass is sent");
}

#[test]
fn queries_of_a_pipeline_share_a_process() {
    let (mut planner, noted) = planner(3);
    let script = "
        CREATE PROCESS made AS SELECT noted('made', value) AS value FROM sequence(count => 9000);
        CREATE MATERIALIZED VIEW few AS SELECT value FROM made WHERE value < 10;
        CREATE MATERIALIZED VIEW many AS SELECT value FROM made WHERE value >= 10;
    ";
    for statement in parse(script, "test.sql").unwrap() {
        planner.execute(&statement).unwrap_or_else(|error| panic!("{error}"));
    }
    let pipeline = planner.pipeline().unwrap().unwrap();
    let running = pipeline.open().unwrap().start().unwrap();
    let views = running.views().to_vec();
    running.wait().unwrap();
    let rows: Vec<usize> = views.iter().map(|view| view.read().unwrap().num_rows()).collect();
    assert_eq!(rows, [10, 8990]);
    assert_eq!(noted.lock()["made"].1, 9000);
}

/// The plan without the numbers of workers.
fn plan_without_places(script: &str) -> String {
    let (mut planner, _) = planner(5);
    for statement in parse(script, "test.sql").unwrap() {
        if let Reply::Query(prepared) = planner.execute(&statement).unwrap_or_else(|error| panic!("{error}"))
        {
            let plan = prepared.explain();
            let parts: Vec<&str> = plan.split(" on worker ").collect();
            assert!(parts.len() > 4, "{plan}");
            return parts
                .iter()
                .map(|part| part.trim_start_matches(|digit: char| digit.is_ascii_digit()))
                .collect();
        }
    }
    panic!("there is no query");
}

#[test]
fn a_process_that_is_moved_keeps_the_names_by_which_its_state_is_found() {
    let placed = plan_without_places(SCRIPT);
    assert_eq!(placed, plan_without_places(&SCRIPT.replace("AT 3", "AT 0").replace("AT 1, 2", "PREFER 4")));
    assert_eq!(placed, plan_without_places(&SCRIPT.replace("AT 3", "").replace("PREFER 99, 2", "")));
}

#[test]
fn rows_and_their_order_do_not_depend_on_places() {
    let without = SCRIPT.replace("AT 3", "").replace("AT 1, 2", "").replace("PREFER 99, 2", "");
    // Of one source only: the rows of several come in whatever order their threads have.
    let one_source =
        |script: &str| script.replace(" UNION ALL SELECT noted('outside', value) FROM sequence(9000)", "");
    let mut first = None;
    for (script, workers) in [(SCRIPT, 4), (SCRIPT, 5), (&without, 1), (&without, 2), (&without, 5)] {
        let (mut planner, _) = planner(workers);
        let rows = rows(&mut planner, &one_source(script));
        assert_eq!(rows.num_rows(), 9005);
        let first = first.get_or_insert_with(|| rows.clone());
        assert_eq!(rows, *first, "at {workers} workers");
    }
}
