//! `tidemill run --http` and `tidemill serve`: what runs, by HTTP.
#![cfg(unix)]

use tidemill_testing::ports;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use crate::support::child::{end, interrupt, start, wait_until};
use crate::support::*;

const ENDLESS: &str = "CREATE SINK twice WITH (path = 'twice.csv') AS
    SELECT value * 2 AS twice FROM sequence(rate => 1000);";

/// Starts the command, and reads what it tells until it says where HTTP is served.
fn started(folder: &Path, arguments: &[&str]) -> (Child, String) {
    let mut child = start(tidemill(folder, arguments));
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("http://") {
        line.clear();
        assert!(told.read_line(&mut line).unwrap() > 0, "it ends without an address");
    }
    // Somebody must read the rest, or it would fill the pipe.
    std::thread::spawn(move || std::io::copy(&mut told, &mut std::io::sink()));
    let (_, rest) = line.split_once("http://").unwrap();
    (child, rest.split([',', '/']).next().unwrap().to_owned())
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_script_that_runs_tells_its_metrics_and_that_it_is_ready() {
    let folder = folder_with(&[("doubles.sql", ENDLESS)]);
    let (child, address) = started(folder.path(), &["run", "doubles.sql", "--http", "127.0.0.1:0"]);
    wait_until("it is ready", || get(&address, "/ready").starts_with("HTTP/1.1 200"));
    wait_until("rows are committed", || {
        let metrics = get(&address, "/metrics");
        let start = "tidemill_events_committed_total{query=\"doubles\"} ";
        let line = metrics.lines().find_map(|line| line.strip_prefix(start));
        line.unwrap_or_else(|| panic!("{metrics}")).parse::<u64>().unwrap() > 0
    });
    let status = get(&address, "/api/status");
    assert!(status.contains("\"outputs\":[\"twice\"]"), "{status}");
    let shown = ended(folder.path(), &["status", "--http", &address]).expect(0);
    let shown = shown.shows(&["query", "doubles  running", "busiest"]);
    assert!(shown.stdout.lines().count() >= 2, "{}", shown.stdout);
    let json = ended(folder.path(), &["status", "--http", &address, "--json"]).expect(0);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&json.stdout).unwrap()["queries"][0]["name"],
        "doubles"
    );
    let mut top = start(tidemill(folder.path(), &["top", "--http", &address]));
    let tables = BufReader::new(top.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(tables.filter(|line| line.starts_with("doubles  running")).take(2).count(), 2);
    interrupt(&top);
    end(top).expect(0);
    interrupt(&child);
    end(child).expect(130);
    assert!(TcpStream::connect(&address).is_err(), "it still listens");
}

/// The log that is kept has more than standard error, and nothing of it gets there.
#[test]
fn the_log_is_read_by_http_whatever_standard_error_has_of_it() {
    let folder = folder_with(&[]);
    let arguments = ["serve", "--data", "tides", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let mut command = tidemill(folder.path(), &arguments);
    command.env("TIDEMILL_LOG", "off").env_remove("TIDEMILL_LOG_FORMAT");
    let mut child = start(command);
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let (mut line, mut before) = (String::new(), String::new());
    while !line.contains("http://") {
        before.push_str(&line);
        line.clear();
        assert!(told.read_line(&mut line).unwrap() > 0, "it ends without an address");
    }
    let (_, rest) = line.split_once("http://").unwrap();
    let address = rest.split([',', '/']).next().unwrap();
    let log = get(address, "/api/logs");
    assert!(log.starts_with("HTTP/1.1 200") && log.contains("\"message\":\"HTTP is served\""), "{log}");
    assert!(log.contains("\"level\":\"INFO\"") && !log.contains("\"level\":\"DEBUG\""), "{log}");
    interrupt(&child);
    let mut after = String::new();
    told.read_to_string(&mut after).unwrap();
    end(child).expect(0);
    assert!(!before.contains("tidemill_") && !after.contains("tidemill_"), "{before}{after}");
}

#[test]
fn a_status_that_is_not_there_says_what_to_do() {
    let folder = folder_with(&[]);
    let free = format!("127.0.0.1:{}", ports::free_port());
    for command in ["status", "top"] {
        let nobody = ended(folder.path(), &[command, "--http", &free]);
        nobody.expect(1).tells(&["no answer from", "is `tidemill serve` or `tidemill run --http` running"]);
    }
}

#[test]
fn an_address_of_other_machines_is_refused_before_anything_runs() {
    let folder = folder_with(&[("doubles.sql", ENDLESS)]);
    let refused = ended(folder.path(), &["run", "doubles.sql", "--http", "0.0.0.0:0"]);
    refused.expect(2).tells(&["can be reached from other machines", "would not be encrypted"]);
    assert!(!folder.path().join("twice.csv").exists(), "the pipeline has begun");
    let refused = ended(folder.path(), &["serve", "--data", "tides", "--http", "0.0.0.0:0"]);
    refused.expect(2).tells(&["would not be encrypted"]);
    let wrong = ended(folder.path(), &["serve", "--data", "tides", "--http", "8087"]);
    wrong.expect(2).tells(&["127.0.0.1:8087, or off"]);
}
