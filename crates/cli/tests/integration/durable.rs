//! Durable pipelines from end to end: agents post over HTTP, the command is killed again and again, and every answered
//! point is in the sinks once.
#![cfg(feature = "sql")]

use tidemill_testing::postgres::Server;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use crate::support::child::wait_until;
use crate::support::run::Run;
use crate::support::*;
use tidemill_testing::ports::free_port;
use tidemill_testing::sender::Sender;

const REQUESTS: u64 = 240;
const POINTS: u64 = 20;
const HOSTS: u64 = 3;

/// Points of all hosts, one each 50 ms; the last one closes all windows before it.
fn bodies() -> Vec<String> {
    let mut bodies: Vec<String> = (0..REQUESTS)
        .map(|request| {
            let mut body = String::new();
            for point in request * POINTS..(request + 1) * POINTS {
                let _ = writeln!(
                    body,
                    "cpu,host=h{} n={point}i,v={} {}",
                    point % HOSTS,
                    value(point),
                    1_700_000_000_000 + point * 50
                );
            }
            body
        })
        .collect();
    bodies.push(format!("cpu,host=end n=-1i,v=0 {}\n", 1_700_000_000_000 + REQUESTS * POINTS * 50 + 60_000));
    bodies
}

fn value(point: u64) -> f64 {
    ((point * 7919) % 1000) as f64 / 4.0
}

fn source(port: u16, options: &str) -> String {
    format!(
        "CREATE SOURCE m (host VARCHAR, n BIGINT, v DOUBLE, time TIMESTAMP NOT NULL,\n\
           WATERMARK FOR time AS time - INTERVAL '1 second')\n\
         WITH (connector = 'line_protocol', listen = 'http://127.0.0.1:{port}', durable = true{options});\n\
         SET snapshot_every = '20 ms';\n"
    )
}

const STATISTICS: &str = "SELECT window_start, host, count(*) AS points, min(v) AS least, max(v) AS most, sum(v) AS \
                          total FROM tumble(TABLE(m), time, INTERVAL '10 seconds') GROUP BY window_start, host";

/// Runs the pipeline until a sink has everything, and kills it after this many answers each time.
fn killed_after(folder: &Path, port: u16, kills: &[u64], mut has_all: impl FnMut() -> bool) {
    // The signal of Ctrl-C kills a command that has not come so far as to catch it.
    let running = || {
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        log.matches("Ctrl-C ends it cleanly").count()
    };
    let mut before = running();
    let mut child = Run::begin(folder);
    let sender = Sender::start(port, "agent-7", bodies());
    for &answers in kills {
        child.wait_until("so many are answered", || sender.answered() >= answers);
        // Every third time in order, at other times as hard as can be.
        match answers % 3 {
            0 => {
                child.wait_until("it can be interrupted", || running() > before);
                child.interrupt();
            }
            _ => child.kill(),
        }
        before = running();
        child = Run::begin(folder);
    }
    sender.join();
    wait_until("the sinks have all", &mut has_all);
    child.wait_until("it can be interrupted", || running() > before);
    child.interrupt();
    let log = fs::read_to_string(folder.join("log")).unwrap();
    // One that is killed at once says nothing, and on a busy machine that may be each but the last one.
    assert!(log.contains("resuming from"), "{log}");
}

/// The rows of the windows: start as milliseconds and host, then points, least, most, total.
fn expected() -> BTreeMap<(u64, String), (u64, f64, f64, f64)> {
    let mut rows = BTreeMap::new();
    for point in 0..REQUESTS * POINTS {
        let window = (1_700_000_000_000 + point * 50) / 10_000 * 10_000;
        let row = rows.entry((window, format!("h{}", point % HOSTS))).or_insert((
            0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            0.0,
        ));
        let v = value(point);
        *row = (row.0 + 1, row.1.min(v), row.2.max(v), row.3 + v);
    }
    rows
}

fn raw_rows(path: &Path) -> Vec<u64> {
    rows_of(path).iter().filter_map(|line| line.split(',').nth(1)?.parse().ok()).collect()
}

#[test]
fn killed_pipelines_write_each_answered_point_once() {
    let port = free_port();
    let script = source(port, "")
        + "CREATE SINK raw AS SELECT host, n, v FROM m WHERE n >= 0 WITH (connector = 'file', path = 'raw.csv');\n"
        + &format!("CREATE SINK stats AS {STATISTICS} WITH (connector = 'file', path = 'stats.csv');\n");
    let folder = folder_with(&[("p.sql", &script)]);
    let windows = expected();
    let stats = folder.path().join("stats.csv");
    let lines = || fs::read_to_string(&stats).unwrap_or_default().lines().count();
    killed_after(folder.path(), port, &[5, 60, 61, 140, 200], || lines() > windows.len());

    let rows = raw_rows(&folder.path().join("raw.csv"));
    assert_eq!(rows, (0..REQUESTS * POINTS).collect::<Vec<_>>());
    let text = fs::read_to_string(&stats).unwrap();
    assert_eq!(text.lines().count(), windows.len() + 1, "{text}");
    let points: u64 =
        text.lines().skip(1).map(|line| line.split(',').nth(2).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(points, REQUESTS * POINTS);
}

#[test]
fn a_postgres_table_has_each_window_once_though_all_is_killed() {
    let Some(server) = Server::start() else { return };
    let port = free_port();
    let script = source(port, "")
        + &format!(
            "CREATE SINK stats AS {STATISTICS} WITH (connector = 'postgres', url = '{}', table = 'stats', \
             create = true, retry_for = '60 seconds');\n",
            server.url()
        );
    let folder = folder_with(&[("p.sql", &script)]);
    let windows = expected();
    let count = || server.query("SELECT count(*) FROM stats");
    let mut restarted = false;
    killed_after(folder.path(), port, &[30, 120, 180], || {
        if !restarted {
            server.crash();
            server.resume();
            restarted = true;
        }
        count() == windows.len().to_string()
    });
    for ((window, host), (points, least, most, total)) in &windows {
        let row = server.query(&format!(
            "SELECT points, least, most, total FROM stats WHERE host = '{host}' AND window_start = \
             to_timestamp({}) AT TIME ZONE 'UTC'",
            window / 1000
        ));
        assert_eq!(row, format!("{points}|{least}|{most}|{total}"), "{window} {host}");
    }
}

#[test]
fn a_journal_can_be_listed_shown_checked_and_replayed() {
    let port = free_port();
    let script = source(port, "")
        + "CREATE SINK raw AS SELECT host, n, v FROM m WITH (connector = 'file', path = 'raw.csv');\n";
    let again = source(port, "") + "SELECT count(*) AS points, sum(n) AS total FROM m;\n";
    let folder = folder_with(&[("p.sql", &script), ("again.sql", &again)]);
    let child = Run::begin(folder.path());
    wait_until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let bodies: Vec<String> = bodies().into_iter().take(3).collect();
    Sender::start(port, "agent-7", bodies).join();
    wait_until("the sink has all", || raw_rows(&folder.path().join("raw.csv")).len() == 60);
    child.interrupt();

    let journal = |arguments: &[&str]| ended(folder.path(), &[&["journal"], arguments].concat());
    journal(&["ls", "p.journal"]).expect(0).shows(&["stream m: positions 0 to 59", "cuts: cycles 0 to"]);
    journal(&["show", "p.journal", "--cuts", "--limit", "1"]).expect(0).shows(&[
        "cycle 0 up to ",
        "closed at 20",
        " UTC",
    ]);
    journal(&["show", "p.journal", "--from", "58"]).expect(0).shows(&["58", "59", "h1", "h2"]);
    journal(&["verify", "p.journal"]).expect(0).tells(&["no damage"]);
    journal(&["replay", "p.journal", "again.sql"]).expect(0).shows(&["60", "1770"]);
    journal(&["ls", "nothing"]).expect(2).tells(&["'nothing' is not a journal"]);
    journal(&["show", "p.journal", "--stream", "x"]).expect(2).tells(&["x"]);
    damage_a_record(&folder.path().join("p.journal"));
    let found = journal(&["verify", "p.journal"]);
    assert_ne!(found.code, Some(0), "{found:?}");
    // A segment whose head is damaged cannot even be listed. That is damage, not a failure of `verify`.
    damage(&folder.path().join("p.journal"), |_| 30);
    let found = journal(&["verify", "p.journal"]).expect(3);
    assert_eq!(found.stdout.matches("byte 0: ").count(), 1, "{found:?}");
}

#[test]
fn a_pipeline_that_can_go_on_needs_no_repair_and_has_nothing_to_make_again() {
    let port = free_port();
    let script = source(port, "").replace("20 ms", "1 hour")
        + "CREATE SINK raw AS SELECT host, n, v FROM m WITH (connector = 'file', path = 'raw.csv');\n";
    let folder = folder_with(&[("p.sql", &script)]);
    let child = Run::begin(folder.path());
    wait_until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    Sender::start(port, "agent-7", bodies().into_iter().take(3).collect()).join();
    child.interrupt();
    let log = || fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(log().contains("60 rows in, 60 rows out"), "{}", log());

    let journal = |arguments: &[&str]| ended(folder.path(), &[&["journal"], arguments].concat());
    journal(&["verify", "p.journal", "p.sql"]).expect(0).tells(&["no damage", "the pipeline can resume"]);
    journal(&["repair", "p.journal", "p.sql"]).expect(0).tells(&["there is nothing to repair"]);
    let child = Run::begin(folder.path());
    wait_until("it resumes", || log().contains("resuming from"));
    child.interrupt();
    assert!(log().contains("0 events in the journal after it, 0 cycles to recompute"), "{}", log());
    assert!(log().contains("0 rows in, 0 rows out"), "{}", log());
    assert_eq!(raw_rows(&folder.path().join("raw.csv")).len(), 60);
}

/// Turns a byte over in the middle of what was written to the first stream.
fn damage_a_record(journal: &Path) {
    damage(journal, |length| length.min(600) / 2);
}

/// Turns a byte over in the first segment of the first stream, at a place computed from its length.
fn damage(journal: &Path, at: fn(usize) -> usize) {
    let find =
        Command::new("find").arg(journal.join("streams")).args(["-name", "*.segment"]).output().unwrap();
    let found = String::from_utf8(find.stdout).unwrap();
    let path = found.lines().next().expect("a segment");
    let mut bytes = fs::read(path).unwrap();
    let at = at(bytes.len());
    bytes[at] ^= 0x40;
    fs::write(path, bytes).unwrap();
}

#[test]
fn another_query_over_the_same_journal_is_refused() {
    let port = free_port();
    let source = source(port, "").replace("v DOUBLE,", "v DOUBLE, w AS v * 2,");
    let raw = "CREATE SINK raw AS SELECT host, w, n FROM m WITH (connector = 'file', path = 'raw.csv');\n";
    let folder = folder_with(&[("p.sql", &(source.clone() + raw))]);
    let child = Run::begin(folder.path());
    wait_until("it listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    Sender::start(port, "agent-7", bodies().into_iter().take(2).collect()).join();
    // Two of them at once would write into one journal.
    ended(folder.path(), &["run", "p.sql"]).expect(2).tells(&["another process is running this query"]);
    child.interrupt();
    let script = source + raw;
    for (before, after, told) in [
        ("n FROM", "n + 1 AS n FROM", "raw: "),
        ("INTERVAL '1 second'", "INTERVAL '5 seconds'", "event time of m: 'time', 1s behind"),
        ("w AS v * 2", "w AS v * 3", "column w of m: "),
    ] {
        fs::write(folder.path().join("p.sql"), script.replace(before, after)).unwrap();
        let refused = ended(folder.path(), &["run", "p.sql"]);
        assert!(refused.code == Some(2), "{before} is now {after}: {refused:?}");
        refused.tells(&["journal", told]);
    }
    fs::write(folder.path().join("p.sql"), script).unwrap();
    let child = Run::begin(folder.path());
    wait_until("it goes on", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    child.interrupt();
}
