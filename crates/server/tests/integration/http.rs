//! What runs, as HTTP gives it.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use crate::support::{get, send, serve_http, start, wait_until};
use serde_json::Value;
use tidemill_engine::Fault;
use tidemill_server::{HttpOptions, HttpServer};
use tidemill_service::{QueryState, Runtime};
use tidemill_sql::Planner;

const VIEW: &str = "SET max_latency = '5 seconds';
    CREATE MATERIALIZED VIEW parity AS
    SELECT value % 2 AS odd, count(*) AS n FROM sequence(count => 900) GROUP BY 1";

/// A runtime with a view that has ended, and one that continues.
fn runtime() -> Runtime {
    let runtime = Runtime::new(Planner::new());
    start(&runtime, "parity", VIEW);
    runtime.wait("parity").unwrap();
    let endless = "CREATE MATERIALIZED VIEW endless AS SELECT max(value) AS top FROM sequence(rate => 1000)";
    start(&runtime, "endless", endless);
    wait_until("rows of the endless query", || {
        runtime.status("endless").unwrap().is_some_and(|status| status.rows_in() > 0)
    });
    runtime
}

fn status(address: SocketAddr) -> Value {
    let answer = get(address, "/api/status");
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_str(&answer.body).unwrap()
}

fn query<'a>(status: &'a Value, name: &str) -> &'a Value {
    let queries = status["queries"].as_array().unwrap();
    queries.iter().find(|query| query["name"] == name).unwrap_or_else(|| panic!("no {name} in {status}"))
}

/// The value of a sample of the metrics.
fn sample(metrics: &str, start: &str) -> f64 {
    let line = metrics.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no {start}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn status_says_what_each_query_has_done() {
    let server = serve_http(&runtime(), HttpOptions::default());
    let status = status(server.address());
    let parity = query(&status, "parity");
    assert_eq!(parity["state"], "ended");
    assert_eq!((&parity["rows_in"], &parity["sources"][0]["rows"]), (&900.into(), &900.into()));
    // A BIGINT has 8 bytes, and so has the event time.
    assert_eq!(parity["sources"][0]["bytes"], 14400);
    assert_eq!(parity["response"]["count"], 900);
    assert_eq!(parity["lag_cycles"], 0);
    assert_eq!(parity["bound_ms"], 5000.0);
    let buckets = parity["response"]["within_ms"].as_array().unwrap();
    assert_eq!(buckets.last().unwrap()[1], 900, "all were answered within a minute");
    let parts = parity["dataflow"]["parts"].as_array().unwrap();
    let kinds: Vec<&str> = parts.iter().map(|part| part["kind"].as_str().unwrap()).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"source"), Some(&"sink")), "{parts:?}");
    let busiest = parity["dataflow"]["busiest"].as_u64().unwrap() as usize;
    assert!(parts[busiest]["busy_ms"].as_f64().unwrap() > 0.0);
    assert_eq!(query(&status, "endless")["state"], "running");
    // The cycle is a number, and how long cycles took stands beside it.
    assert!(parity["cycle"].is_u64() && parity["cycle_times"]["count"].as_u64() > Some(0), "{parity}");
    let operator = parts.iter().find(|part| part["kind"] == "operator").unwrap();
    assert!(operator["state_bytes"].is_u64(), "{operator}");
}

#[test]
fn metrics_and_status_say_the_same() {
    let server = serve_http(&runtime(), HttpOptions::default());
    let metrics = get(server.address(), "/metrics");
    assert!(metrics.head.contains("text/plain; version=0.0.4"), "{}", metrics.head);
    let metrics = metrics.body;
    assert_eq!(sample(&metrics, "tidemill_events_in_total{query=\"parity\"}"), 900.0);
    assert_eq!(sample(&metrics, "tidemill_source_bytes_total{query=\"parity\","), 14400.0);
    assert_eq!(sample(&metrics, "tidemill_query_state{query=\"parity\",state=\"ended\"}"), 1.0);
    assert_eq!(sample(&metrics, "tidemill_query_state{query=\"parity\",state=\"running\"}"), 0.0);
    assert_eq!(
        sample(&metrics, "tidemill_response_time_seconds_bucket{query=\"parity\",le=\"+Inf\"}"),
        900.0
    );
    assert_eq!(sample(&metrics, "tidemill_latency_bound_seconds{query=\"parity\"}"), 5.0);
    assert_eq!(sample(&metrics, "tidemill_view_rows{view=\"parity\"}"), 2.0);
    // Two BIGINTs in each of two rows, at least.
    assert!(sample(&metrics, "tidemill_view_bytes{view=\"parity\"}") >= 32.0);
    assert!(sample(&metrics, "tidemill_part_state_bytes{query=\"endless\",") >= 0.0);
    let committed =
        sample(&metrics, "tidemill_sink_cycles_committed_total{query=\"parity\",sink=\"parity\"}");
    let status = status(server.address());
    assert_eq!(query(&status, "parity")["counters"]["cycles_committed"], committed);
}

#[test]
fn metrics_say_what_pools_have_done() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    let runtime = Runtime::new(Planner::new());
    // No answer can be there within a nanosecond, and 200 us are not enough for a tenth of a second.
    let script = format!(
        "CREATE POOL small WITH (workers = 2, budget = '200 us', period = '100 ms');
         CREATE POOL unused;
         CREATE SINK late WITH (path = '{}', pool = small, deadline = '1 ns')
         AS SELECT value FROM sequence(count => 5000)",
        path.display()
    );
    start(&runtime, "late", &script);
    runtime.wait("late").unwrap();
    let server = serve_http(&runtime, HttpOptions::default());
    let metrics = get(server.address(), "/metrics").body;
    let of = |pool: &str, name: &str| sample(&metrics, &format!("tidemill_pool_{name}{{pool=\"{pool}\"}}"));
    assert_eq!((of("small", "threads"), of("small", "deadline_misses_total")), (0.0, 5000.0));
    assert!(of("small", "budget_emptied_total") >= 1.0, "{metrics}");
    // The budget was used up once at least, and nothing uses more than all cores since the query began.
    assert!(of("small", "used_seconds_total") >= 200e-6 && of("small", "used_seconds_total") < 600.0);
    assert!(of("small", "longest_activation_seconds") > 0.0);
    assert!(of("small", "longest_activation_seconds") <= of("small", "used_seconds_total"));
    assert!(of("small", "budget_overrun_seconds") >= 0.0 && of("small", "queued_seconds_total") >= 0.0);
    // No query has run in it, so there is nothing to say.
    assert!(!metrics.contains("{pool=\"unused\"}"), "{metrics}");
    // Each has its type, once.
    for (name, kind) in [("threads", "gauge"), ("used_seconds_total", "counter")] {
        let line = format!("# TYPE tidemill_pool_{name} {kind}\n");
        assert_eq!(metrics.matches(&line).count(), 1, "{line}");
    }
}

#[test]
fn a_failed_query_keeps_its_counters_and_its_reason() {
    let runtime = Runtime::new(Planner::new());
    start(&runtime, "rising", "CREATE MATERIALIZED VIEW rising AS SELECT value FROM sequence(rate => 1000)");
    wait_until("rows", || runtime.status("rising").unwrap().is_some_and(|status| status.rows_in() > 0));
    runtime.abandon("rising").unwrap();
    assert_eq!(runtime.state("rising").unwrap(), QueryState::Failed);
    let server = serve_http(&runtime, HttpOptions::default());
    let status = status(server.address());
    let rising = query(&status, "rising");
    assert_eq!(rising["state"], "failed");
    assert!(rising["problem"].as_str().unwrap().contains("stopped at once"), "{rising}");
    assert!(rising["rows_in"].as_u64().unwrap() > 0, "{rising}");
    let ready = get(server.address(), "/ready");
    assert_eq!(ready.status, 503);
    assert!(ready.body.contains("\"failed\":[\"rising\"]"), "{}", ready.body);
}

#[test]
fn readiness_waits_for_the_queries_and_health_does_not() {
    let any_port: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let server = HttpServer::start(any_port, HttpOptions::default()).unwrap();
    assert_eq!(get(server.address(), "/health").status, 200);
    assert_eq!(get(server.address(), "/ready").status, 503);
    assert_eq!(status(server.address())["starting"], true);
    assert_eq!(get(server.address(), "/metrics").status, 200);
    server.serve(&runtime()).unwrap();
    assert_eq!(get(server.address(), "/ready").status, 200);
    assert_eq!(status(server.address())["starting"], false);
}

#[test]
fn a_wrong_path_or_method_is_answered_with_what_is_right() {
    let server = serve_http(&Runtime::new(Planner::new()), HttpOptions::default());
    let unknown = get(server.address(), "/metric");
    assert_eq!(unknown.status, 404);
    assert!(unknown.body.contains("/metrics"), "{}", unknown.body);
    let posted =
        "POST /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let posted = send(server.address(), posted);
    assert_eq!(posted.status, 405);
    assert!(posted.head.to_ascii_lowercase().contains("allow: get, head"), "{}", posted.head);
    let head = "HEAD /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(send(server.address(), head).body, "");
}

#[test]
fn only_this_machine_is_served() {
    let everywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let Err(cause) = HttpServer::start(everywhere, HttpOptions::default()) else {
        panic!("it listens to everybody")
    };
    assert_eq!(cause.fault, Fault::User);
    assert!(cause.to_string().contains("would not be encrypted"), "{cause}");
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let text = std::fs::read_to_string(format!("{folder}/../../packaging/grafana/tidemill.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let server = serve_http(&runtime(), HttpOptions::default());
    let metrics = get(server.address(), "/metrics").body;
    let panels = dashboard["panels"].as_array().unwrap();
    let asked = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let mut count = 0;
    for asked in asked.map(|target| target["expr"].as_str().unwrap()) {
        let names = asked.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        for name in names.filter(|name| name.starts_with("tidemill_")) {
            assert!(metrics.lines().any(|line| line.starts_with(&format!("{name}{{"))), "{name} of {asked}");
            count += 1;
        }
    }
    assert!(count > 10, "{count}");
}

#[test]
fn prometheus_reads_the_metrics() {
    let Some(interpreter) = std::env::var_os("TIDEMILL_PROMETHEUS_PYTHON") else {
        eprintln!(
            "skipped: TIDEMILL_PROMETHEUS_PYTHON names no interpreter with prometheus_client (.ci/run installs one)"
        );
        return;
    };
    let server = serve_http(&runtime(), HttpOptions::default());
    let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap();
    let program = format!("{folder}/tests/integration/prometheus/parse.py");
    let address = server.address().to_string();
    let output = Command::new(interpreter).args([program, address]).output().expect("Python can be run");
    let (told, wrong) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(told, "done\n", "{wrong}");
}

#[test]
fn nothing_is_left_open_when_the_server_ends() {
    let server = serve_http(&Runtime::new(Planner::new()), HttpOptions::default());
    let address = server.address();
    let idle = std::net::TcpStream::connect(address).unwrap();
    idle.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    drop(server);
    assert_eq!(std::io::Read::read(&mut &idle, &mut [0; 10]).unwrap_or(0), 0);
    assert!(std::net::TcpStream::connect(address).is_err());
}
