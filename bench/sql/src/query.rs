//! Runs a query and reports how fast it was.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tidemill_connect::memory::MemorySink;
use tidemill_engine::arrow::array::RecordBatch;
use tidemill_engine::{Counter, Sink};
use tidemill_sql::{Planner, QueryStatus, Reply, StatementKind, parse};

use crate::Options;
use crate::memory;

/// A run: its status and its results.
pub(crate) struct Run {
    pub status: QueryStatus,
    pub rows: RecordBatch,
    pub explained: String,
}

/// Runs a script whose last statement is the query.
pub(crate) fn run(
    batches: &Arc<Vec<RecordBatch>>,
    event_time: Option<usize>,
    script: &str,
    workers: usize,
    options: &Options,
) -> anyhow::Result<Run> {
    let mut planner = Planner::new();
    planner.settings_mut().workers = workers;
    if let Some(events) = options.cycle_events {
        planner.settings_mut().cycle_events = events;
    }
    memory::register(&mut planner, batches, event_time);
    for statement in parse(script, "benchmark").map_err(|error| anyhow!("{error}"))? {
        let reply = planner.execute(&statement).map_err(|error| anyhow!("{error}"))?;
        let Reply::Query(prepared) = reply else {
            anyhow::ensure!(!matches!(statement.kind, StatementKind::Query(..)), "the query does not run");
            continue;
        };
        anyhow::ensure!(!prepared.is_answered_at_end(), "the query does not stream");
        let explained = prepared.explained();
        let (sink, rows) = MemorySink::new(&prepared.outputs()[0].schema, 100_000_000);
        let running = prepared.open(vec![Box::new(sink) as Box<dyn Sink>])?.start()?;
        let (status, _) = running.wait()?;
        let explained = explained.with(&status);
        return Ok(Run { status, rows: rows.read()?, explained });
    }
    Err(anyhow!("the script has no query"))
}

/// Runs it several times with each number of workers, and reports the best and the median.
pub(crate) fn measure(
    batches: &Arc<Vec<RecordBatch>>,
    event_time: Option<usize>,
    script: &str,
    options: &Options,
    reading: Duration,
    check: impl Fn(&RecordBatch) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let events: usize = batches.iter().map(RecordBatch::num_rows).sum();
    println!("{events} events; reading the needed columns takes {reading:?} on one core");
    for workers in &options.workers {
        let mut rates = Vec::new();
        let mut last = None;
        for _ in 0..options.runs.max(1) {
            let run = run(batches, event_time, script, *workers, options)?;
            check(&run.rows).context("the answer is wrong")?;
            rates.push(events as f64 / (run.status.engine.elapsed_ns as f64 / 1e9) / 1e6);
            last = Some(run);
        }
        rates.sort_by(f64::total_cmp);
        let (best, median) = (rates[rates.len() - 1], rates[rates.len() / 2]);
        let reading_rate = events as f64 / reading.as_secs_f64() / 1e6;
        println!(
            "\n{workers} workers: best {best:.1}, median {median:.1} M events/s ({:.3} of reading)",
            best / reading_rate
        );
        if let Some(run) = last {
            let cycles = run.status.engine.get(Counter::CyclesCut);
            let busy_ms = |counter| run.status.engine.get(counter) as f64 / 1e6;
            println!(
                "last run: {cycles} cycles, {:.1} ms; workers: split (with transforms) {:.1} ms, operators {:.1} ms",
                run.status.engine.elapsed_ns as f64 / 1e6,
                busy_ms(Counter::SplitTime),
                busy_ms(Counter::OperatorTime)
            );
            println!("{}", run.explained);
        }
    }
    Ok(())
}
