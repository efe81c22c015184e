//! Runs scripts, and shows rows as text.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use tidemill_connect::memory::MemorySink;
use tidemill_engine::Sink;
use tidemill_sql::{Planner, Reply, parse};

/// Two views over a few rows.
pub(crate) const VIEWS: &str = "
    CREATE VIEW t AS SELECT value AS id, value % 2 AS k, to_timestamp(value) AS at, CAST(value AS VARCHAR) AS text,
        CAST(value AS DOUBLE) AS x, value > 1 AS flag, [value, 1] AS list FROM sequence(count => 4);
    CREATE VIEW u AS SELECT value AS id, value * 10 AS w FROM sequence(count => 3);";

/// Names and rows of a query; its error as a user reads it.
pub(crate) fn run(planner: &mut Planner, script: &str) -> Result<RecordBatch, String> {
    let mut rows = None;
    for statement in parse(script, "test.sql").map_err(|error| error.to_string())? {
        rows = match planner.execute(&statement).map_err(|error| error.to_string())? {
            Reply::Rows(rows) => Some(rows),
            Reply::Query(prepared) => {
                let (mut sinks, mut kept): (Vec<Box<dyn Sink>>, Vec<_>) = (Vec::new(), Vec::new());
                for output in prepared.outputs() {
                    let (sink, rows) = MemorySink::new(&output.schema, 1_000);
                    sinks.push(Box::new(sink));
                    kept.push(rows);
                }
                let (_, answer) = prepared
                    .open(sinks)
                    .unwrap()
                    .start()
                    .unwrap()
                    .wait()
                    .map_err(|cause| cause.to_string())?;
                Some(answer.unwrap_or_else(|| kept[0].read().unwrap()))
            }
            _ => None,
        };
    }
    rows.ok_or_else(|| "no rows".to_string())
}

/// The names of the columns.
pub(crate) fn names(rows: &RecordBatch) -> Vec<String> {
    rows.schema().fields().iter().map(|field| field.name().clone()).collect()
}

/// The rows, sorted, their values with spaces between.
pub(crate) fn shown(rows: &RecordBatch) -> Vec<String> {
    let text = pretty_format_batches(std::slice::from_ref(rows)).unwrap().to_string();
    let rows = text.lines().filter(|line| line.starts_with('|')).skip(1);
    let mut rows: Vec<String> = rows
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>().join(" "))
        .collect();
    rows.sort();
    rows
}

/// A planner with the views.
pub(crate) fn planner() -> Planner {
    let mut planner = Planner::new();
    for statement in parse(VIEWS, "views.sql").unwrap() {
        planner.execute(&statement).unwrap_or_else(|error| panic!("{error}"));
    }
    planner
}
