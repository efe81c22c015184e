//! `SHOW GATEWAYS`: what enters where, and how long the cycles take that bring it to a query's sinks.

use std::time::Duration;

use tidemill_service::QueryReport;

/// What `SHOW GATEWAYS` tells.
pub(super) const GATEWAY_COLUMNS: [&str; 12] = [
    "source",
    "query",
    "rows",
    "rows_per_second",
    "bytes",
    "cycles",
    "cycle_ms_mean",
    "cycle_ms_p50",
    "cycle_ms_p99",
    "cycle_ms_max",
    "cycle_ms_max_mean_of_1000",
    "held_back_seconds",
];

/// A row for each source of each query that has started: a source is read once, and each query works through its cycles at
/// its own pace.
pub(super) fn gateways(reports: &[QueryReport]) -> Vec<[String; GATEWAY_COLUMNS.len()]> {
    let mut rows = Vec::new();
    for (report, status) in reports.iter().filter_map(|report| Some((report, report.status.as_ref()?))) {
        let (engine, cycles) = (&status.engine, &status.engine.per_cycle);
        let seconds = engine.elapsed_ns as f64 / 1e9;
        let of_cycles = |time: Duration| match cycles.count() {
            0 => String::new(),
            _ => milliseconds(time),
        };
        for (source, feed) in &status.sources {
            let rate = if seconds > 0.0 { feed.rows as f64 / seconds } else { 0.0 };
            rows.push([
                source.clone(),
                report.name.clone(),
                feed.rows.to_string(),
                format!("{rate:.1}"),
                feed.bytes.to_string(),
                cycles.count().to_string(),
                of_cycles(cycles.mean()),
                of_cycles(cycles.quantile(0.5)),
                of_cycles(cycles.quantile(0.99)),
                of_cycles(cycles.max()),
                engine.largest_mean_of_1000.map_or(String::new(), milliseconds),
                format!("{:.3}", feed.held_back.as_secs_f64()),
            ]);
        }
    }
    rows
}

fn milliseconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1e3)
}
