//! Metrics for a collector of OpenTelemetry: what it gets is what `/metrics` shows.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{PATIENCE, get, serve_http, start};
use serde_json::Value;
use tidemill_server::{HttpOptions, OtlpExporter};
use tidemill_service::Runtime;
use tidemill_sql::Planner;

const OFTEN: Duration = Duration::from_millis(20);

/// A request that a collector got: its first line, its headers, its body.
struct Got {
    line: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// A collector that answers with a status, and the requests that it gets.
fn collector(status: &'static str) -> (SocketAddr, Receiver<Got>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, got) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            loop {
                let mut lines = Vec::new();
                loop {
                    let mut line = String::new();
                    if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                        break;
                    }
                    lines.push(line.trim_end().to_owned());
                }
                let Some((line, headers)) = lines.split_first() else { break };
                let pair = |line: &String| {
                    let (name, value) = line.split_once(':').unwrap();
                    (name.to_ascii_lowercase(), value.trim().to_owned())
                };
                let headers: BTreeMap<String, String> = headers.iter().map(pair).collect();
                let mut body = vec![0; headers["content-length"].parse().unwrap()];
                reader.read_exact(&mut body).unwrap();
                let got = Got { line: line.clone(), headers, body };
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}");
                if reader.get_mut().write_all(answer.as_bytes()).is_err() || sender.send(got).is_err() {
                    return;
                }
            }
        }
    });
    (address, got)
}

fn with_query() -> Runtime {
    let runtime = Runtime::new(Planner::new());
    start(
        &runtime,
        "n\"1",
        "CREATE MATERIALIZED VIEW \"n\"\"1\" AS SELECT count(*) AS n FROM sequence(count => 1000)",
    );
    runtime.wait("n\"1").unwrap();
    runtime
}

/// The metrics of a request by their names.
fn metrics(body: &[u8]) -> BTreeMap<String, Value> {
    let request: Value = serde_json::from_slice(body).unwrap();
    let metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    metrics.iter().map(|metric| (metric["name"].as_str().unwrap().to_owned(), metric.clone())).collect()
}

/// The sum of a counter's points, as a number.
fn sum(metric: &Value) -> f64 {
    let points = metric["sum"]["dataPoints"].as_array().unwrap();
    let value = |point: &Value| match point["asInt"].as_str() {
        Some(text) => text.parse().unwrap(),
        None => point["asDouble"].as_f64().unwrap(),
    };
    points.iter().map(value).sum()
}

#[test]
fn a_collector_gets_what_prometheus_would() {
    let runtime = with_query();
    let http = serve_http(&runtime, HttpOptions::default());
    let (address, got) = collector("200 OK");
    let exporter = OtlpExporter::start(&runtime, &format!("http://{address}/"), OFTEN).unwrap();
    let got = got.recv_timeout(PATIENCE).unwrap();
    assert_eq!(got.line, "POST /v1/metrics HTTP/1.1");
    assert_eq!(got.headers["content-type"], "application/json");
    let metrics = metrics(&got.body);
    let text = get(http.address(), "/metrics").body;
    let families: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    assert!(families.len() > 20, "{families:?}");
    for family in &families {
        let metric = metrics.get(*family).unwrap_or_else(|| panic!("{family} is missing"));
        assert!(metric["description"].as_str().is_some_and(|help| !help.is_empty()), "{metric}");
    }
    assert_eq!(metrics.len(), families.len());
    let rows = text.lines().find_map(|line| line.strip_prefix("tidemill_source_rows_total{")).unwrap();
    let rows: f64 = rows.rsplit(' ').next().unwrap().parse().unwrap();
    assert_eq!((rows, sum(&metrics["tidemill_source_rows_total"])), (1000.0, 1000.0));
    let sum_of_rows = &metrics["tidemill_source_rows_total"]["sum"];
    assert_eq!(sum_of_rows["isMonotonic"], true);
    let attributes = &sum_of_rows["dataPoints"][0]["attributes"];
    assert_eq!(attributes[0]["value"]["stringValue"], "n\"1");
    let times = &metrics["tidemill_response_time_seconds"];
    assert_eq!(
        (times["unit"].as_str(), times["histogram"]["aggregationTemporality"].as_u64()),
        (Some("s"), Some(2))
    );
    drop(exporter);
}

#[test]
fn a_collector_that_is_away_or_refuses_holds_up_nothing() {
    let runtime = with_query();
    // Nobody listens on a port that was just free.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (refusing, got) = collector("503 Service Unavailable");
    for address in [free, refusing] {
        let exporter = OtlpExporter::start(&runtime, &format!("http://{address}"), OFTEN).unwrap();
        thread::sleep(Duration::from_millis(200));
        let start = Instant::now();
        drop(exporter);
        assert!(start.elapsed() < PATIENCE);
    }
    // It is asked again and again, each time with everything.
    let first = metrics(&got.recv_timeout(PATIENCE).unwrap().body);
    let second = metrics(&got.recv_timeout(PATIENCE).unwrap().body);
    let name = "tidemill_source_rows_total";
    assert_eq!(sum(&first[name]), sum(&second[name]));
}

#[test]
fn the_last_metrics_are_those_of_the_end() {
    let runtime = with_query();
    let (address, got) = collector("200 OK");
    let exporter =
        OtlpExporter::start(&runtime, &format!("http://{address}"), Duration::from_secs(3600)).unwrap();
    drop(exporter);
    assert!(metrics(&got.recv_timeout(PATIENCE).unwrap().body).contains_key("tidemill_info"));
}

/// OpenTelemetry's own definition of the request reads it.
#[test]
fn opentelemetry_reads_the_request() {
    let Some(interpreter) = std::env::var_os("TIDEMILL_OTLP_PYTHON") else {
        return eprintln!(
            "skipped: TIDEMILL_OTLP_PYTHON names no Python with opentelemetry-proto (.ci/run installs it)"
        );
    };
    let (address, got) = collector("200 OK");
    drop(
        OtlpExporter::start(&with_query(), &format!("http://{address}"), Duration::from_secs(3600)).unwrap(),
    );
    let package = std::env::var("CARGO_MANIFEST_DIR").expect("cargo runs the test");
    let mut python = Command::new(interpreter)
        .arg(format!("{package}/tests/integration/otlp/parse.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    python.stdin.take().unwrap().write_all(&got.recv_timeout(PATIENCE).unwrap().body).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "tidemill, 1000 rows, cumulative");
}
