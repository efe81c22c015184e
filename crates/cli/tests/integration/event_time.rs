//! Event time at intake: what live sources refuse, and how a backfill and a live source share time.
#![cfg(feature = "sql")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::child::{end, interrupt, start, wait_until};
use crate::support::*;
use tidemill_testing::ports::free_port;

fn begin(folder: &Path) -> Child {
    let mut command = tidemill(folder, &["run", "p.sql"]);
    command.stdin(Stdio::null());
    start(command)
}

/// Nanoseconds since 1970, this many seconds from now.
fn from_now(seconds: u64) -> u128 {
    (SystemTime::now() + Duration::from_secs(seconds)).duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

/// Posts once the pipeline listens; the status and the body of the answer.
fn post(port: u16, content: &str, body: &str) -> (u16, String) {
    let mut stream = None;
    wait_until("it listens", || {
        stream = TcpStream::connect(("127.0.0.1", port)).ok();
        stream.is_some()
    });
    let mut stream = stream.unwrap();
    let length = body.len();
    let head = format!(
        "POST /write HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {content}\r\nContent-Length: \
         {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// Runs a backfill beside a live source that is silent until the backfill has ended. Returns the windows of both, and what was said.
fn backfill_beside_a_silent_source(idle_after: &str) -> (Vec<String>, String) {
    let script = format!(
        "CREATE SOURCE backfill (at TIMESTAMP, v BIGINT, WATERMARK FOR at AS at) WITH (path = 'backfill.csv');
        CREATE SOURCE live (at TIMESTAMP, v BIGINT, WATERMARK FOR at AS at)
          WITH (path = 'live', format = 'csv', header = false, follow = true, idle_after = '{idle_after}');
        CREATE VIEW all_rows AS SELECT at, v FROM backfill UNION ALL SELECT at, v FROM live;
        CREATE SINK totals AS SELECT window_end, count(*) AS n, sum(v) AS total
          FROM tumble(TABLE(all_rows), at, INTERVAL '10 seconds') GROUP BY window_end WITH (path = 'totals.csv');
        CREATE SINK old AS SELECT window_end, count(*) AS n
          FROM tumble(TABLE(backfill), at, INTERVAL '10 seconds') GROUP BY window_end WITH (path = 'old.csv');"
    );
    let backfill = "at,v\n2026-01-01T00:00:01,1\n2026-01-01T00:00:02,2\n2026-01-01T00:00:11,4\n";
    let folder = folder_with(&[("p.sql", &script), ("backfill.csv", backfill)]);
    let folder = folder.path();
    fs::create_dir(folder.join("live")).unwrap();
    let child = begin(folder);
    wait_until("the backfill's own windows are written", || rows_of(&folder.join("old.csv")).len() == 2);
    std::thread::sleep(Duration::from_millis(200));
    let rows = "2026-01-01T00:00:03,8\n2026-01-01T00:00:12,16\n2026-01-01T00:00:25,32\n";
    fs::write(folder.join("live/a.csv"), rows).unwrap();
    let totals = folder.join("totals.csv");
    wait_until("the windows of both are written", || rows_of(&totals).len() == 2);
    interrupt(&child);
    (rows_of(&totals), end(child).expect(130).stderr)
}

#[test]
fn a_live_source_that_never_counts_as_idle_holds_the_windows_of_a_backfill_open() {
    let (windows, said) = backfill_beside_a_silent_source("0 s");
    assert_eq!(windows, ["2026-01-01 00:00:10,3,11", "2026-01-01 00:00:20,2,20"]);
    assert!(!said.contains("too late"), "{said}");
}

#[test]
fn rows_are_late_beside_a_backfill_that_has_ended_once_their_source_counts_as_idle() {
    let (windows, said) = backfill_beside_a_silent_source("50 ms");
    // The backfill has come to the eleventh second.
    assert_eq!(windows, ["2026-01-01 00:00:10,2,3", "2026-01-01 00:00:20,2,20"]);
    assert!(said.contains("too late"), "{said}");
}

#[test]
fn posted_rows_without_event_time_or_far_ahead_are_refused_line_by_line() {
    for durable in ["", ", durable = true"] {
        let port = free_port();
        let script = format!(
            "CREATE SOURCE m (host VARCHAR, v DOUBLE, time TIMESTAMP, WATERMARK FOR time AS time)
               WITH (connector = 'http', listen = '127.0.0.1:{port}'{durable});
             CREATE SINK raw AS SELECT host FROM m WITH (path = 'raw.csv');"
        );
        let folder = folder_with(&[("p.sql", &script)]);
        let folder = folder.path();
        let child = begin(folder);
        let (now, soon, far) = (from_now(0), from_now(1800), from_now(7200));
        let line = |host: &str, time: u128| format!("cpu,host={host} v=1 {time}\n");
        let body = [line("a", now), line("b", far), "\n".into(), line("c", soon), line("d", far)].concat();
        let (status, answer) = post(port, "text/plain", &body);
        assert_eq!(status, 400);
        assert!(
            answer.contains("partial write: 2 rows written, 2 lines skipped: line 2: its event time"),
            "{answer}"
        );
        assert!(
            answer.contains("line 5: its event time 'time'") && answer.contains("\"line\":2"),
            "{answer}"
        );
        assert!(answer.contains("is more than 1 hour ahead of this machine's clock"), "{answer}");

        let json =
            "{\"host\":\"e\",\"v\":1}\n{\"host\":\"f\",\"v\":1,\"time\":\"2200-01-01T00:00:00\"}\n{no json\n";
        let (status, answer) = post(port, "application/x-ndjson", json);
        assert_eq!(status, 400);
        let reasons = [
            "nothing was written: 0 rows written, 3 lines skipped: ",
            "line 1: it has no event time, because 'time' is NULL; ",
            "line 2: its event time 'time', 2200-01-01 00:00:00, is more than 1 hour ahead",
            "; line 3: not one JSON object",
        ];
        assert!(reasons.iter().all(|reason| answer.contains(reason)), "{answer}");

        // What was refused moved no time: this one is not late.
        assert_eq!(post(port, "text/plain", &line("g", soon)).0, 204);
        wait_until("the rows are written", || rows_of(&folder.join("raw.csv")).len() == 3);
        assert_eq!(rows_of(&folder.join("raw.csv")), ["a", "c", "g"]);
        interrupt(&child);
        let ended = end(child).expect(130).tells(&["3 rows in, 3 rows out", "5 rows could not be used"]);
        assert!(!ended.stderr.contains("too late"), "{}", ended.stderr);
        if durable.is_empty() {
            continue;
        }
        // What was let in stays in, also when it is replayed, and nothing is decided again.
        let child = begin(folder);
        assert_eq!(post(port, "text/plain", &line("h", soon)).0, 204);
        wait_until("the row is written", || rows_of(&folder.join("raw.csv")).len() == 4);
        assert_eq!(rows_of(&folder.join("raw.csv")), ["a", "c", "g", "h"]);
        interrupt(&child);
        end(child).expect(130);
    }
}

#[test]
fn a_row_whose_columns_cannot_be_computed_costs_that_row_only() {
    for durable in ["", ", durable = true"] {
        let port = free_port();
        let script = format!(
            "CREATE SOURCE m (t BIGINT, v BIGINT, at TIMESTAMP AS to_timestamp_seconds(t), share BIGINT AS 100 / v,
               WATERMARK FOR at AS at)
               WITH (connector = 'http', listen = '127.0.0.1:{port}', format = 'json'{durable});
             CREATE SINK raw AS SELECT v, share FROM m WITH (path = 'raw.csv');"
        );
        let folder = folder_with(&[("p.sql", &script)]);
        let folder = folder.path();
        let child = begin(folder);
        let rows = "{\"t\":1700000000,\"v\":1}\n{\"t\":9223372036854775807,\"v\":2}\n{\"t\":1700000001,\"v\":0}\n\
                    {\"t\":1700000002,\"v\":4}\n";
        let (status, answer) = post(port, "application/x-ndjson", rows);
        assert_eq!(status, 400);
        assert!(
            answer.contains("3 rows written, 1 line skipped: line 2: its event time 'at' cannot"),
            "{answer}"
        );
        wait_until("the rows are written", || rows_of(&folder.join("raw.csv")).len() == 2);
        assert_eq!(rows_of(&folder.join("raw.csv")), ["1,100", "4,25"]);
        interrupt(&child);
        end(child).expect(130).tells(&["2 rows could not be used", "Divide by zero"]);
        // The row that could not be computed is in the journal, and costs no more than itself again.
        if !durable.is_empty() {
            let child = begin(folder);
            assert_eq!(post(port, "application/x-ndjson", "{\"t\":1700000003,\"v\":5}\n").0, 204);
            wait_until("the row is written", || rows_of(&folder.join("raw.csv")).len() == 3);
            interrupt(&child);
            end(child).expect(130);
        }
    }
}

#[test]
fn a_row_far_ahead_that_comes_by_a_socket_or_a_followed_file_is_counted_and_makes_no_other_late() {
    let port = free_port();
    let tcp = format!("connector = 'tcp', listen = '127.0.0.1:{port}', format = 'csv', header = false");
    for options in [tcp.as_str(), "path = 'in.csv', follow = true, header = false"] {
        let script = format!(
            "CREATE SOURCE m (at TIMESTAMP, v BIGINT, WATERMARK FOR at AS at) WITH ({options});
             CREATE SINK raw AS SELECT v FROM m WITH (path = 'raw.csv');"
        );
        let rows = "2026-01-01T00:00:01,1\n2200-01-01T00:00:00,2\n,3\n2026-01-01T00:00:02,4\n";
        let folder = folder_with(&[("p.sql", &script), ("in.csv", rows)]);
        let folder = folder.path();
        let child = begin(folder);
        let mut stream = None;
        if options == tcp {
            wait_until("it listens", || {
                stream = TcpStream::connect(("127.0.0.1", port)).ok();
                stream.is_some()
            });
            stream.as_mut().unwrap().write_all(rows.as_bytes()).unwrap();
        }
        wait_until("the rows are written", || rows_of(&folder.join("raw.csv")).len() == 2);
        interrupt(&child);
        let ended = end(child).expect(130);
        let ended =
            ended.tells(&["2 rows could not be used", "2200-01-01 00:00:00, is more than 1 hour ahead"]);
        assert!(!ended.stderr.contains("too late"), "{}", ended.stderr);
        assert_eq!(rows_of(&folder.join("raw.csv")), ["1", "4"]);
    }
}

#[test]
fn a_file_that_is_read_once_has_no_bound_and_a_bound_can_be_switched_off() {
    let source = |options: &str| {
        format!("CREATE SOURCE m (at TIMESTAMP, v BIGINT, WATERMARK FOR at AS at) WITH ({options});\n")
    };
    let rows = "2200-01-01T00:00:00,1\n2200-01-01T00:00:01,2\n";
    let script = source("path = 'in.csv', header = false") + "SELECT sum(v) AS total FROM m;\n";
    let folder = folder_with(&[("p.sql", &script), ("in.csv", rows)]);
    let folder = folder.path();
    assert_eq!(ended(folder, &["run", "--format", "csv", "p.sql"]).expect(0).stdout, "total\n3\n");

    let cases = [
        ("path = 'in.csv', max_ahead = '1 hour'", "must not depend on the time"),
        ("path = 'in.csv', follow = true, max_ahead = '0 s'", "or 'none'"),
    ];
    for (options, words) in cases {
        fs::write(folder.join("p.sql"), source(options) + "SELECT v FROM m;\n").unwrap();
        ended(folder, &["run", "p.sql"]).expect(2).tells(&[words]);
    }
    let bounded = "CREATE SOURCE m (v BIGINT) WITH (connector = 'udp', listen = '127.0.0.1:0', format = 'json', \
                   max_ahead = '1 hour');\nSELECT v FROM m;\n";
    fs::write(folder.join("p.sql"), bounded).unwrap();
    ended(folder, &["run", "p.sql"]).expect(2).tells(&["this source has none", "WATERMARK FOR"]);

    let script = source("path = 'in.csv', follow = true, header = false, max_ahead = 'none'")
        + "CREATE SINK raw AS SELECT v FROM m WITH (path = 'raw.csv');\n";
    fs::write(folder.join("p.sql"), script).unwrap();
    let child = begin(folder);
    wait_until("the rows are written", || rows_of(&folder.join("raw.csv")).len() == 2);
    interrupt(&child);
    end(child).expect(130);
}
