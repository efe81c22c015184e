//! What a process says about its own queries, its stores and what enters it.

use std::time::Duration;

use crate::Runtime;
use crate::gateways::StatusTables;
use crate::runtime::query_state::QueryState;
use crate::runtime::report::QueryReport;

/// The tables of a runtime of this process, which has this name as a gateway.
pub(crate) fn own_tables(runtime: &Runtime, gateway: &str) -> StatusTables {
    let reports = runtime.reports();
    let place = [gateway.to_owned(), std::process::id().to_string()];
    StatusTables {
        queries: reports.iter().map(query_row).collect(),
        fragments: fragment_rows(runtime, &place),
        gateways: reports.iter().flat_map(|report| gateway_rows(report, &place)).collect(),
    }
}

fn query_row(report: &QueryReport) -> Vec<String> {
    vec![
        report.name.clone(),
        report.state.map_or("starting", QueryState::name).to_owned(),
        report.cycle.map_or(String::new(), |cycle| cycle.to_string()),
        report.lag.cycles.to_string(),
        format!("{:.3}", report.lag.oldest_ns as f64 / 1e9),
        report.reason(),
    ]
}

fn fragment_rows(runtime: &Runtime, place: &[String; 2]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for view in runtime.running_views() {
        for (fragment, found) in view.store().fragments().into_iter().enumerate() {
            let (oldest, newest) = found
                .cycles
                .map_or_else(Default::default, |(oldest, newest)| (oldest.to_string(), newest.to_string()));
            let held = found.statistics;
            let row = [
                view.name().to_owned(),
                fragment.to_string(),
                held.rows.to_string(),
                held.bytes.to_string(),
                held.index_bytes.to_string(),
                held.chunks.to_string(),
                oldest,
                newest,
                held.rows_dropped.to_string(),
            ];
            rows.push(row.into_iter().chain(place.clone()).collect());
        }
    }
    rows
}

/// A row for each source of a query that has started: a source is read once, and each query works through its cycles at its own
/// pace.
fn gateway_rows(report: &QueryReport, place: &[String; 2]) -> Vec<Vec<String>> {
    let Some(status) = &report.status else { return Vec::new() };
    let (engine, cycles) = (&status.engine, &status.engine.per_cycle);
    let seconds = engine.elapsed_ns as f64 / 1e9;
    let of_cycles = |time: Duration| match cycles.count() {
        0 => String::new(),
        _ => milliseconds(time),
    };
    let mut rows = Vec::new();
    for (source, feed) in &status.sources {
        let rate = if seconds > 0.0 { feed.rows as f64 / seconds } else { 0.0 };
        let row = [
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
        ];
        rows.push(row.into_iter().chain(place.clone()).collect());
    }
    rows
}

fn milliseconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1e3)
}
