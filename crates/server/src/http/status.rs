//! What runs, for programs: the console, `tidemill status`, `tidemill top`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tidemill_engine::{Counter, Faults, FeedStatus, ResponseTimes};
use tidemill_service::{Dataflow, PartKind, QueryReport};
use tidemill_sql::QueryStatus;

use super::metrics::families::BUCKETS;
use super::metrics::{STATES, shortened, watermark_seconds};
use super::shared::HttpState;

/// The whole status.
pub(super) fn json(shared: &HttpState) -> Value {
    let reports = shared.runtime.get().map(|runtime| runtime.reports());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "time_ms": now.as_millis() as u64,
        "uptime_ms": shared.started.elapsed().as_millis() as u64,
        "starting": reports.is_none(),
        "queries": reports.iter().flatten().map(query).collect::<Vec<_>>(),
    })
}

fn query(report: &QueryReport) -> Value {
    let state = STATES.iter().find(|(_, state)| *state == report.state);
    let mut query = json!({
        "name": report.name,
        "state": state.map(|(word, _)| word),
        "outputs": report.outputs,
        "problem": report.problem,
        "kept": report.kept,
        "bound_ms": report.max_latency.map(milliseconds),
    });
    if let (Some(status), Value::Object(fields)) = (&report.status, &mut query)
        && let Value::Object(more) = progress(report, status)
    {
        fields.extend(more);
    }
    query
}

fn progress(report: &QueryReport, status: &QueryStatus) -> Value {
    let engine = &status.engine;
    let counters: serde_json::Map<String, Value> =
        Counter::ALL.iter().map(|counter| (counter.name().to_owned(), json!(engine.get(*counter)))).collect();
    let watermarks = engine.watermarks.iter().copied().map(Some).chain(std::iter::repeat(None));
    let sources = status.sources.iter().zip(watermarks);
    let within = report.max_latency.filter(|_| engine.per_event.count() > 0);
    json!({
        "elapsed_ms": engine.elapsed_ns / 1_000_000,
        "waiting": status.outages,
        "workers": engine.workers,
        "rows_in": status.rows_in(),
        "bytes_in": status.sources.iter().map(|(_, feed)| feed.bytes).sum::<u64>(),
        "rows_out": engine.get(Counter::RowsOut),
        "cycle": report.cycle,
        "lag_cycles": report.lag.cycles,
        "lag_ms": report.lag.oldest_ns as f64 / 1e6,
        "late": status.late,
        "skipped": status.skipped,
        "bad": faults(&status.faults),
        "refused": faults(&status.refused),
        "null_results": faults(&status.null_results),
        "counters": counters,
        "response": times(&engine.per_event),
        "cycle_times": times(&engine.per_cycle),
        "cycle_max_mean_of_1000_ms": engine.largest_mean_of_1000.map(milliseconds),
        "within_bound": within.map(|bound| engine.per_event.share_within(bound)),
        "sources": sources.map(|((name, feed), watermark)| source(name, feed, watermark)).collect::<Vec<_>>(),
        "sinks": engine.sinks.iter().map(|sink| json!({
            "name": sink.name,
            "cycles_committed": sink.cycles_committed,
            "cycles_waiting": sink.cycles_waiting,
            "idle_ms": sink.idle_ns as f64 / 1e6,
        })).collect::<Vec<_>>(),
        "dataflow": dataflow(&report.dataflow, status),
    })
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn faults(faults: &Faults) -> Value {
    json!({ "count": faults.count, "samples": faults.samples })
}

/// Times since the start, with the counts up to each bound: differences of two moments give the times in between.
fn times(times: &ResponseTimes) -> Value {
    let within: Vec<_> =
        BUCKETS.iter().map(|bound| (milliseconds(*bound), times.count_within(*bound))).collect();
    let quantile = |share| (times.count() > 0).then(|| milliseconds(times.quantile(share)));
    json!({
        "count": times.count(),
        "p50_ms": quantile(0.5),
        "p90_ms": quantile(0.9),
        "p99_ms": quantile(0.99),
        "max_ms": (times.count() > 0).then(|| milliseconds(times.max())),
        "within_ms": within,
    })
}

fn source(name: &str, feed: &FeedStatus, watermark_ns: Option<i64>) -> Value {
    json!({
        "name": name,
        "rows": feed.rows,
        "bytes": feed.bytes,
        "late": feed.late,
        "skipped": feed.skipped,
        "bad": feed.faults.count,
        "held_back_ms": milliseconds(feed.held_back),
        "ended": feed.ended,
        "done": feed.progress.done,
        "total": feed.progress.total,
        "watermark_s": watermark_ns.and_then(watermark_seconds),
    })
}

fn dataflow(dataflow: &Dataflow, status: &QueryStatus) -> Value {
    let work = &status.engine.work;
    let parts = dataflow.parts.iter().map(|part| {
        let kind = match part.kind {
            PartKind::Source => "source",
            PartKind::Transform => "transform",
            PartKind::Operator => "operator",
            PartKind::Sink => "sink",
        };
        let work = part.work.and_then(|index| work.get(index));
        json!({
            "name": shortened(work.map_or(&part.name, |work| &work.name)),
            "kind": kind,
            "partitions": part.partitions,
            "busy_ms": work.map(|work| work.time_ns as f64 / 1e6),
            "rows_in": work.map(|work| work.rows_in),
            "rows_out": work.map(|work| work.rows_out),
            "state_bytes": work.map(|work| work.state_bytes),
            "by_worker_ms": work.map(|work| by_worker(&work.by_worker_ns)),
            "running_ms": work.map(|work| work.running_ns as f64 / 1e6),
        })
    });
    json!({
        "parts": parts.collect::<Vec<_>>(),
        "edges": dataflow.edges,
        "busiest": busiest(dataflow, status),
    })
}

fn by_worker(time_ns: &[u64]) -> Vec<f64> {
    time_ns.iter().map(|time_ns| *time_ns as f64 / 1e6).collect()
}

/// The part on which the workers spent most of their time; `None` if nothing was measured.
fn busiest(dataflow: &Dataflow, status: &QueryStatus) -> Option<usize> {
    let time_ns = |index: Option<usize>| status.engine.work.get(index?).map(|work| work.time_ns);
    let measured =
        dataflow.parts.iter().enumerate().filter_map(|(number, part)| Some((number, time_ns(part.work)?)));
    measured.filter(|(_, time_ns)| *time_ns > 0).max_by_key(|(_, time_ns)| *time_ns).map(|(number, _)| number)
}
