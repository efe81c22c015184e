//! `tidemill serve` is killed at any moment while an agent posts to its durable source: views and sinks come back with every row
//! that was answered, each once. psql is the client; where it is not installed, the test says so and passes, and in CI
//! (`TIDEMILL_CLIENTS=required`) it fails.
#![cfg(unix)]

use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::support::child::wait_until;
use crate::support::served::{Served, has_psql, psql};
use crate::support::*;
use tidemill_testing::ports::free_port;
use tidemill_testing::sender::Sender;

/// The numbers in a file below its first line, in order.
fn numbers(path: &Path) -> Vec<u64> {
    rows_of(path).iter().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn views_and_sinks_of_a_killed_server_have_every_answered_row_once() {
    if !has_psql() {
        return;
    }
    // By hand: TIDEMILL_KILLS=100.
    let kills = std::env::var("TIDEMILL_KILLS").map_or(4, |kills| kills.parse().unwrap());
    let folder = folder_with(&[]);
    let folder = folder.path();
    let mut server = Served::start(folder);
    let listen = free_port();
    let script = format!(
        "SET snapshot_every = '200 ms';
        CREATE SOURCE events (n BIGINT, time TIMESTAMP NOT NULL)
            WITH (connector = 'line_protocol', listen = 'http://127.0.0.1:{listen}', durable = true);
        CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, CAST(sum(n) AS BIGINT) AS s FROM events;
        CREATE MATERIALIZED VIEW each AS SELECT n FROM events WITH (fragments = 3, fragment_by = 'n / 10');
        CREATE SINK copy WITH (connector = 'file', path = 'copy.csv') AS SELECT n FROM events"
    );
    let created = server.psql(&script);
    assert!(created.ends_with("CREATE MATERIALIZED VIEW\nCREATE SINK\n"), "{created}");
    let rows_per_request = 10;
    let requests = 60 * (kills as u64 + 1);
    let line = |n: u64| format!("events n={n}i 1700000000000\n");
    let body = |request: u64| (request * 10..request * 10 + rows_per_request).map(line).collect::<String>();
    let sender = Sender::start(listen, "agent", (0..requests).map(body).collect());
    for kill in 1..=kills as u64 {
        wait_until("requests are answered", || sender.answered() >= kill * 50);
        thread::sleep(Duration::from_millis(kill * 37 % 100));
        server.kill();
        let answered = sender.answered() * rows_per_request;
        server = Served::start(folder);
        // Every answered row is in the view, which is never ahead of what was sent, and never a mixture of two cycles.
        wait_until("the view has every answered row", || {
            let text = server.psql("SELECT n, s FROM total");
            let Some((n, s)) = text.trim().split_once('|') else { return false };
            let (n, s): (u64, u64) = (n.parse().unwrap(), s.parse().unwrap());
            assert_eq!(s, n * n.saturating_sub(1) / 2, "the first {n} rows, each once");
            n >= answered
        });
    }
    sender.join();
    let rows = requests * rows_per_request;
    wait_until("the view has every row", || server.psql("SELECT n FROM total") == format!("{rows}\n"));
    let late = "CREATE MATERIALIZED VIEW late WITH (start = 'earliest') AS SELECT count(*) AS n FROM events";
    assert_eq!(server.psql(late), "CREATE MATERIALIZED VIEW\n");
    wait_until("a later view has every row", || server.psql("SELECT n FROM late") == format!("{rows}\n"));
    let agree = "SELECT count(*), count(DISTINCT e.n) FROM each AS e";
    // It is a query of its own, which need not be as far as the others.
    wait_until("the rows are there, each once", || server.psql(agree) == format!("{rows}|{rows}\n"));
    let all: Vec<u64> = (0..rows).collect();
    let in_order = all.iter().map(|n| format!("{n}\n")).collect::<String>();
    assert_eq!(server.psql("SELECT n FROM each"), in_order, "three fragments show the order of one store");
    let fragments = || server.psql("SHOW FRAGMENTS").lines().filter(|line| line.starts_with("each|")).count();
    assert_eq!(fragments(), 3);
    wait_until("the file has every row", || numbers(&folder.join("copy.csv")).len() >= all.len());
    assert_eq!(numbers(&folder.join("copy.csv")), all);
    let queries = server.psql("SHOW QUERIES");
    assert!(queries.lines().all(|line| line.split('|').nth(1) == Some("running")), "{queries}");
    server.stop();
}

#[test]
fn the_journal_of_a_database_is_shown_and_checked_and_says_what_helps_where_a_script_is_needed() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[("p.sql", "CREATE SINK s WITH (path = 's.csv') AS SELECT 1 AS n")]);
    let folder = folder.path();
    let mut server = Served::start(folder);
    let listen = free_port();
    let script = format!(
        "CREATE SOURCE events (n BIGINT, time TIMESTAMP NOT NULL)
            WITH (connector = 'line_protocol', listen = 'http://127.0.0.1:{listen}', durable = true);
        CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM events"
    );
    server.psql(&script);
    let body = |n: u64| format!("events n={n}i 1700000000000\n");
    Sender::start(listen, "agent", (0..20).map(body).collect()).join();
    wait_until("the view has every row", || server.psql("SELECT n FROM total") == "20\n");
    let journal = |arguments: &[&str]| ended(folder, &[&["journal"], arguments].concat());
    let text = |arguments: &[&str]| {
        let shown = journal(arguments);
        assert_eq!(shown.code, Some(0), "{arguments:?}: {}", shown.stderr);
        shown.stdout + &shown.stderr
    };
    let listed = text(&["ls", "tides/journal"]);
    assert!(listed.contains("stream events-1: positions 0 to 19"), "{listed}");
    assert!(listed.contains("it is the journal of a database"), "{listed}");
    let shown = text(&["show", "tides/journal", "--limit", "3", "--format", "csv"]);
    assert!(shown.contains("\n0,") && shown.contains("\n2,") && !shown.contains("\n3,"), "{shown}");
    let cuts = text(&["show", "tides/journal", "--cuts", "--limit", "1000"]);
    assert!(cuts.contains("the positions are those of events-1") && cuts.contains("up to 20"), "{cuts}");
    let verified = text(&["verify", "tides/journal"]);
    assert!(verified.contains("no damage"), "{verified}");
    assert!(text(&["verify", "tides/journal/query-total"]).contains("no damage"));
    for (arguments, instead) in [
        (&["skip", "tides/journal", "p.sql", "--positions", "3"][..], "a WHERE that leaves out such rows"),
        (&["skip", "tides/journal/query-total", "p.sql", "--positions", "3"], "in the journal above it"),
        (&["repair", "tides/journal", "p.sql"], "says why in SHOW QUERIES"),
        (&["verify", "tides/journal", "p.sql"], "says why in SHOW QUERIES"),
        (&["replay", "tides/journal", "p.sql"], "start = 'earliest'"),
    ] {
        let refused = journal(arguments);
        assert_eq!(refused.code, Some(2), "{arguments:?}: {}{}", refused.stdout, refused.stderr);
        assert!(
            refused.stderr.contains("of a database") && refused.stderr.contains(instead),
            "{}",
            refused.stderr
        );
    }
    assert!(!folder.join("s.csv").exists());
    server.kill();
}

#[test]
fn the_past_of_a_query_of_a_killed_server_is_replayed_byte_by_byte() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[]);
    let folder = folder.path();
    let mut server = Served::start(folder);
    let listen = free_port();
    let script = format!(
        "SET snapshot_every = '1 hour';
        CREATE SOURCE events (n BIGINT, time TIMESTAMP NOT NULL)
            WITH (connector = 'line_protocol', listen = 'http://127.0.0.1:{listen}', durable = true);
        CREATE SOURCE others (n BIGINT, time TIMESTAMP NOT NULL)
            WITH (connector = 'line_protocol', listen = 'http://127.0.0.1:{}', durable = true);
        CREATE MATERIALIZED VIEW other AS SELECT count(*) AS n FROM others;
        CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n FROM events;
        CREATE SINK counts WITH (connector = 'file', path = 'counts.csv') AS
            SELECT n % 3 AS digit, count(*) AS n, CAST(sum(n) AS BIGINT) AS s FROM events GROUP BY n % 3",
        free_port()
    );
    server.psql(&script);
    let body =
        |request: u64| (request * 10..request * 10 + 10).map(|n| format!("events n={n}i 1700000000000\n"));
    let sender = Sender::start(listen, "agent", (0..90).map(|request| body(request).collect()).collect());
    let replay = |arguments: &[&str]| {
        let replay = ["journal", "replay", "--data", "tides", "--query"];
        ended(folder, &[&replay[..], arguments].concat())
    };
    for answers in [30, 60] {
        wait_until("requests are answered", || sender.answered() >= answers);
        wait_until("a cycle is logged", || {
            server.psql("SELECT n FROM total").trim().parse::<u64>().is_ok_and(|n| n > 0)
        });
        // It is read while the server writes, too.
        replay(&["counts", "--format", "csv"]).expect(0);
        server.kill();
        server = Served::start(folder);
    }
    sender.join();
    wait_until("the view has every row", || server.psql("SELECT n FROM total") == "900\n");
    let counts = folder.join("counts.csv");
    let written = || std::fs::read_to_string(&counts).unwrap_or_default();
    let last_of = |digit: u64| 300 * digit + 3 * (299 * 300 / 2);
    wait_until("the sink has every row", || {
        (0..3).all(|digit| written().contains(&format!("{digit},300,{}\n", last_of(digit))))
    });
    let written = written();
    for workers in ["1", "2", "3"] {
        let replayed = replay(&["counts", "--format", "csv", "--workers", workers]).expect(0);
        assert!(replayed.stdout == written, "{workers}:\n{}\nis not\n{written}", replayed.stdout);
    }
    let looked = replay(&["total", "--look", "SELECT n FROM total", "--format", "csv"]).expect(0);
    assert_eq!(looked.stdout, "n\n900\n");
    replay(&["nothing"]).expect(2).tells(&["no sink with an input and no materialized view 'nothing'"]);
    ended(folder, &["journal", "replay", "tides/journal", "--script", "counts.csv"])
        .expect(2)
        .tells(&["that of a database", "--query"]);
    server.kill();
}

#[test]
fn a_server_that_is_killed_while_it_replaces_a_view_has_the_old_one_or_the_new_one() {
    if !has_psql() {
        return;
    }
    // By hand: TIDEMILL_KILLS=100.
    let kills = std::env::var("TIDEMILL_KILLS").map_or(4, |kills| kills.parse().unwrap());
    let folder = folder_with(&[]);
    let folder = folder.path();
    let mut server = Served::start(folder);
    let listen = free_port();
    let script = format!(
        "SET snapshot_every = '200 ms';
        CREATE SOURCE events (n BIGINT, time TIMESTAMP NOT NULL)
            WITH (connector = 'line_protocol', listen = 'http://127.0.0.1:{listen}', durable = true);
        CREATE MATERIALIZED VIEW v AS SELECT count(*) AS rows FROM events"
    );
    let created = server.psql(&script);
    assert!(created.ends_with("CREATE MATERIALIZED VIEW\n"), "{created}");
    let rows = 20_000;
    let line = |n: u64| format!("events n={n}i 1700000000000\n");
    let body = |request: u64| (request * 100..request * 100 + 100).map(line).collect::<String>();
    let sender = Sender::start(listen, "agent", (0..rows / 100).map(body).collect());
    sender.join();
    let sum = rows * (rows - 1) / 2;
    // A different form each time, so that none keeps the state of the one before.
    let form = |kill: u64| {
        format!("SELECT count(*) + {kill} - {kill} AS rows, CAST(sum(n) AS BIGINT) AS s FROM events")
    };
    let reads = |server: &Served| server.psql("SELECT * FROM v");
    let mut replaced = 0;
    for kill in 1..=kills as u64 {
        let (asked, statement) =
            (server.port.clone(), format!("CREATE OR REPLACE MATERIALIZED VIEW v AS {}", form(kill)));
        let replacing = thread::spawn(move || psql(&asked, &statement));
        // Anywhere between before it begins and after it is done.
        thread::sleep(Duration::from_millis((kill * 131) % 400));
        server.kill();
        let answer = replacing.join().unwrap();
        server = Served::start(folder);
        let is_new = format!("{rows}|{sum}\n");
        let is_whole = |text: &str| text == is_new || (replaced == 0 && text == format!("{rows}\n"));
        wait_until("the view is there, in one form", || is_whole(&reads(&server)));
        if answer.contains("CREATE MATERIALIZED VIEW") {
            assert!(answer.contains("computed again from the first row"), "{answer}");
            assert_eq!(reads(&server), is_new, "it was answered");
        }
        replaced += u32::from(reads(&server) == is_new);
        let folders = std::fs::read_dir(folder.join("tides/journal")).unwrap().flatten();
        let of_view = folders.filter(|entry| entry.file_name().to_string_lossy().starts_with("query-v"));
        assert_eq!(of_view.count(), 1, "what is not needed is removed");
    }
    // Without a kill, it is done when it is answered.
    let last = format!("CREATE OR REPLACE MATERIALIZED VIEW v AS {}", form(1000));
    assert!(server.psql(&last).contains("computed again"));
    assert_eq!(reads(&server), format!("{rows}|{sum}\n"));
    server.stop();
}

#[test]
fn a_database_that_was_moved_has_its_state() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[]);
    let folder = folder.path();
    let mut server = Served::start(folder);
    let listen = free_port();
    let script = format!(
        "CREATE SOURCE events (n BIGINT, time TIMESTAMP NOT NULL)
            WITH (connector = 'line_protocol', listen = 'http://127.0.0.1:{listen}', durable = true);
        CREATE MATERIALIZED VIEW v AS SELECT count(*) AS rows FROM events"
    );
    server.psql(&script);
    Sender::start(listen, "agent", vec!["events n=1i 1700000000000\n".repeat(10)]).join();
    wait_until("the view has every row", || server.psql("SELECT rows FROM v") == "10\n");
    server.stop();
    std::fs::create_dir(folder.join("elsewhere")).unwrap();
    std::fs::rename(folder.join("tides"), folder.join("elsewhere/tides")).unwrap();
    let mut server = Served::of(folder, "elsewhere/tides");
    wait_until("the view has its rows", || server.psql("SELECT rows FROM v") == "10\n");
    server.stop();
}

/// A relative path means the folder in which the server ran when the sink was created, wherever it runs later; and what is stopped
/// or altered is so after a kill.
#[test]
fn a_server_that_is_started_elsewhere_continues_the_same_files() {
    if !has_psql() {
        return;
    }
    let folder = folder_with(&[("in.csv", "n\n1\n2\n")]);
    let folder = folder.path();
    let elsewhere = folder.join("other");
    std::fs::create_dir(&elsewhere).unwrap();
    let mut server = Served::start(folder);
    let script = "CREATE SOURCE events (n BIGINT) WITH (path = 'in.csv', follow = true, durable = true);
        CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM events;
        CREATE SINK copy WITH (path = 'copy.csv') AS SELECT n FROM events";
    let created = server.psql(script);
    assert!(created.ends_with("CREATE SINK\n"), "{created}");
    let copy = folder.join("copy.csv");
    wait_until("both rows are written", || numbers(&copy) == [1, 2]);
    let altered = server.psql("ALTER SINK copy SET (max_latency = '1 s')");
    assert!(altered.starts_with("ALTER SINK\n") && altered.contains("keeps its state"), "{altered}");
    let stopped = server.psql("STOP SINK copy");
    assert!(stopped.starts_with("STOP\n") && stopped.contains("START continues there"), "{stopped}");
    server.kill();
    let mut server = Served::of(&elsewhere, "../tides");
    let mut file = std::fs::OpenOptions::new().append(true).open(folder.join("in.csv")).unwrap();
    writeln!(file, "3").unwrap();
    wait_until("the view has the new row", || server.psql("SELECT n FROM v") == "3\n");
    let queries = server.psql("SHOW QUERIES");
    assert!(queries.starts_with("copy|stopped|") && queries.contains("v|running|"), "{queries}");
    let started = server.psql("START SINK copy");
    assert!(started.starts_with("START\n") && started.contains("continues behind cycle"), "{started}");
    wait_until("the new row is written", || numbers(&copy) == [1, 2, 3]);
    assert!(!elsewhere.join("copy.csv").exists());
    server.stop();
}
