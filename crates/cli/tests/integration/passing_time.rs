//! Views and sinks with conditions on `now()` under a server that is killed: rows leave when their time has come, also if none comes, and the past
//! is the same when it is replayed.
#![cfg(unix)]

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use crate::support::child::wait_until;
use crate::support::served::{Served, has_psql};
use crate::support::*;
use tidemill_testing::ports::free_port;
use tidemill_testing::sender::Sender;

fn now_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()
}

/// What a sink has written when the server was killed several times, and the folder of its database.
fn written_by_a_killed_server(snapshot_every: &str) -> (TempDir, String) {
    let root = folder_with(&[]);
    let folder = root.path();
    let mut server = Served::start(folder);
    let (listen, other) = (free_port(), free_port());
    let script = format!(
        "SET snapshot_every = '{snapshot_every}';
        CREATE SOURCE events (n BIGINT, time TIMESTAMP NOT NULL)
            WITH (connector = 'line_protocol', listen = 'http://127.0.0.1:{listen}', durable = true);
        CREATE SOURCE others (n BIGINT, time TIMESTAMP NOT NULL)
            WITH (connector = 'line_protocol', listen = 'http://127.0.0.1:{other}', durable = true);
        CREATE MATERIALIZED VIEW other AS SELECT count(*) AS n FROM others;
        CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM events;
        CREATE MATERIALIZED VIEW recent AS SELECT n FROM events WHERE time > now() - INTERVAL '1 second';
        CREATE SINK leaving WITH (connector = 'file', path = 'leaving.csv', emit = 'changes') AS
            SELECT n % 3 AS digit, count(*) AS n FROM events
            WHERE time > now() - INTERVAL '400 milliseconds' GROUP BY n % 3"
    );
    server.psql(&script);
    let mut sent = 0;
    let mut send = |(name, port): (&str, u16), requests: u64| {
        let body = |request: u64| {
            let rows = request * 5..request * 5 + 5;
            rows.map(|n| format!("{name} n={n}i {}\n", now_ms())).collect::<String>()
        };
        let bodies: Vec<String> = (sent..sent + requests).map(body).collect();
        // Each client counts its own requests.
        let client: &'static str = format!("agent-{sent}").leak();
        sent += requests;
        Sender::start(port, client, bodies).join();
    };
    for _ in 0..3 {
        for _ in 0..4 {
            send(("events", listen), 3);
            send(("others", other), 2);
            thread::sleep(Duration::from_millis(60));
        }
        server.kill();
        server = Served::start(folder);
    }
    wait_until("the view of all has every row", || server.psql("SELECT n FROM total") == "180\n");
    wait_until("the rows have left", || server.psql("SELECT count(*) FROM recent") == "0\n");
    let written = || std::fs::read_to_string(folder.join("leaving.csv")).unwrap_or_default();
    let sums = |written: &str| -> i64 {
        let weights =
            written.lines().skip(1).map(|line| line.rsplit(',').next().unwrap().parse::<i64>().unwrap());
        weights.sum()
    };
    wait_until("the sink has taken everything back", || {
        let written = written();
        written.lines().count() > 1 && sums(&written) == 0
    });
    server.kill();
    let written = written();
    (root, written)
}

#[test]
fn rows_leave_a_killed_server_in_time_and_in_the_same_bytes() {
    if !has_psql() {
        return;
    }
    let (folder, written) = written_by_a_killed_server("1 hour");
    for workers in ["1", "2", "5"] {
        let replay = ["journal", "replay", "--data", "tides", "--query", "leaving", "--format", "csv"];
        let replayed = ended(folder.path(), &[&replay[..], &["--workers", workers]].concat()).expect(0);
        assert!(replayed.stdout == written, "{workers}:\n{}\nis not\n{written}", replayed.stdout);
    }
}

#[test]
fn rows_that_a_snapshot_keeps_leave_in_time() {
    if has_psql() {
        written_by_a_killed_server("100 ms");
    }
}
