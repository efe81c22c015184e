//! Statements by HTTP: answers in each format, errors, limits, and who goes.

use crate::support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::support::{Answered, PATIENCE, answered, send, serve_http, start, wait_until};
use arrow_ipc::reader::StreamReader;
use serde_json::Value;
use tidemill_server::{HttpOptions, HttpServer};
use tidemill_service::{Runtime, Session};
use tidemill_sql::{Planner, parse};

const ENDLESS: &str = "SELECT value FROM sequence(rate => 1000)";

fn serve() -> HttpServer {
    serve_http(&Runtime::new(Planner::new()), HttpOptions::default())
}

fn request(path: &str, accept: &str, statement: &str) -> String {
    let (accept, length) = (if accept.is_empty() { "*/*" } else { accept }, statement.len());
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{statement}"
    )
}

fn ask(server: &HttpServer, path: &str, accept: &str, statement: &str) -> Answered {
    send(server.address(), &request(path, accept, statement))
}

/// The error of an answer: its code, and the whole of it.
fn error(answer: &Answered) -> (String, Value) {
    let error: Value = serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("{answer:?}"));
    (error["error"]["code"].as_str().unwrap().to_owned(), error["error"].clone())
}

fn open(address: SocketAddr, request: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    BufReader::new(stream)
}

/// Reads lines up to one that has this text.
fn until(reader: &mut impl BufRead, text: &str) -> String {
    let mut line = String::new();
    while !line.contains(text) {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "it ends without {text}");
    }
    line
}

#[test]
fn each_format_has_the_same_rows() {
    let server = serve();
    let statement = "SELECT 9007199254740993 AS large, 'a \"b\", c' AS text, CAST(NULL AS BIGINT) AS none, \
                     TIMESTAMP '2026-01-02 03:04:05' AS at";
    let lines = ask(&server, "/query", "", statement);
    assert_eq!(lines.status, 200, "{lines:?}");
    assert!(lines.head.contains("application/x-ndjson"), "{}", lines.head);
    let expected = "{\"large\":9007199254740993,\"text\":\"a \\\"b\\\", c\",\"none\":null,\
        \"at\":\"2026-01-02T03:04:05\"}\n";
    assert_eq!(lines.body, expected);
    let csv = ask(&server, "/query", "text/csv", statement);
    assert_eq!(csv.body, "large,text,none,at\n9007199254740993,\"a \"\"b\"\", c\",,2026-01-02 03:04:05\n");
    let document = ask(&server, "/query", "application/json", statement);
    let document: Value = serde_json::from_str(&document.body).unwrap_or_else(|_| panic!("{document:?}"));
    assert_eq!(document["columns"][0], serde_json::json!({ "name": "large", "type": "bigint" }));
    let row = serde_json::json!([["9007199254740993", "a \"b\", c", null, "2026-01-02 03:04:05"]]);
    assert_eq!((&document["rows"], &document["complete"]), (&row, &true.into()));
}

#[test]
fn arrow_is_read_by_another_reader() {
    let server = serve();
    let wanted =
        request("/query", "application/vnd.apache.arrow.stream", "SELECT value FROM sequence(count => 3000)");
    let mut bytes = Vec::new();
    open(server.address(), &wanted).read_to_end(&mut bytes).unwrap();
    let body = chunks(&bytes);
    let mut rows = 0;
    for batch in StreamReader::try_new(body.as_slice(), None).unwrap() {
        rows += batch.unwrap().num_rows();
    }
    assert_eq!(rows, 3000);
}

/// The body of an answer in chunks, as bytes.
fn chunks(bytes: &[u8]) -> Vec<u8> {
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let (mut rest, mut body) = (&bytes[head + 4..], Vec::new());
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 4 + size..];
    }
    body
}

#[test]
fn a_view_that_runs_is_read() {
    let runtime = Runtime::new(Planner::new());
    let view = "CREATE MATERIALIZED VIEW parity AS
        SELECT value % 2 AS odd, count(*) AS n FROM sequence(count => 9) GROUP BY 1";
    start(&runtime, "parity", view);
    runtime.wait("parity").unwrap();
    let server = serve_http(&runtime, HttpOptions::default());
    let answer = ask(&server, "/query", "text/csv", "SELECT n FROM parity ORDER BY odd");
    assert_eq!(answer.body, "n\n5\n4\n");
}

#[test]
fn errors_have_a_code_a_place_and_a_hint() {
    let server = serve();
    let wrong = ask(&server, "/query", "", "SELECT valu FROM sequence(count => 3)");
    assert_eq!(wrong.status, 400);
    let (code, error_) = error(&wrong);
    assert_eq!((code.as_str(), error_["position"].as_u64()), ("42703", Some(8)), "{error_}");
    assert!(error_["hint"].as_str().unwrap().contains("value"), "{error_}");
    let expected = [
        ("SELECT 1 FROM nowhere", "42P01"),
        ("SELECT", "42601"),
        ("", "42601"),
        ("SELECT 1; SELECT 2", "42601"),
        ("CREATE VIEW v AS SELECT 1 AS x", "0A000"),
        ("DROP VIEW v", "0A000"),
        ("SET partitions = 4", "0A000"),
        ("EXPLAIN ANALYZE CREATE VIEW v AS SELECT 1 AS x", "0A000"),
        ("SELECT count(*) FROM sequence(rate => 10)", "0A000"),
    ];
    for (statement, code) in expected {
        let answer = ask(&server, "/query", "", statement);
        assert_eq!((answer.status, error(&answer).0.as_str()), (400, code), "{statement}");
    }
    let plan = ask(&server, "/query", "text/csv", "EXPLAIN SELECT value FROM sequence(count => 3)");
    assert!(plan.body.starts_with("QUERY PLAN\n"), "{plan:?}");
}

#[test]
fn a_query_is_measured_until_it_ends_or_its_time_is_up() {
    let server = serve();
    let statement = "EXPLAIN ANALYZE SELECT value FROM sequence(count => 1000) WHERE value > 990";
    let finite = ask(&server, "/query", "text/csv", statement);
    assert!(finite.status == 200 && finite.body.starts_with("QUERY PLAN\n"), "{finite:?}");
    // The plan alone does not know how many rows pass the filter.
    assert!(finite.body.contains("sequence") && finite.body.contains("1000"), "{finite:?}");
    let endless = "EXPLAIN ANALYZE SELECT value FROM sequence(rate => 1000)";
    let measured = ask(&server, "/query?seconds_max=1", "text/csv", endless);
    assert!(measured.status == 200 && measured.body.contains("sequence"), "{measured:?}");
    let wrong = ask(&server, "/query", "", "EXPLAIN ANALYZE SELECT valu FROM sequence(count => 3)");
    assert_eq!((wrong.status, error(&wrong).0.as_str()), (400, "42703"));
}

#[test]
fn parameters_and_bodies_are_checked() {
    let server = serve();
    for path in [
        "/query?rows_max=0",
        "/query?rows_max=x",
        "/query?seconds_max=100000",
        "/query?limit=7",
        "/query?a=%",
    ] {
        let answer = ask(&server, path, "", "SELECT 1");
        assert_eq!((answer.status, error(&answer).0.as_str()), (400, "22023"), "{path}");
    }
    assert_eq!(ask(&server, "/query", "image/png", "SELECT 1").status, 406);
    let long = "x".repeat(2_000_000);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    // The answer may come before all of it is read.
    let _ = stream.write_all(request("/query", "", &long).as_bytes());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    assert!(bytes.is_empty() || answered(&bytes).status == 413);
    let claimed = "POST /query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000000\r\n\r\n";
    assert_eq!(send(server.address(), claimed).status, 413);
}

#[test]
fn more_rows_than_wanted_are_not_left_out_silently() {
    let server = serve();
    let statement = "SELECT value FROM sequence(count => 100)";
    let all = ask(&server, "/query?rows_max=100", "", statement);
    assert_eq!(all.body.lines().count(), 100);
    let some = ask(&server, "/query?rows_max=10", "", statement);
    let lines: Vec<&str> = some.body.lines().collect();
    assert_eq!((lines.len(), lines[9]), (11, "{\"value\":9}"));
    assert!(lines[10].contains("\"54000\"") && lines[10].contains("more than 10 rows"), "{}", lines[10]);
    // It breaks off: the chunk of length 0 that ends a whole answer is not there.
    let mut bytes = Vec::new();
    open(server.address(), &request("/query?rows_max=10", "", statement)).read_to_end(&mut bytes).unwrap();
    assert!(!bytes.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&bytes));
    let document = ask(&server, "/query?rows_max=10", "application/json", statement);
    let document: Value = serde_json::from_str(&document.body).unwrap();
    assert_eq!((&document["complete"], &document["error"]["code"]), (&false.into(), &"54000".into()));
    assert_eq!(document["rows"].as_array().unwrap().len(), 10);
}

#[test]
fn an_endless_query_ends_with_its_time() {
    let server = serve();
    let none = format!("{ENDLESS} WHERE value < 0");
    let answer = ask(&server, "/query?seconds_max=1", "", &none);
    assert_eq!((answer.status, error(&answer).0.as_str()), (408, "57014"));
    // On a busy machine, the first row may come only after some seconds.
    let (seconds, answer) = [1, 4, 16, 60]
        .map(|seconds| (seconds, format!("/query?seconds_max={seconds}")))
        .into_iter()
        .map(|(seconds, path)| (seconds, ask(&server, &path, "", ENDLESS)))
        .find(|(_, answer)| answer.status == 200)
        .expect("rows come within a minute");
    let last = answer.body.lines().last().unwrap();
    assert!(last.contains("\"57014\"") && last.contains(&format!("longer than {seconds} s")), "{last}");
}

#[test]
fn who_goes_cancels_and_makes_room() {
    let options = HttpOptions { questions_max: 2, ..HttpOptions::default() };
    let server = serve_http(&Runtime::new(Planner::new()), options);
    let mut some: Vec<_> = (0..2).map(|_| open(server.address(), &request("/query", "", ENDLESS))).collect();
    for reader in &mut some {
        until(reader, "\"value\"");
    }
    let refused = ask(&server, "/query", "", "SELECT 1");
    assert_eq!((refused.status, error(&refused).0.as_str()), (503, "53300"));
    drop(some);
    wait_until("room", || ask(&server, "/query", "", "SELECT 1").status == 200);
}

#[test]
fn a_subscriber_is_told_rows_as_they_come() {
    let server = serve();
    let query = "SELECT+value+FROM+sequence(rate+%3D%3E+100)";
    let wanted = format!("GET /subscribe?query={query} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut reader = open(server.address(), &wanted);
    until(&mut reader, "text/event-stream");
    until(&mut reader, "event: columns");
    assert!(until(&mut reader, "data: ").contains("\"name\":\"value\""));
    until(&mut reader, "event: rows");
    assert!(until(&mut reader, "data: ").starts_with("data: [[\"0\"]"));
    let finite =
        "GET /subscribe?query=SELECT+7+AS+seven HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let whole = send(server.address(), finite).body;
    assert!(whole.contains("event: rows\ndata: [[\"7\"]]\n\nevent: end\n"), "{whole}");
}

#[test]
fn a_subscriber_is_told_which_rows_replace_others() {
    let server = serve();
    let wanted = "SELECT value % 2 AS odd, count(*) AS n FROM sequence(rate => 100) GROUP BY 1";
    let mut reader = open(server.address(), &request("/subscribe", "text/event-stream", wanted));
    assert!(until(&mut reader, "data: ").contains("\"key\":[\"odd\"]"));
    until(&mut reader, "event: rows");
}

#[test]
fn a_subscriber_that_does_not_read_is_told_when_it_reads_again() {
    let (unread_max, write_timeout) = (Duration::from_millis(200), Duration::from_secs(600));
    let options = HttpOptions { unread_max, write_timeout, questions_max: 1, ..HttpOptions::default() };
    let server = serve_http(&Runtime::new(Planner::new()), options);
    let statement = "SELECT value, value AS again FROM sequence(rate => 10000000)";
    let mut unread = open(server.address(), &request("/subscribe", "", statement));
    until(&mut unread, "event: rows");
    // It does not hold back others for ever.
    wait_until("room", || ask(&server, "/query", "", "SELECT 1").status == 200);
    // What was on its way comes, and then the reason.
    assert!(until(&mut unread, "the client does not read the answer").contains("\"54000\""));
}

#[test]
fn long_values_are_cut_if_the_client_asks() {
    let server = serve();
    let statement = "SELECT repeat('tide', 1000) AS long, 'tide' AS short";
    let value = |path: &str| {
        let answer = ask(&server, path, "application/json", statement);
        let document: Value = serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("{answer:?}"));
        assert_eq!(document["rows"][0][1], "tide");
        document["rows"][0][0].as_str().unwrap().to_owned()
    };
    assert_eq!(value("/query").len(), 4000);
    assert_eq!(value("/query?value_bytes_max=6"), "tideti… (4000 bytes)");
    let answer = ask(&server, "/query?value_bytes_max=0", "application/json", statement);
    assert!(answer.status == 400 && answer.body.contains("value_bytes_max"), "{answer:?}");
}

#[test]
fn the_catalogue_and_the_stores_are_told() {
    let runtime = Runtime::new(Planner::new());
    let view = "CREATE MATERIALIZED VIEW \"a \"\"b\" AS SELECT value AS v, value * 2.0 AS x, value * 3.0 AS y
        FROM sequence(count => 50) WITH (key = 'v', point = 'x, y', retain_versions = 7)";
    start(&runtime, "a \"b", view);
    runtime.wait("a \"b").unwrap();
    let server = serve_http(&runtime, HttpOptions::default());
    let read = |path: &str| -> Value {
        let answer = support::get(server.address(), path);
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_str(&answer.body).unwrap()
    };
    let catalog = read("/api/catalog");
    let relation = &catalog["relations"][0];
    assert_eq!((&relation["name"], &relation["kind"]), (&"a \"b".into(), &"materialized view".into()));
    assert_eq!(relation["columns"][1], serde_json::json!({ "name": "x", "type": "double precision" }));
    let has = |list: &str, word: &str| catalog[list].as_array().unwrap().iter().any(|known| known == word);
    assert!(has("words", "WATERMARK") && has("functions", "st_distance") && !has("functions", "a \"b"));
    let stores = read("/api/stores");
    let store = &stores["stores"][0];
    let expected = serde_json::json!(["a \"b", 50, 7, ["v"], ["x", "y"]]);
    let told = ["name", "rows", "versions_max", "key", "point"].map(|field| store[field].clone());
    assert_eq!(Value::from(told.to_vec()), expected);
    // What it says can be read can be read, and nothing beyond.
    let [oldest, newest] = [0, 1].map(|end| store["cycles"][end].as_u64().unwrap());
    let count = |cycle| {
        let statement = format!("SELECT count(*) AS n FROM \"a \"\"b\" AS OF CYCLE {cycle}");
        ask(&server, "/query", "", &statement)
    };
    assert_eq!((count(oldest).status, count(newest + 1).status), (200, 400));
    assert!(count(newest).body.contains("{\"n\":50}"));
    let early = HttpServer::start("127.0.0.1:0".parse().unwrap(), HttpOptions::default()).unwrap();
    assert_eq!(support::get(early.address(), "/api/stores").status, 503);
}

/// What psql prints as NOTICE.
#[test]
fn notices_are_told_in_each_format() {
    let runtime = Runtime::new(Planner::new());
    start(&runtime, "v", "CREATE MATERIALIZED VIEW v AS SELECT value FROM sequence(rate => 1000)");
    let server = serve_http(&runtime, HttpOptions::default());
    wait_until("it has rows", || !ask(&server, "/query", "", "SELECT * FROM v LIMIT 1").body.is_empty());
    let stop = &parse("STOP MATERIALIZED VIEW v", "test").unwrap()[0];
    Session::new(&runtime).execute(stop).unwrap();
    let raw = |request: &str| {
        let mut bytes = Vec::new();
        open(server.address(), request).read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    for accept in ["", "text/csv", "application/json", "application/vnd.apache.arrow.stream"] {
        let answer = raw(&request("/query", accept, "SELECT count(*) AS n FROM v"));
        let (head, _) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains("x-tidemill-notice: 'v' is stopped; its rows are those after cycle "),
            "{answer}"
        );
    }
    let document = ask(&server, "/query", "application/json", "SELECT count(*) AS n FROM v");
    let document: Value = serde_json::from_str(&document.body).unwrap();
    assert!(document["notices"][0].as_str().unwrap().starts_with("'v' is stopped"), "{document}");
    let without = ask(&server, "/query", "application/json", "SELECT 1 AS n");
    assert!(!without.body.contains("notices"), "{}", without.body);
    // What is known only at the end follows the rows.
    let failing = "SELECT 10 / (value - 1) AS n FROM sequence(count => 3)";
    let answer = raw(
        &request("/query", "", failing).replace("Connection: close", "TE: trailers\r\nConnection: close")
    );
    let (_, after_head) = answer.split_once("\r\n\r\n").unwrap();
    assert!(after_head.contains("x-tidemill-notice: 1 row could not be used and is left out"), "{answer}");
}
