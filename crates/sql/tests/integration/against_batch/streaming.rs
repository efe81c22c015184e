//! The answer of a continuous query.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use tidemill_connect::memory::{MemoryRows, MemorySink};
use tidemill_engine::{Cause, EventTime, Sink, Source};
use tidemill_sql::{Generator, Planner, Prepared, QueryStatus, Reply, RunningQuery, SourceDefinition, parse};

use super::input::{Input, MS, Run, Stream, dimension_batch, stream_batch};
use crate::memory_source::Batches;

/// A query of this few rows takes longer only if it does not end.
const END_MAX: Duration = Duration::from_secs(60);
const ROWS_MAX: usize = 1_000_000;

fn definition(name: &str, rows: RecordBatch, delay_ms: Option<i64>, sizes: &[usize]) -> SourceDefinition {
    let sizes = sizes.to_vec();
    let schema = rows.schema();
    let event_time = delay_ms.map(|delay_ms| {
        let column = schema.index_of("at").expect("streams have a time");
        EventTime { column, delay_ns: delay_ms * MS }
    });
    let open = move |columns: Option<&[usize]>| -> Result<Box<dyn Source>, Cause> {
        let rows = match columns {
            Some(columns) => rows.project(columns).map_err(|error| Cause::bug(error.to_string()))?,
            None => rows.clone(),
        };
        let (mut left, mut first) = (VecDeque::new(), 0);
        for size in sizes.iter().cycle() {
            if first == rows.num_rows() {
                break;
            }
            let size = (*size).min(rows.num_rows() - first);
            left.push_back(rows.slice(first, size));
            first += size;
        }
        Ok(Box::new(Batches { schema: rows.schema(), left }))
    };
    SourceDefinition {
        event_time,
        ordered: delay_ms == Some(0),
        is_table: delay_ms.is_none(),
        is_finite: true,
        is_repeatable: true,
        ..SourceDefinition::new(name, schema, Arc::new(open))
    }
}

/// A planner with `a`, `b` and `dimension`.
pub fn planner(input: &Input, run: &Run) -> Planner {
    let mut planner = Planner::new();
    let settings = planner.settings_mut();
    settings.workers = run.workers;
    settings.cycle_events = run.cycle_events;
    settings.cycle_fixed = true;
    let stream = |stream: &Stream| (stream_batch(&stream.all()), Some(stream.delay_ms));
    let relations =
        [("a", stream(&input.a)), ("b", stream(&input.b)), ("dimension", (dimension_batch(input), None))];
    for (name, (rows, delay_ms)) in relations {
        let sizes = run.batches.clone();
        let generator = move |_: &_| Ok(definition(name, rows.clone(), delay_ms, &sizes));
        planner.register_generator(&format!("{name}_rows"), Generator::new("rows of a test", &[], generator));
        execute(&mut planner, &format!("CREATE VIEW {name} AS SELECT * FROM {name}_rows()"));
    }
    planner
}

pub fn execute(planner: &mut Planner, sql: &str) -> Reply {
    let statements = parse(sql, "case").unwrap_or_else(|error| panic!("{error}"));
    let mut replies = statements.iter().map(|statement| planner.execute(statement));
    let reply =
        replies.next().expect("there is a statement").unwrap_or_else(|error| panic!("{error}\n{sql}"));
    assert!(replies.next().is_none(), "one statement only");
    reply
}

/// The rows of a query, in the order in which they came.
pub fn answer(sql: &str, input: &Input, run: &Run, at_end: bool) -> RecordBatch {
    let Reply::Query(query) = execute(&mut planner(input, run), sql) else { panic!("no query: {sql}") };
    assert_eq!(query.is_answered_at_end(), at_end, "whether it is answered at the end: {sql}");
    let mut kept = Vec::new();
    let sinks = memory_sinks(&query, &mut kept);
    let (status, at_end) = wait(
        query.open(sinks).and_then(|opened| opened.start()).unwrap_or_else(|cause| panic!("{cause}\n{sql}")),
        sql,
    );
    check_late(&status, input, sql);
    match at_end {
        Some(rows) => rows,
        None => kept[0].read().expect("the rows are few"),
    }
}

/// The last row of each key of a query that is a table, as a materialized view gives them.
pub fn upserts(sql: &str, input: &Input, run: &Run) -> RecordBatch {
    let mut planner = planner(input, run);
    execute(&mut planner, &format!("CREATE MATERIALIZED VIEW kept AS {sql}"));
    let pipeline = planner.pipeline().unwrap_or_else(|cause| panic!("{cause}\n{sql}"));
    let query = pipeline.expect("there is a view").into_prepared();
    let key = query.outputs()[0].table_key.clone().expect("it is a table").expect("its key is selected");
    let mut kept = Vec::new();
    let sinks = memory_sinks(&query, &mut kept);
    let (status, _) = wait(
        query.open(sinks).and_then(|opened| opened.start()).unwrap_or_else(|cause| panic!("{cause}\n{sql}")),
        sql,
    );
    check_late(&status, input, sql);
    last_of_each_key(&kept[0].read().expect("the rows are few"), &key)
}

fn last_of_each_key(rows: &RecordBatch, key: &[usize]) -> RecordBatch {
    use datafusion::arrow::array::UInt64Array;
    use datafusion::arrow::compute::take_record_batch;
    let mut last = std::collections::BTreeMap::new();
    for (row, cells) in super::compare::cells(rows).into_iter().enumerate() {
        let key: Vec<_> = key.iter().map(|column| cells[*column].to_string()).collect();
        last.insert(key, row as u64);
    }
    take_record_batch(rows, &UInt64Array::from_iter_values(last.into_values())).expect("the rows are there")
}

fn memory_sinks(query: &Prepared, kept: &mut Vec<MemoryRows>) -> Vec<Box<dyn Sink>> {
    let sink = |output: &tidemill_sql::Output| -> Box<dyn Sink> {
        let (sink, rows) = MemorySink::new(&output.schema, ROWS_MAX);
        kept.push(rows);
        Box::new(sink)
    };
    query.outputs().iter().map(sink).collect()
}

fn wait(running: RunningQuery, sql: &str) -> (QueryStatus, Option<RecordBatch>) {
    let begun = Instant::now();
    while !running.has_ended() {
        assert!(begun.elapsed() < END_MAX, "it does not end: {sql}");
        std::thread::sleep(Duration::from_micros(200));
    }
    running.wait().unwrap_or_else(|cause| panic!("{cause}\n{sql}"))
}

/// Late rows and rows without time are counted, each at its source, and no operator finds any more of them.
fn check_late(status: &QueryStatus, input: &Input, sql: &str) {
    let (mut late, mut without_time) = (0, 0);
    for (name, feed) in &status.sources {
        let stream = match name.as_str() {
            "a" => &input.a,
            "b" => &input.b,
            other => panic!("{other} is no stream"),
        };
        let of = |kind| stream.late().iter().filter(|late| **late == kind).count() as u64;
        assert_eq!(feed.late, of(Some(true)), "late rows of {name}: {sql}");
        late += feed.late;
        without_time += of(None);
    }
    assert_eq!(status.late, late, "late rows, with those that operators found: {sql}");
    assert_eq!(status.faults.count, without_time, "faults: {:?}: {sql}", status.faults.samples);
}
