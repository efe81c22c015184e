//! Views whose rows come and go, against DuckDB: after each checked cycle, a view has the rows that the same query has over what its
//! tables have by then.
//!
//! One log of changes feeds two tables with a key, whose rows are replaced, and a stream. Random queries, nested in each other, read them
//! all. The cycles have fixed sizes, so a prefix of the log is known after each. The long form:
//!
//!     TIDEMILL_CHANGES_SEED=7 TIDEMILL_CHANGES_QUERIES=2000 cargo test --release -p tidemill-sql --test integration changing_views

mod log;
mod query;

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use tidemill_engine::{Cause, Source};
use tidemill_sql::{Generator, Planner, Reply, SourceDefinition, ViewHandle, parse};
use tidemill_testing::duckdb::{DuckDb, Value};
use tidemill_testing::random::Random;

use crate::memory_source::Batches;
use log::{DEFINITIONS, Entry, entries, tables_for_duckdb};

/// Workers and events in a cycle.
const RUNS: [(usize, u32); 3] = [(1, 7), (2, 31), (5, 100)];
/// Random queries, unless `TIDEMILL_CHANGES_QUERIES` says how many.
const QUERIES: u64 = 60;
/// Cycles of a run in which a view is compared.
const CYCLES: usize = 4;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

fn execute(planner: &mut Planner, sql: &str) -> Result<Reply, String> {
    let statements = parse(sql, "case").unwrap_or_else(|error| panic!("{error}"));
    let [statement] = statements.as_slice() else { panic!("one statement: {sql}") };
    planner.execute(statement).map_err(|error| error.to_string())
}

/// A planner with the tables over a log.
fn planner(log: &[Entry], (workers, events): (usize, u32)) -> Planner {
    let mut planner = Planner::new();
    let settings = planner.settings_mut();
    (settings.workers, settings.cycle_events, settings.cycle_fixed) = (workers, events, true);
    let rows = log::batch(log);
    let schema = rows.schema();
    let open = move |columns: Option<&[usize]>| -> Result<Box<dyn Source>, Cause> {
        let rows = columns.map_or(rows.clone(), |columns| rows.project(columns).unwrap());
        Ok(Box::new(Batches { schema: rows.schema(), left: [rows].into() }))
    };
    // It does not say that it ends: it would be read as a table.
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

/// The view of a query when its input has ended, and one with a row for each entry.
fn views(sql: &str, log: &[Entry], run: (usize, u32)) -> Result<(ViewHandle, ViewHandle), String> {
    let mut planner = planner(log, run);
    execute(&mut planner, &format!("CREATE MATERIALIZED VIEW checked AS {}", query::ours(sql)))?;
    let opened = planner.pipeline_of(&["checked", "seen"]).and_then(|pipeline| pipeline.open());
    let running = opened.and_then(|opened| opened.start()).unwrap_or_else(|cause| panic!("{cause}\n{sql}"));
    let view = |name: &str| running.views().iter().find(|view| view.name() == name).unwrap().clone();
    let views = (view("checked"), view("seen"));
    running.wait().unwrap_or_else(|cause| panic!("{cause}\n{sql}"));
    Ok(views)
}

/// How many entries had come by a cycle.
fn entries_until(seen: &ViewHandle, cycle: u64) -> usize {
    let has_version = seen.store().cycles().is_some_and(|(first, _)| first <= cycle);
    if has_version { seen.store().as_of_cycle(cycle).unwrap().read().unwrap().num_rows() } else { 0 }
}

/// The rows as lines, sorted.
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

fn text_of(value: &Value) -> &str {
    match value {
        Value::Null => "NULL",
        Value::Text(text) => text,
        other => panic!("all columns are texts, but not {other}"),
    }
}

fn expected(duckdb: &mut DuckDb, sql: &str) -> Result<Vec<String>, String> {
    let text = format!(
        "SELECT CAST(x AS VARCHAR), CAST(y AS VARCHAR), z FROM ({}) AS checked",
        query::for_duckdb(sql)
    );
    let rows = duckdb.answer(&text)?;
    let mut lines: Vec<String> =
        rows.iter().map(|row| row.iter().map(text_of).collect::<Vec<_>>().join(" | ")).collect();
    lines.sort();
    Ok(lines)
}

/// What is wrong with a view of a query, if anything is; `Err` if it is refused.
fn fault(sql: &str, log: &[Entry], duckdb: &mut DuckDb) -> Result<Option<String>, String> {
    for run in RUNS {
        let (view, seen) = views(sql, log, run)?;
        let cycles = log.len().div_ceil(run.1 as usize);
        let step = cycles.div_ceil(CYCLES).max(1);
        let checked = (0..cycles).rev().step_by(step);
        for cycle in checked {
            // Constants of the query are rows of a cycle, too.
            let known = &log[..entries_until(&seen, cycle as u64)];
            duckdb.run(&tables_for_duckdb(known));
            let Ok(wanted) = expected(duckdb, sql) else { return Ok(None) };
            let has_version = view.store().cycles().is_some_and(|(first, _)| first <= cycle as u64);
            // Before the first cycle that has changed something, it has no rows.
            let found = if has_version {
                let version = view.store().as_of_cycle(cycle as u64);
                lines(
                    &version
                        .and_then(|version| version.read())
                        .unwrap_or_else(|cause| panic!("{cause}\n{sql}")),
                )
            } else {
                Vec::new()
            };
            if found != wanted {
                return Ok(Some(format!(
                    "{sql}\n{run:?} after cycle {cycle} of {cycles}, {} entries\n\
                     found:  {found:#?}\nwanted: {wanted:#?}",
                    known.len()
                )));
            }
        }
    }
    Ok(None)
}

/// The shortest prefix of a log over which the answer is still wrong.
fn smallest(sql: &str, log: &[Entry], duckdb: &mut DuckDb) -> String {
    let mut log = log.to_vec();
    let mut said = String::new();
    let mut size = log.len().div_ceil(2);
    while size > 0 {
        let mut start = 0;
        while start < log.len() {
            let mut shorter = log.clone();
            shorter.drain(start..(start + size).min(log.len()));
            match fault(sql, &shorter, duckdb) {
                Ok(Some(fault)) => (log, said) = (shorter, fault),
                _ => start += size,
            }
        }
        size /= 2;
    }
    format!("{said}\nover {log:#?}")
}

#[test]
fn random_queries() {
    let Some(mut duckdb) = DuckDb::start() else { return };
    let seed = number("TIDEMILL_CHANGES_SEED").unwrap_or(1);
    let queries = number("TIDEMILL_CHANGES_QUERIES").unwrap_or(QUERIES);
    let only = number("TIDEMILL_CHANGES_QUERY");
    println!("{queries} queries, TIDEMILL_CHANGES_SEED={seed}");
    let (mut refused, mut faults): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for at in (0..queries).filter(|at| only.is_none_or(|only| only == *at)) {
        let mut random = Random::of_stream(seed, at);
        let sql = query::random(&mut random);
        let size = random.one_of(&[0, 1, 12, 60, 200]);
        let log = entries(&mut random, size);
        match fault(&sql, &log, &mut duckdb) {
            Ok(None) => {}
            Ok(Some(_)) => {
                faults.push(format!("TIDEMILL_CHANGES_QUERY={at}: {}", smallest(&sql, &log, &mut duckdb)));
            }
            Err(error) => refused.push(format!("{error}\n{sql}")),
        }
        if faults.len() == 3 {
            break;
        }
    }
    println!("{} refused\n{}", refused.len(), refused.join("\n"));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(refused.len() as u64 * 10 <= queries, "too many are refused");
}
