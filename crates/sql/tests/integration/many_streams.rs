//! Joins and unions of hundreds of streams, compared with loops over all rows.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, TimestampNanosecondArray};
use datafusion::arrow::datatypes::{Int64Type, TimestampNanosecondType};
use tidemill_connect::memory::MemorySink;
use tidemill_engine::{Cause, EventTime, Sink, Source};
use tidemill_sql::{Generator, Planner, Prepared, Reply, SourceDefinition, parse};

use crate::memory_source::Batches;

const MS: i64 = 1_000_000;
const ROWS_MAX: usize = 1_000_000;
/// A query of this few rows takes longer only if it does not end.
const END_MAX: Duration = Duration::from_secs(240);

#[derive(Clone, Copy)]
struct Row {
    at_ms: i64,
    key: i64,
    value: i64,
}

/// The rows of each stream, in the order of their times. Each third row of a stream finds one in all others, the others
/// do so only among few streams, and one finds two in some streams.
fn streams(count: usize) -> Vec<Vec<Row>> {
    let rows_of = |stream: i64| -> Vec<Row> {
        let mut rows = Vec::new();
        for row in (0..30).filter(|row| row % 3 == 0 || (row * 5 + stream) % 37 != 0) {
            let at_ms = row * 400 + (stream * 13) % 90;
            rows.push(Row { at_ms, key: row % 4, value: stream * 1000 + row });
            if row == 27 && stream % 41 == 7 {
                rows.push(Row { at_ms: at_ms + 5, key: row % 4, value: -stream });
            }
        }
        rows
    };
    (0..count as i64).map(rows_of).collect()
}

fn batch(rows: &[Row]) -> RecordBatch {
    let times = TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.at_ms * MS));
    let keys = Int64Array::from_iter_values(rows.iter().map(|row| row.key));
    let values = Int64Array::from_iter_values(rows.iter().map(|row| row.value));
    let columns: [(&str, ArrayRef); 3] =
        [("at", Arc::new(times)), ("key", Arc::new(keys)), ("value", Arc::new(values))];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn definition(name: &str, rows: RecordBatch) -> SourceDefinition {
    let schema = rows.schema();
    let open = move |columns: Option<&[usize]>| -> Result<Box<dyn Source>, Cause> {
        let rows = match columns {
            Some(columns) => rows.project(columns).map_err(|error| Cause::bug(error.to_string()))?,
            None => rows.clone(),
        };
        let pieces = (0..rows.num_rows()).step_by(7);
        let left: VecDeque<_> =
            pieces.map(|first| rows.slice(first, 7.min(rows.num_rows() - first))).collect();
        Ok(Box::new(Batches { schema: rows.schema(), left }))
    };
    SourceDefinition {
        event_time: Some(EventTime { column: 0, delay_ns: 0 }),
        ordered: true,
        is_finite: true,
        is_repeatable: true,
        ..SourceDefinition::new(name, schema, Arc::new(open))
    }
}

#[derive(Clone, Copy, Debug)]
struct Run {
    workers: usize,
    cycle_events: u32,
}

const RUNS: [Run; 4] = [
    Run { workers: 1, cycle_events: 1_000_000 },
    Run { workers: 3, cycle_events: 50 },
    Run { workers: 2, cycle_events: 7 },
    Run { workers: 5, cycle_events: 300 },
];

/// With fewer runs where they take longer.
fn runs(streams: usize) -> &'static [Run] {
    match streams {
        0..=20 => &RUNS,
        21..=150 => &RUNS[..2],
        _ => &RUNS[1..2],
    }
}

fn planner(streams: &[Vec<Row>], run: Run) -> Planner {
    let mut planner = Planner::new();
    let settings = planner.settings_mut();
    settings.workers = run.workers;
    settings.cycle_events = run.cycle_events;
    settings.cycle_fixed = true;
    settings.partitions = 4;
    for (index, rows) in streams.iter().enumerate() {
        let (name, rows) = (format!("s{index}"), batch(rows));
        let defined = name.clone();
        let generator = move |_: &_| Ok(definition(&defined, rows.clone()));
        planner.register_generator(&format!("{name}_rows"), Generator::new("rows of a test", &[], generator));
        execute(&mut planner, &format!("CREATE VIEW {name} AS SELECT * FROM {name}_rows()"));
    }
    planner
}

fn execute(planner: &mut Planner, sql: &str) -> Reply {
    let statement = parse(sql, "case").unwrap_or_else(|error| panic!("{error}")).remove(0);
    planner.execute(&statement).unwrap_or_else(|error| panic!("{error}"))
}

/// The rows of a query: times in milliseconds, and numbers.
fn answer(sql: &str, streams: &[Vec<Row>], run: Run) -> Vec<Vec<i64>> {
    let Reply::Query(query) = execute(&mut planner(streams, run), sql) else { panic!("it is a query") };
    let mut rows = numbers(&rows_of(*query));
    rows.sort_unstable();
    rows
}

fn rows_of(query: Prepared) -> RecordBatch {
    let mut kept = Vec::new();
    let sinks = query.outputs().iter().map(|output| -> Box<dyn Sink> {
        let (sink, rows) = MemorySink::new(&output.schema, ROWS_MAX);
        kept.push(rows);
        Box::new(sink)
    });
    let sinks = sinks.collect();
    let running =
        query.open(sinks).and_then(|opened| opened.start()).unwrap_or_else(|cause| panic!("{cause}"));
    let begun = Instant::now();
    while !running.has_ended() {
        assert!(begun.elapsed() < END_MAX, "it does not end");
        std::thread::sleep(Duration::from_millis(1));
    }
    let (_, at_end) = running.wait().unwrap_or_else(|cause| panic!("{cause}"));
    at_end.unwrap_or_else(|| kept[0].read().expect("the rows are few"))
}

fn numbers(rows: &RecordBatch) -> Vec<Vec<i64>> {
    let column = |array: &ArrayRef| -> Vec<i64> {
        match array.as_primitive_opt::<TimestampNanosecondType>() {
            Some(times) => times.values().iter().map(|time| time / MS).collect(),
            None => array.as_primitive::<Int64Type>().values().to_vec(),
        }
    };
    let columns: Vec<Vec<i64>> = rows.columns().iter().map(column).collect();
    (0..rows.num_rows()).map(|row| columns.iter().map(|column| column[row]).collect()).collect()
}

/// The streams whose values are selected: some of many.
fn selected(count: usize) -> Vec<usize> {
    (0..count).step_by((count / 9).max(1)).collect()
}

/// Each stream is joined with stream 0, or with the one before it.
fn join(count: usize, is_chain: bool) -> String {
    let values: Vec<String> =
        selected(count).iter().map(|index| format!("s{index}.value AS v{index}")).collect();
    let joined = |index: usize| {
        let other = if is_chain { index - 1 } else { 0 };
        format!(
            " JOIN s{index} ON s{index}.key = s{other}.key AND s{index}.at BETWEEN s{other}.at - INTERVAL '90 \
             milliseconds' AND s{other}.at + INTERVAL '90 milliseconds'"
        )
    };
    let joins: String = (1..count).map(joined).collect();
    format!("SELECT s0.at, s0.key, {} FROM s0{joins}", values.join(", "))
}

/// What the join gives: each combination of rows is built stream by stream.
fn joined(streams: &[Vec<Row>], is_chain: bool) -> Vec<Vec<i64>> {
    let mut combinations: Vec<Vec<Row>> = streams[0].iter().map(|row| vec![*row]).collect();
    for rows in &streams[1..] {
        let mut longer = Vec::new();
        for combination in &combinations {
            let other = if is_chain { combination[combination.len() - 1] } else { combination[0] };
            for row in rows {
                if row.key == other.key && (row.at_ms - other.at_ms).abs() <= 90 {
                    longer.push(combination.iter().copied().chain([*row]).collect());
                }
            }
        }
        combinations = longer;
    }
    let picked = selected(streams.len());
    let row = |combination: &Vec<Row>| {
        let first = combination[0];
        let values = picked.iter().map(|index| combination[*index].value);
        [first.at_ms, first.key].into_iter().chain(values).collect()
    };
    let mut rows: Vec<Vec<i64>> = combinations.iter().map(row).collect();
    rows.sort_unstable();
    rows
}

fn joins_find_what_loops_find(count: usize) {
    for is_chain in [false, true] {
        let streams = streams(count);
        let expected = joined(&streams, is_chain);
        assert!(!expected.is_empty() && expected.len() < 10_000, "{count}: {}", expected.len());
        for run in runs(count) {
            let found = answer(&join(count, is_chain), &streams, *run);
            assert_eq!(found, expected, "{count} streams, chain: {is_chain}, {run:?}");
        }
    }
}

#[test]
fn joins_of_few_streams() {
    joins_find_what_loops_find(2);
    joins_find_what_loops_find(10);
}

#[test]
fn joins_of_a_hundred_streams() {
    joins_find_what_loops_find(100);
}

#[test]
fn joins_of_three_hundred_streams() {
    joins_find_what_loops_find(300);
}

fn union_of(count: usize, operation: &str, columns: &str) -> String {
    let parts: Vec<String> = (0..count).map(|index| format!("SELECT {columns} FROM s{index}")).collect();
    parts.join(&format!(" {operation} "))
}

#[test]
fn unions_are_aggregated_as_loops_do_it() {
    for count in [2, 8, 9, 10, 11, 100, 300] {
        let streams = streams(count);
        let mut groups: BTreeMap<(i64, i64), (i64, i64)> = BTreeMap::new();
        for row in streams.iter().flatten() {
            let (rows, sum) = groups.entry((row.at_ms / 5000 * 5000, row.key)).or_default();
            (*rows, *sum) = (*rows + 1, *sum + row.value);
        }
        let expected: Vec<Vec<i64>> =
            groups.iter().map(|((start, key), (rows, sum))| vec![*start, *key, *rows, *sum]).collect();
        let union = union_of(count, "UNION ALL", "at, key, value");
        let sql = format!(
            "SELECT window_start, key, count(*) AS n, sum(value) AS total \
             FROM tumble(({union}), at, INTERVAL '5 seconds') GROUP BY window_start, key"
        );
        for run in runs(count) {
            assert_eq!(answer(&sql, &streams, *run), expected, "{count} streams, {run:?}");
        }
    }
}

#[test]
fn unions_without_duplicates() {
    for count in [2, 10, 60] {
        let streams = streams(count);
        let mut expected: Vec<Vec<i64>> =
            streams.iter().flatten().map(|row| vec![row.at_ms, row.key]).collect();
        expected.sort_unstable();
        expected.dedup();
        for run in runs(count) {
            let found = answer(&union_of(count, "UNION", "at, key"), &streams, *run);
            assert_eq!(found, expected, "{count} streams, {run:?}");
        }
    }
}

#[test]
fn more_joins_than_a_plan_may_be_deep_are_refused() {
    let join = |count: usize| "SELECT a.b FROM a".to_owned() + &" JOIN a ON b = c".repeat(count);
    parse(&join(500), "many.sql").unwrap();
    let error = parse(&join(501), "many.sql").unwrap_err().to_string();
    assert!(error.contains("there are more than 500 joins"), "{error}");
}
