//! Views with conditions on `now()` against DuckDB: after each checked cycle, a view has the rows that the same query has over what its
//! tables have by then, with `now()` at the closing time of the cycle.
//!
//! A log of changes comes slowly, so that rows come in and leave between its rows, in cycles that are closed for them. A second view keeps
//! the closing time of each row's cycle, which tells DuckDB the time.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::cast::AsArray;
use datafusion::arrow::array::types::{Int64Type, TimestampNanosecondType};
use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use tidemill_engine::{Cause, Polled, Source};
use tidemill_sql::{Generator, Planner, Reply, SourceDefinition, ViewHandle, parse};
use tidemill_testing::duckdb::{DuckDb, Value};
use tidemill_testing::random::Random;

/// One table with a key, whose rows are replaced, and a stream.
const DEFINITIONS: [&str; 4] = [
    "CREATE VIEW log AS SELECT * FROM log_rows()",
    "CREATE MATERIALIZED VIEW t PRIMARY KEY (id) AS
     SELECT id, k, CAST(to_timestamp_nanos(stamp) AS TIMESTAMP) AS stamp FROM log WHERE into = 1",
    "CREATE VIEW s AS SELECT id, k, CAST(to_timestamp_nanos(stamp) AS TIMESTAMP) AS stamp FROM log WHERE into = 2",
    "CREATE MATERIALIZED VIEW times AS SELECT place, now() AS closed FROM log WITH (retain_versions = 100000)",
];

/// Queries with columns that are numbers or texts; `NOW` is the time.
const QUERIES: [&str; 24] = [
    "SELECT id, k FROM s WHERE stamp > NOW - INTERVAL '20 milliseconds'",
    "SELECT id, k FROM s WHERE stamp >= NOW - INTERVAL '20 milliseconds'",
    "SELECT id, k FROM s WHERE stamp < NOW - INTERVAL '10 milliseconds'",
    "SELECT id, k FROM s WHERE NOW - INTERVAL '10 milliseconds' >= stamp",
    "SELECT id, k FROM t WHERE stamp > NOW - INTERVAL '20 milliseconds'",
    "SELECT id, k FROM t WHERE NOT stamp > NOW - INTERVAL '20 milliseconds'",
    "SELECT id, k FROM s WHERE stamp + INTERVAL '15 milliseconds' > NOW",
    "SELECT id, k FROM s WHERE stamp <= NOW AND stamp + k * INTERVAL '10 milliseconds' > NOW",
    "SELECT id, k FROM s
     WHERE stamp BETWEEN NOW - INTERVAL '30 milliseconds' AND NOW + INTERVAL '5 milliseconds'",
    "SELECT id, k FROM s WHERE NOW BETWEEN stamp AND stamp + INTERVAL '25 milliseconds'",
    "SELECT id, k FROM t
     WHERE NOW NOT BETWEEN stamp - INTERVAL '5 milliseconds' AND stamp + INTERVAL '25 milliseconds'",
    "SELECT id, k FROM s WHERE stamp > NOW - INTERVAL '20 milliseconds' OR k = 1",
    "SELECT id, k FROM s
     WHERE k > 0 AND (stamp > NOW - INTERVAL '20 milliseconds' OR stamp < NOW - INTERVAL '40 milliseconds')",
    "SELECT id, k FROM s WHERE (stamp > NOW) IS NOT TRUE",
    "SELECT id, k FROM t WHERE NOW - stamp < INTERVAL '20 milliseconds'",
    "SELECT id, k FROM t WHERE INTERVAL '20 milliseconds' >= NOW - stamp",
    "SELECT id, k FROM s WHERE stamp - NOW > INTERVAL '-20 milliseconds'",
    "SELECT k, count(*), max(id) FROM s WHERE stamp > NOW - INTERVAL '20 milliseconds' GROUP BY k",
    "SELECT k, count(*) FROM t WHERE stamp > NOW - INTERVAL '20 milliseconds' GROUP BY k HAVING count(*) > 1",
    "SELECT k, count(*) FROM s GROUP BY k HAVING max(stamp) > NOW - INTERVAL '20 milliseconds'",
    "SELECT a.id, b.k FROM s AS a JOIN t AS b ON a.k = b.k AND b.stamp > NOW - INTERVAL '25 milliseconds'",
    "SELECT a.id, b.k FROM s AS a JOIN t AS b ON a.k = b.k AND a.stamp + b.k * INTERVAL '10 milliseconds' > NOW",
    "SELECT a.id, b.k FROM s AS a LEFT JOIN t AS b ON a.k = b.k AND b.stamp > NOW - INTERVAL '25 milliseconds'",
    "SELECT id, k FROM t
     WHERE k NOT IN (SELECT k FROM s WHERE k IS NOT NULL AND stamp > NOW - INTERVAL '20 milliseconds')",
];

/// Conditions that are constant for hours, and change stamp midnight: the form is what counts.
const DAYS: [&str; 6] = [
    "SELECT id, k FROM s WHERE CAST(stamp AS DATE) >= current_date - INTERVAL '1 day'",
    "SELECT id, k FROM s WHERE CAST(stamp AS DATE) = current_date",
    "SELECT id, k FROM s WHERE stamp >= date_trunc('day', now())",
    "SELECT id, k FROM s WHERE date_trunc('month', stamp) = date_trunc('month', current_timestamp)",
    "SELECT id, k FROM s WHERE stamp + INTERVAL '1 month' > now()",
    "SELECT id, k FROM s WHERE stamp > current_date",
];

/// What has no moments that are known when a row comes.
const REFUSED: [&str; 8] = [
    "SELECT id FROM s WHERE date_part('second', now()) < 30",
    "SELECT id FROM s WHERE stamp > now() - INTERVAL '1 month'",
    "SELECT id FROM s WHERE extract(epoch FROM now()) * k > 5",
    "SELECT id, now() - stamp AS age FROM s WHERE stamp > now() - INTERVAL '1 minute'",
    "SELECT count(*) FILTER (WHERE stamp > now() - INTERVAL '1 minute') FROM s",
    "SELECT id, now() FROM t WHERE k > 1",
    "SELECT a.id FROM s AS a LEFT JOIN t AS b ON a.k = b.k AND a.stamp > now() - INTERVAL '1 minute'",
    "SELECT id FROM s WHERE now() > now() - k * INTERVAL '1 minute'",
];

/// A row for one of the tables.
#[derive(Clone, Debug)]
struct Entry {
    into: i64,
    id: i64,
    k: Option<i64>,
    at: Option<i64>,
}

/// Gives a batch every few milliseconds, then waits a while, and ends.
struct Slow {
    schema: SchemaRef,
    left: VecDeque<RecordBatch>,
}

impl Source for Slow {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn poll(&mut self, _wait: Duration) -> Result<Polled, Cause> {
        std::thread::sleep(Duration::from_millis(4));
        Ok(self.left.pop_front().map_or(Polled::Ended, Polled::Rows))
    }

    fn is_finite(&self) -> bool {
        true
    }
}

fn execute(planner: &mut Planner, sql: &str) -> Result<Reply, String> {
    let statements = parse(sql, "case").unwrap_or_else(|error| panic!("{error}"));
    let [statement] = statements.as_slice() else { panic!("one statement: {sql}") };
    planner.execute(statement).map_err(|error| error.to_string())
}

fn now_ns() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    since.as_nanos() as i64
}

/// Entries whose times are around those at which they come.
fn entries(random: &mut Random, start_ns: i64) -> Vec<Entry> {
    let entry = |place: i64| Entry {
        into: 1 + random.below(2) as i64,
        id: random.below(8) as i64,
        k: (!random.is_once_in(6)).then(|| random.below(5) as i64 - 1),
        at: (!random.is_once_in(8)).then(|| start_ns + (place + random.below(60) as i64 - 30) * 1_000_000),
    };
    (0..60).map(entry).collect()
}

fn batches(log: &[Entry]) -> Vec<RecordBatch> {
    let batch = |(part, log): (usize, &[Entry])| {
        let numbers = |value: &dyn Fn((usize, &Entry)) -> Option<i64>| {
            Arc::new(log.iter().enumerate().map(value).collect::<Int64Array>()) as ArrayRef
        };
        RecordBatch::try_from_iter_with_nullable([
            ("place", numbers(&|(at, _)| Some((part * 3 + at) as i64)), true),
            ("into", numbers(&|(_, entry)| Some(entry.into)), true),
            ("id", numbers(&|(_, entry)| Some(entry.id)), true),
            ("k", numbers(&|(_, entry)| entry.k), true),
            ("stamp", numbers(&|(_, entry)| entry.at), true),
        ])
        .unwrap()
    };
    log.chunks(3).enumerate().map(batch).collect()
}

fn planner(log: &[Entry], workers: usize) -> Planner {
    let mut planner = Planner::new();
    planner.settings_mut().workers = workers;
    let batches = batches(log);
    let schema = batches[0].schema();
    let open = move |columns: Option<&[usize]>| -> Result<Box<dyn Source>, Cause> {
        let project =
            |batch: &RecordBatch| columns.map_or(batch.clone(), |columns| batch.project(columns).unwrap());
        let left: VecDeque<RecordBatch> = batches.iter().map(project).collect();
        Ok(Box::new(Slow { schema: left[0].schema(), left }))
    };
    let definition =
        SourceDefinition { is_finite: false, ..SourceDefinition::new("log", schema, Arc::new(open)) };
    planner.register_generator(
        "log_rows",
        Generator::new("rows of a test", &[], move |_| Ok(definition.clone())),
    );
    for definition in DEFINITIONS {
        execute(&mut planner, definition).unwrap_or_else(|error| panic!("{error}\n{definition}"));
    }
    planner
}

/// The view of a query, and that of the times, when their input has ended.
fn views(sql: &str, log: &[Entry], workers: usize) -> (ViewHandle, ViewHandle) {
    let mut planner = planner(log, workers);
    let create = format!("CREATE MATERIALIZED VIEW checked AS {sql} WITH (retain_versions = 100000)");
    let created = execute(&mut planner, &create);
    created.unwrap_or_else(|error| panic!("{error}\n{sql}"));
    let opened = planner.pipeline_of(&["checked", "times"]).and_then(|pipeline| pipeline.open());
    let running = opened.and_then(|opened| opened.start()).unwrap_or_else(|cause| panic!("{cause}\n{sql}"));
    let view = |name: &str| running.views().iter().find(|view| view.name() == name).unwrap().clone();
    let views = (view("checked"), view("times"));
    running.wait().unwrap_or_else(|cause| panic!("{cause}\n{sql}"));
    views
}

fn lines(rows: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<_> =
        rows.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    let line =
        |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(" | ");
    let mut lines: Vec<String> = (0..rows.num_rows()).map(line).collect();
    lines.sort();
    lines
}

/// DuckDB's timestamps have microseconds, so times are numbers there, and intervals too.
fn tables(log: &[Entry]) -> String {
    let mut script = String::new();
    for (number, name) in [(1, "t"), (2, "s")] {
        let mine: Vec<&Entry> = log.iter().filter(|entry| entry.into == number).collect();
        let is_last = |at: usize| number == 2 || mine[at + 1..].iter().all(|later| later.id != mine[at].id);
        let number_of = |value: Option<i64>| value.map_or("NULL".to_owned(), |value| value.to_string());
        let rows = mine.iter().enumerate().filter(|(at, _)| is_last(*at));
        let rows =
            rows.map(|(_, entry)| format!("({}, {}, {})", entry.id, number_of(entry.k), number_of(entry.at)));
        let rows: Vec<String> = rows.collect();
        let _ = write!(script, "CREATE OR REPLACE TABLE {name} (id BIGINT, k BIGINT, stamp BIGINT);");
        if !rows.is_empty() {
            let _ = write!(script, "INSERT INTO {name} VALUES {};", rows.join(", "));
        }
    }
    script + "SELECT 1"
}

/// The query with times as numbers of nanoseconds.
fn in_nanoseconds(sql: &str, now_ns: i64) -> String {
    let mut text = sql.replace("NOW", &now_ns.to_string());
    while let Some(start) = text.find("INTERVAL '") {
        let length = &text[start + 10..];
        let end = length.find('\'').unwrap();
        let count: i64 = length[..end].split(' ').next().unwrap().parse().unwrap();
        text = format!("{}{}{}", &text[..start], count * 1_000_000, &length[end + 1..]);
    }
    text
}

fn text_of(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Text(text) => text.clone(),
        other => panic!("all columns are texts, but not {other}"),
    }
}

fn expected(duckdb: &mut DuckDb, sql: &str, now_ns: i64) -> Vec<String> {
    let text =
        format!("SELECT CAST(COLUMNS(*) AS VARCHAR) FROM ({}) AS checked", in_nanoseconds(sql, now_ns));
    let rows = duckdb.answer(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut lines: Vec<String> =
        rows.iter().map(|row| row.iter().map(text_of).collect::<Vec<_>>().join(" | ")).collect();
    lines.sort();
    lines
}

/// For each cycle with rows: its number, how many entries there are by then, and when it was closed.
fn cycles(times: &ViewHandle) -> Vec<(u64, usize, i64)> {
    let Some((first, last)) = times.store().cycles() else { return Vec::new() };
    let mut cycles: Vec<(u64, usize, i64)> = Vec::new();
    for cycle in first..=last {
        let rows = times.store().as_of_cycle(cycle).unwrap().read().unwrap();
        let places = rows.column(0).as_primitive::<Int64Type>();
        let closed = rows.column(1).as_primitive::<TimestampNanosecondType>();
        let known = (places.len(), closed.iter().flatten().max().unwrap_or(0));
        if cycles.last().is_none_or(|(_, count, _)| *count < known.0) {
            cycles.push((cycle, known.0, known.1));
        }
    }
    cycles
}

#[test]
fn a_view_has_the_rows_of_the_time_of_its_cycle() {
    let Some(mut duckdb) = DuckDb::start() else { return };
    let mut compared = 0;
    for (number, sql) in QUERIES.iter().enumerate() {
        let mut random = Random::of_stream(11, number as u64);
        let log = entries(&mut random, now_ns());
        let (checked, times) = views(&sql.replace("NOW", "now()"), &log, [1, 2, 5][number % 3]);
        let cycles = cycles(&times);
        assert!(cycles.len() > 5, "the log came in too few cycles: {cycles:?}");
        for (cycle, known, closed_ns) in cycles {
            duckdb.run(&tables(&log[..known]));
            let wanted = expected(&mut duckdb, sql, closed_ns);
            let is_there = checked.store().cycles().is_some_and(|(first, _)| first <= cycle);
            let found = if is_there {
                lines(&checked.store().as_of_cycle(cycle).unwrap().read().unwrap())
            } else {
                Vec::new()
            };
            assert_eq!(
                found,
                wanted,
                "{sql}\nafter cycle {cycle}, closed at {closed_ns}, of {:#?}",
                &log[..known]
            );
            compared += wanted.len();
        }
    }
    assert!(compared > 1000, "{compared} rows were compared");
}

#[test]
fn what_changes_at_midnight_is_kept_too() {
    let log = entries(&mut Random::of_stream(12, 0), now_ns());
    for sql in DAYS {
        let (checked, _) = views(sql, &log, 2);
        let rows = checked.read().unwrap();
        let wanted = log.iter().filter(|entry| entry.into == 2 && entry.at.is_some()).count();
        // All times are within a second of now, so of today but for one second a day.
        assert!(sql.ends_with("current_date") || rows.num_rows() == wanted, "{sql}");
    }
}

#[test]
fn explain_and_create_accept_the_same() {
    let log = entries(&mut Random::of_stream(13, 0), now_ns());
    let mut planner = planner(&log, 1);
    for sql in QUERIES.iter().chain(&DAYS).chain(&REFUSED) {
        let sql = sql.replace("NOW", "now()");
        let create = format!("CREATE MATERIALIZED VIEW tried AS {sql}");
        let explained = execute(&mut planner, &format!("EXPLAIN {create}"));
        let created = execute(&mut planner, &create);
        let is_refused = REFUSED.contains(&sql.as_str());
        assert_eq!(explained.is_err(), is_refused, "{sql}: {:?}", explained.err());
        assert_eq!(
            created.as_ref().err().map(|error| error.contains("now() advances")),
            is_refused.then_some(true),
            "{sql}: {:?}",
            created.err()
        );
        if !is_refused {
            execute(&mut planner, "DROP MATERIALIZED VIEW tried").unwrap();
        }
    }
}
