//! What runs, in numbers.

pub(super) mod exposition;
pub(super) mod families;
pub(super) mod gateway_metrics;
pub(super) mod otlp;
pub(super) mod otlp_exporter;

use std::collections::BTreeMap;
use std::time::Instant;

use hyper::StatusCode;
use hyper::header::HeaderValue;
use tidemill_engine::{Counter, PoolStatus};
use tidemill_service::{QueryReport, QueryState, Runtime, StatusTables};
use tidemill_sql::{QueryStatus, StoreStatistics, ViewHandle};

use self::families::{Families, MetricKind};
use self::gateway_metrics::gateways;
use super::answer::{Answer, computed, whole};
use super::shared::HttpState;

use MetricKind::{Counter as Total, Gauge, Histogram};

/// The format in which Prometheus reads metrics.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// A query with its progress, under a name that no other one has.
struct Shown<'a> {
    name: String,
    report: &'a QueryReport,
    status: &'a QueryStatus,
}

/// All metrics, for Prometheus.
pub(super) async fn answer(shared: &HttpState) -> Answer {
    let (started, runtime) = (shared.started, shared.runtime.get().cloned());
    // Gateways may take their time.
    let text = move || exposition::text(&families(started, runtime.as_ref()));
    match computed(text, "the metrics could not be collected").await {
        Ok(text) => whole(StatusCode::OK, TEXT, text),
        Err(refusal) => refusal.answer(),
    }
}

/// All metrics. Each family lists all queries, because samples of a family must follow each other.
pub(super) fn families(started: Instant, runtime: Option<&Runtime>) -> Families {
    let mut families = Families::default();
    let version = env!("CARGO_PKG_VERSION");
    families
        .family("tidemill_info", Gauge, "The version of Tidemill.")
        .sample(&[("version", version)], 1_u64);
    let uptime = started.elapsed().as_secs_f64();
    families
        .family("tidemill_uptime_seconds", Gauge, "Time since the start of the server.")
        .sample(&[], uptime);
    let Some(runtime) = runtime else { return families };
    families
        .family("tidemill_unread_bytes", Gauge, "Bytes of answers that clients have not read yet.")
        .sample(&[], runtime.unread_bytes());
    let reports = runtime.reports();
    let names = unique(reports.iter().map(|report| report.name.as_str()));
    let state = families.family(
        "tidemill_query_state",
        Gauge,
        "1 for the state that a query is in, 0 for the others.",
    );
    for (name, report) in names.iter().zip(&reports) {
        for (word, is_in) in STATES.iter().map(|(word, state)| (*word, report.state == *state)) {
            state.sample(&[("query", name), ("state", word)], u8::from(is_in));
        }
    }
    let shown: Vec<Shown<'_>> = names
        .into_iter()
        .zip(&reports)
        .filter_map(|(name, report)| Some(Shown { name, report, status: report.status.as_ref()? }))
        .collect();
    counters(&mut families, &shown);
    left_out(&mut families, &shown);
    times(&mut families, &shown);
    sources(&mut families, &shown);
    sinks(&mut families, &shown);
    parts(&mut families, &shown);
    views(&mut families, &runtime.running_views());
    pools(&mut families, &runtime.catalog().pools());
    let names = runtime.gateway_names();
    // The tables hold what was shown above once more, and are for what gateways say.
    let tables = if names.is_empty() { StatusTables::default() } else { runtime.status_tables() };
    gateways(&mut families, &names, &tables);
    families
}

/// The states of a query, and their words.
pub(super) const STATES: [(&str, Option<QueryState>); 6] = [
    ("starting", None),
    ("running", Some(QueryState::Running)),
    ("ending", Some(QueryState::Ending)),
    ("ended", Some(QueryState::Ended)),
    ("stopped", Some(QueryState::Stopped)),
    ("failed", Some(QueryState::Failed)),
];

/// Names of which none occurs twice: the second one of a name gets a number.
fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let number = |name: &'a str| {
        let count = seen.entry(name).or_default();
        *count += 1;
        if *count == 1 { name.to_owned() } else { format!("{name}#{count}") }
    };
    names.map(number).collect()
}

/// The registry of counters.
fn counters(families: &mut Families, shown: &[Shown<'_>]) {
    for counter in Counter::ALL {
        let (name, kind, unit) = match (counter, counter.unit()) {
            (Counter::UncommittedBytes, _) => (format!("tidemill_{}", counter.name()), Gauge, 1.0),
            (_, "ns") => (format!("tidemill_{}_seconds_total", counter.name()), Total, 1e9),
            _ => (format!("tidemill_{}_total", counter.name()), Total, 1.0),
        };
        let family = families.family_named(name, kind, counter.meaning());
        for one in shown {
            let value = one.status.engine.get(*counter);
            match unit {
                1.0 => family.sample(&[("query", &one.name)], value),
                unit => family.sample(&[("query", &one.name)], value as f64 / unit),
            }
        }
    }
    let lag = families.family("tidemill_lag_cycles", Gauge, "Cycles that are closed but not committed.");
    for one in shown {
        lag.sample(&[("query", &one.name)], one.report.lag.cycles);
    }
    let help = "Waiting time of the oldest event whose cycle is closed but not committed.";
    let lag = families.family("tidemill_lag_seconds", Gauge, help);
    for one in shown {
        lag.sample(&[("query", &one.name)], one.report.lag.oldest_ns as f64 / 1e9);
    }
}

fn left_out(families: &mut Families, shown: &[Shown<'_>]) {
    type Read = fn(&QueryStatus) -> u64;
    let all: [(&'static str, &str, Read); 5] = [
        ("tidemill_rows_late_total", "Rows that came too late, at intake or at an operator.", |status| {
            status.late
        }),
        (
            "tidemill_rows_bad_total",
            "Records that could not be read, and rows that could not be computed.",
            |status| status.faults.count,
        ),
        ("tidemill_rows_skipped_total", "Rows that were left out on request.", |status| status.skipped),
        ("tidemill_rows_refused_total", "Rows that a sink's target refused.", |status| status.refused.count),
        ("tidemill_results_null_total", "Results that could not be computed and are NULL.", |status| {
            status.null_results.count
        }),
    ];
    for (name, help, read) in all {
        let family = families.family(name, Total, help);
        for one in shown {
            family.sample(&[("query", &one.name)], read(one.status));
        }
    }
}

fn times(families: &mut Families, shown: &[Shown<'_>]) {
    let help = "Time of each event from its arrival to the commit of its cycle.";
    let response = families.family("tidemill_response_time_seconds", Histogram, help);
    for one in shown {
        response.histogram(&[("query", &one.name)], &one.status.engine.per_event);
    }
    let help = "Time of each cycle from its cut to its commit.";
    let cycle = families.family("tidemill_cycle_time_seconds", Histogram, help);
    for one in shown {
        cycle.histogram(&[("query", &one.name)], &one.status.engine.per_cycle);
    }
    let help = "The largest mean time of a thousand consecutive cycles, from cut to commit.";
    let means = families.family("tidemill_cycle_time_max_mean_of_1000_seconds", Gauge, help);
    for one in shown {
        if let Some(mean) = one.status.engine.largest_mean_of_1000 {
            means.sample(&[("query", &one.name)], mean.as_secs_f64());
        }
    }
    let bounded = || shown.iter().filter_map(|one| Some((one, one.report.max_latency?)));
    let help = "The query's bound on the response time.";
    let bounds = families.family("tidemill_latency_bound_seconds", Gauge, help);
    for (one, bound) in bounded() {
        bounds.sample(&[("query", &one.name)], bound.as_secs_f64());
    }
    let help = "The share of events that were answered within the bound, since the start of the query.";
    let shares = families.family("tidemill_within_bound_ratio", Gauge, help);
    for (one, bound) in bounded() {
        shares.sample(&[("query", &one.name)], one.status.engine.per_event.share_within(bound));
    }
}

fn sources(families: &mut Families, shown: &[Shown<'_>]) {
    type Read = fn(&tidemill_engine::FeedStatus) -> u64;
    let all: [(&'static str, MetricKind, &str, Read); 6] = [
        ("tidemill_source_rows_total", Total, "Rows that a source delivered.", |feed| feed.rows),
        (
            "tidemill_source_bytes_total",
            Total,
            "Bytes in memory of the rows that a source delivered.",
            |feed| feed.bytes,
        ),
        ("tidemill_source_late_total", Total, "Rows of a source that came too late.", |feed| feed.late),
        ("tidemill_source_bad_total", Total, "Records of a source that could not be used.", |feed| {
            feed.faults.count
        }),
        ("tidemill_source_skipped_total", Total, "Rows of a source that were left out on request.", |feed| {
            feed.skipped
        }),
        ("tidemill_source_ended", Gauge, "1 if a source has ended.", |feed| u64::from(feed.ended)),
    ];
    for (name, kind, help, read) in all {
        let family = families.family(name, kind, help);
        for one in shown {
            let names = unique(one.status.sources.iter().map(|(name, _)| name.as_str()));
            for (name, (_, feed)) in names.iter().zip(&one.status.sources) {
                family.sample(&[("query", &one.name), ("source", name)], read(feed));
            }
        }
    }
    let help = "How long a source has waited because there was no room for its rows.";
    let family = families.family("tidemill_source_held_back_seconds_total", Total, help);
    for one in shown {
        let names = unique(one.status.sources.iter().map(|(name, _)| name.as_str()));
        for (name, (_, feed)) in names.iter().zip(&one.status.sources) {
            family.sample(&[("query", &one.name), ("source", name)], feed.held_back.as_secs_f64());
        }
    }
    let help = "The event time up to which a source is complete at the last cut, in seconds since 1970.";
    let family = families.family("tidemill_source_watermark_seconds", Gauge, help);
    for one in shown {
        let names = unique(one.status.sources.iter().map(|(name, _)| name.as_str()));
        for (name, watermark_ns) in names.iter().zip(&one.status.engine.watermarks) {
            if let Some(seconds) = watermark_seconds(*watermark_ns) {
                family.sample(&[("query", &one.name), ("source", name)], seconds);
            }
        }
    }
}

/// A watermark in seconds since 1970; `None` before the first event and after the last one.
pub(super) fn watermark_seconds(watermark_ns: i64) -> Option<f64> {
    (watermark_ns != i64::MIN && watermark_ns != i64::MAX).then_some(watermark_ns as f64 / 1e9)
}

fn sinks(families: &mut Families, shown: &[Shown<'_>]) {
    type Read = fn(&tidemill_engine::SinkStatus) -> u64;
    let all: [(&'static str, MetricKind, &str, Read); 2] = [
        ("tidemill_sink_cycles_committed_total", Total, "Cycles that a sink has committed.", |sink| {
            sink.cycles_committed
        }),
        (
            "tidemill_sink_cycles_waiting",
            Gauge,
            "Cycles that a sink has received but not committed.",
            |sink| sink.cycles_waiting,
        ),
    ];
    for (name, kind, help, read) in all {
        let family = families.family(name, kind, help);
        for one in shown {
            let names = unique(one.status.engine.sinks.iter().map(|sink| sink.name.as_str()));
            for (name, sink) in names.iter().zip(&one.status.engine.sinks) {
                family.sample(&[("query", &one.name), ("sink", name)], read(sink));
            }
        }
    }
}

/// Of longer names of parts, there is the beginning.
const NAME_CHARACTERS_MAX: usize = 500;

/// The name of a part; of a long expression its beginning. A look each second should not carry megabytes of constants.
pub(super) fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARACTERS_MAX) {
        None => name.to_owned(),
        Some((end, _)) => format!("{}…", &name[..end]),
    }
}

/// Transforms and operators. Their names may occur twice, their numbers do not.
fn parts(families: &mut Families, shown: &[Shown<'_>]) {
    type Read = fn(&tidemill_engine::Work) -> f64;
    let all: [(&'static str, MetricKind, &str, Read); 4] = [
        (
            "tidemill_part_busy_seconds_total",
            Total,
            "Worker time spent in a transform or operator.",
            |work| work.time_ns as f64 / 1e9,
        ),
        ("tidemill_part_rows_in_total", Total, "Rows that a transform or operator received.", |work| {
            work.rows_in as f64
        }),
        ("tidemill_part_rows_out_total", Total, "Rows that a transform or operator wrote.", |work| {
            work.rows_out as f64
        }),
        (
            "tidemill_part_state_bytes",
            Gauge,
            "About how much memory the state of an operator takes.",
            |work| work.state_bytes as f64,
        ),
    ];
    for (name, kind, help, read) in all {
        let family = families.family(name, kind, help);
        for one in shown {
            for (number, work) in one.status.engine.work.iter().enumerate() {
                let labels = [
                    ("query", one.name.as_str()),
                    ("part", &shortened(&work.name)),
                    ("number", &number.to_string()),
                ];
                family.sample(&labels, read(work));
            }
        }
    }
}

/// The rows that materialized views hold in memory, whether their queries run or have ended.
fn views(families: &mut Families, views: &[ViewHandle]) {
    type Read = fn(&StoreStatistics) -> u64;
    let all: [(&'static str, MetricKind, &str, Read); 4] = [
        ("tidemill_view_rows", Gauge, "Rows that a view holds.", |store| store.rows),
        ("tidemill_view_bytes", Gauge, "Bytes in memory of a view's rows and of their index.", |store| {
            (store.bytes + store.index_bytes) as u64
        }),
        ("tidemill_view_versions", Gauge, "Cycles of a view that can be read.", |store| {
            store.versions as u64
        }),
        ("tidemill_view_rows_dropped_total", Total, "Rows that a view no longer keeps.", |store| {
            store.rows_dropped
        }),
    ];
    let statistics: Vec<_> = views.iter().map(|view| (view.name(), view.store().statistics())).collect();
    for (name, kind, help, read) in all {
        let family = families.family(name, kind, help);
        for (view, store) in &statistics {
            family.sample(&[("view", view)], read(store));
        }
    }
}

fn pools(families: &mut Families, pools: &[(String, PoolStatus)]) {
    type Read = fn(&PoolStatus) -> f64;
    let all: [(&'static str, MetricKind, &str, Read); 7] = [
        ("tidemill_pool_threads", Gauge, "The threads of a pool.", |pool| pool.members as f64),
        ("tidemill_pool_used_seconds_total", Total, "Processor time of a pool.", |pool| {
            pool.used.as_secs_f64()
        }),
        (
            "tidemill_pool_queued_seconds_total",
            Total,
            "How long threads of a pool were ready while something else had their processors.",
            |pool| pool.queued.as_secs_f64(),
        ),
        (
            "tidemill_pool_longest_activation_seconds",
            Gauge,
            "The most processor time of one activation in a pool.",
            |pool| pool.longest_activation.as_secs_f64(),
        ),
        (
            "tidemill_pool_budget_emptied_total",
            Total,
            "How often the budget of a pool was used up.",
            |pool| pool.emptied as f64,
        ),
        (
            "tidemill_pool_budget_overrun_seconds",
            Gauge,
            "How much more than its budget a pool used at most.",
            |pool| pool.overrun.as_secs_f64(),
        ),
        (
            "tidemill_pool_deadline_misses_total",
            Total,
            "Answers of a pool's queries that were late.",
            |pool| pool.deadline_misses as f64,
        ),
    ];
    for (name, kind, help, read) in all {
        let family = families.family(name, kind, help);
        for (pool, status) in pools {
            family.sample(&[("pool", pool)], read(status));
        }
    }
}
