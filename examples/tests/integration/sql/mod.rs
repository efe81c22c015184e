//! What the tests of the SQL examples share: running a script, and reading what it wrote.

// Each test program compiles this module for itself and uses its own part of it.
#![allow(dead_code)]

use std::fs;
use std::path::Path;

use tidemill_connect::memory::{MemoryRows, MemorySink};
use tidemill_engine::Sink;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_sql::{Planner, Reply, parse};

/// The text of an example.
pub fn script(name: &str) -> String {
    let path = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join(name);
    fs::read_to_string(path).expect("the example is there")
}

/// A text in which something that stands there is replaced.
pub fn replaced(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old), "the example does not say {old} any more");
    text.replace(old, new)
}

/// A planner that has executed the definitions of a script.
pub fn planner(script: &str, workers: usize) -> Planner {
    let mut planner = Planner::new();
    define(&mut planner, script, workers);
    planner
}

/// Executes the definitions of a script.
pub fn define(planner: &mut Planner, script: &str, workers: usize) {
    planner.settings_mut().workers = workers;
    for statement in parse(script, "script").expect("a script that can be parsed") {
        match planner.execute(&statement).unwrap_or_else(|error| panic!("{error}")) {
            Reply::Done(_) => {}
            _ => panic!("the script asks something: {}", statement.text),
        }
    }
}

/// Runs all sinks of a planner to the end of their input.
pub fn run_sinks(planner: &Planner) {
    let pipeline = planner.pipeline().expect("a plan").expect("a script with sinks");
    let running = pipeline.open().expect("its sinks open").start();
    let (status, _) = running.expect("it starts").wait().expect("it ends in order");
    assert_eq!((status.late, status.faults.count), (0, 0), "rows were left out");
}

/// The rows of a query that streams.
pub fn rows(planner: &mut Planner, query: &str) -> Vec<RecordBatch> {
    let mut statements = parse(query, "query").expect("a query").into_iter();
    let statement = statements.next().expect("a query");
    let Reply::Query(prepared) = planner.execute(&statement).unwrap_or_else(|error| panic!("{error}")) else {
        panic!("'{query}' does not stream");
    };
    let (mut sinks, mut kept): (Vec<Box<dyn Sink>>, Vec<MemoryRows>) = Default::default();
    for output in prepared.outputs() {
        let (sink, rows) = MemorySink::new(&output.schema, 10_000_000);
        sinks.push(Box::new(sink));
        kept.push(rows);
    }
    let (status, answer) =
        prepared.open(sinks).expect("it opens").start().expect("it starts").wait().expect("it ends in order");
    assert_eq!((status.late, status.faults.count), (0, 0), "rows were left out");
    let read = kept.iter().map(|rows| rows.read().expect("the rows"));
    answer.into_iter().chain(read).collect()
}
