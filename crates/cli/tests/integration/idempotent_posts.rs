//! Requests with an `Idempotency-Key`: their rows count once, also after a kill, whoever sends them again.
#![cfg(unix)]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::support::child::wait_until;
use crate::support::run::Run;
use crate::support::served::{Served, has_psql};
use crate::support::*;
use tidemill_testing::ports::free_port;

/// Posts rows, and returns the status of the answer.
fn post(port: u16, key: &str, rows: &str) -> u16 {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let request = format!(
        "POST /write HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Idempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n{rows}",
        rows.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}

fn source(port: u16) -> String {
    format!(
        "CREATE SOURCE posts (n BIGINT) WITH (connector = 'http', listen = '127.0.0.1:{port}', format = 'json', \
         durable = true);
         CREATE MATERIALIZED VIEW total AS SELECT count(*) AS rows, sum(n) AS n FROM posts;"
    )
}

fn wait_for(server: &Served, total: &str) {
    wait_until("the view has the rows", || server.psql("SELECT rows, n FROM total") == format!("{total}\n"));
}

#[test]
fn a_key_counts_once_also_after_a_kill() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[]);
    let port = free_port();
    let mut server = Served::start(folder.path());
    server.psql(&source(port));
    assert_eq!(post(port, "order-1", "{\"n\":1}\n{\"n\":2}"), 204);
    assert_eq!(post(port, "order-1", "{\"n\":1}\n{\"n\":2}"), 204);
    assert_eq!(post(port, "order-2", "{\"n\":10}"), 204);
    wait_for(&server, "3|13");
    server.kill();
    let server = Served::start(folder.path());
    wait_until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    for key in ["order-2", "order-1"] {
        assert_eq!(post(port, key, "{\"n\":1000}"), 204);
    }
    assert_eq!(post(port, "order-3", "{\"n\":100}"), 204);
    wait_for(&server, "4|113");
    assert_eq!(post(port, "", "{\"n\":1000}"), 400);
    assert_eq!(post(port, &"k".repeat(513), "{\"n\":1000}"), 400);
    wait_for(&server, "4|113");
}

#[test]
fn what_a_killed_pipeline_posts_to_a_server_arrives_once() {
    if !has_psql() {
        return;
    }
    let port = free_port();
    let script = format!(
        "SET snapshot_every = '20 ms';
         CREATE SOURCE lines (n BIGINT) WITH (path = 'in.csv', format = 'csv', follow = true, durable = true);
         CREATE SINK posted AS SELECT n FROM lines
             WITH (connector = 'http', url = 'http://127.0.0.1:{port}/write', rows_max = 7);"
    );
    let folder = folder_with(&[("p.sql", &script), ("in.csv", "n\n")]);
    let server = Served::start(folder.path());
    server.psql(&source(port));
    let mut rows = 0;
    for _ in 0..4 {
        let mut file = fs::OpenOptions::new().append(true).open(folder.path().join("in.csv")).unwrap();
        for _ in 0..50 {
            rows += 1;
            writeln!(file, "{rows}").unwrap();
        }
        let mut run = Run::begin(folder.path());
        let some = rows - 40;
        run.wait_until("some are posted", || {
            server.psql("SELECT rows FROM total").trim().parse().is_ok_and(|there: u64| there >= some)
        });
        run.kill();
    }
    let mut run = Run::begin(folder.path());
    let all = format!("{rows}|{}", rows * (rows + 1) / 2);
    run.wait_until("all are there", || server.psql("SELECT rows, n FROM total") == format!("{all}\n"));
    run.interrupt();
    assert_eq!(server.psql("SELECT rows, n FROM total"), format!("{all}\n"));
}
