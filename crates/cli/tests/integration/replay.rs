//! `tidemill journal replay`: the logged cycles of a pipeline that was killed again and again, compared byte by byte with
//! what its file sinks got the first time.
#![cfg(all(unix, feature = "sql"))]

use crate::support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::support::replayed::{replay, sinks};
use crate::support::run::Run;
use crate::support::*;
use tempfile::TempDir;
use tidemill_testing::ports::free_port;
use tidemill_testing::sender::Sender;

const REQUESTS: u64 = 60;
const POINTS: u64 = 20;
/// The sinks that are compared: rows as they come, windows, changes of a table in each cycle, and a join.
const SINKS: [&str; 4] = ["raw", "stats", "totals", "pairs"];

/// Points of three hosts, some of them late; the last one closes all windows.
fn bodies() -> Vec<String> {
    let line = |host: &str, n: u64, time_ms: u64| {
        format!("cpu,host={host} n={n}i,v={} {time_ms}\n", ((n * 7919) % 1000) as f64 / 4.0)
    };
    let body = |request: u64| {
        let mut body = String::new();
        for n in request * POINTS..(request + 1) * POINTS {
            let late_ms = if n % 17 == 16 { 30_000 } else { 0 };
            let _ = write!(body, "{}", line(&format!("h{}", n % 3), n, 1_700_000_000_000 + n * 50 - late_ms));
        }
        body
    };
    let end = line("end", REQUESTS * POINTS, 1_700_000_000_000 + REQUESTS * POINTS * 50 + 60_000);
    (0..REQUESTS).map(body).chain([end]).collect()
}

/// A pipeline with four sinks, in cycles of up to this many events.
fn pipeline(port: u16, cycle_events: u32) -> TempDir {
    let script = format!(
        "CREATE SOURCE m (host VARCHAR, n BIGINT, v DOUBLE, time TIMESTAMP NOT NULL,
           WATERMARK FOR time AS time - INTERVAL '1 second')
         WITH (connector = 'line_protocol', listen = 'http://127.0.0.1:{port}', durable = true);
         SET snapshot_every = '20 ms'; SET cycle_events = {cycle_events};
         CREATE SINK raw AS SELECT host, n, v FROM m WITH (connector = 'file', path = 'raw.csv');
         {}",
        sinks("n", "200 milliseconds")
    );
    folder_with(&[("p.sql", &script)])
}

/// Runs a pipeline until its sinks have everything, and kills it after this many answers each time.
fn killed_after(folder: &Path, port: u16, kills: &[u64]) {
    let mut run = Run::begin(folder);
    let sender = Sender::start(port, "agent", bodies());
    for &answers in kills {
        run.wait_until("so many are answered", || sender.answered() >= answers);
        run.kill();
        run = Run::begin(folder);
    }
    sender.join();
    run.wait_until("the sink has all", || {
        let text = fs::read_to_string(folder.join("raw.csv")).unwrap_or_default();
        text.lines().count() as u64 > REQUESTS * POINTS - REQUESTS * POINTS / 17
            && text.contains(&format!("end,{}", REQUESTS * POINTS))
    });
    run.interrupt();
}

/// What a sink got, as a text for programs.
fn replayed(folder: &Path, sink: &str, arguments: &[&str]) -> String {
    let mut all = vec!["--sink", sink, "--format", "csv"];
    all.extend(arguments);
    replay(folder, &all).expect(0).stdout
}

/// The contents of all files below a folder.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(contents(&path))
        } else {
            drop(files.insert(path.clone(), fs::read(&path).unwrap()))
        }
    }
    files
}

/// The cycles whose states are kept.
fn states(folder: &Path) -> Vec<u64> {
    let names = fs::read_dir(folder.join("p.journal/snapshots")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut states: Vec<u64> =
        names.filter_map(|name| name.strip_suffix(".snapshot")?.parse().ok()).collect();
    states.sort_unstable();
    states
}

#[test]
fn a_replay_has_the_bytes_of_the_first_time_whatever_was_killed_and_by_any_workers() {
    for (cycle_events, workers) in [(7, ["1", "2", "3"]), (100, ["3", "1", "2"]), (100_000, ["2", "3", "1"])]
    {
        let port = free_port();
        let folder = pipeline(port, cycle_events);
        let folder = folder.path();
        killed_after(folder, port, &[5, 25, 45]);
        let before = contents(folder);
        for (sink, workers) in SINKS.iter().zip(workers.iter().cycle()) {
            let written = fs::read_to_string(folder.join(format!("{sink}.csv"))).unwrap();
            assert!(written.lines().count() > 10, "{sink}: {written}");
            let once = replayed(folder, sink, &["--workers", workers]);
            assert!(once == written, "{sink}, {cycle_events}, {workers}:\n{once}\nis not\n{written}");
            assert_eq!(replayed(folder, sink, &["--workers", "2"]), once, "{sink} again");
        }
        // What is before a state and what is after it is everything.
        let state = *states(folder).last().expect("there is a state");
        let written = fs::read_to_string(folder.join("totals.csv")).unwrap();
        let (to, from) = (state.to_string(), format!("--from-snapshot={}", states(folder)[0]));
        let first = states(folder)[0].to_string();
        assert_eq!(
            replayed(folder, "totals", &["--to-cycle", &to]),
            written,
            "the last state is that of the end"
        );
        let start = replayed(folder, "totals", &["--to-cycle", &first]);
        if states(folder)[0] < state {
            let rest = replayed(folder, "totals", &[&from]);
            let (_, rest) = rest.split_once('\n').unwrap();
            assert_eq!(start + rest, written);
        }
        let mut after = contents(folder);
        // What splitting costs on this machine is not part of the journal.
        after.retain(|path, _| !path.starts_with(folder.join("cache")));
        let before: BTreeMap<_, _> =
            before.into_iter().filter(|(path, _)| !path.starts_with(folder.join("cache"))).collect();
        assert!(after == before, "a replay changes no file");
    }
}

#[test]
fn a_replay_beside_a_running_pipeline_disturbs_nothing() {
    let port = free_port();
    let folder = pipeline(port, 50);
    let folder = folder.path();
    let mut run = Run::begin(folder);
    let sender = Sender::start(port, "agent", bodies());
    let mut seen = Vec::new();
    for answers in [5, 20, 40] {
        run.wait_until("so many are answered", || sender.answered() >= answers);
        // What a sink has written is in a logged cycle.
        run.wait_until("something is written", || {
            fs::read_to_string(folder.join("totals.csv")).is_ok_and(|text| text.lines().count() > 1)
        });
        seen.push(replayed(folder, "totals", &[]));
        run.expect_running();
    }
    sender.join();
    run.wait_until("the sink has all", || {
        fs::read_to_string(folder.join("raw.csv")).is_ok_and(|text| text.contains("end,"))
    });
    run.interrupt();
    let written = fs::read_to_string(folder.join("totals.csv")).unwrap();
    for text in seen {
        assert!(
            text.lines().count() > 1 && written.starts_with(&text),
            "{text}\nis not how this begins:\n{written}"
        );
    }
    assert_eq!(replayed(folder, "totals", &[]), written);
}

#[test]
fn a_cycle_is_found_by_its_time_and_shows_its_rows() {
    let port = free_port();
    let folder = pipeline(port, 50);
    let folder = folder.path();
    killed_after(folder, port, &[20]);
    // Each row of the input is in one cycle, and the cycle says which rows it wrote.
    let cuts =
        ended(folder, &["journal", "show", "p.journal", "--cuts", "--limit", "100000"]).expect(0).stdout;
    let cuts: Vec<(String, u64)> = cuts
        .lines()
        .map(|line| {
            let (head, closed) = line.split_once(", closed at ").unwrap();
            let position = head.rsplit(' ').next().unwrap().parse().unwrap();
            (closed.split(" UTC").next().unwrap().to_owned(), position)
        })
        .collect();
    let cycle = cuts.windows(2).position(|pair| pair[0].1 < pair[1].1).unwrap() + 1;
    let (start, end) = (cuts[cycle - 1].1, cuts[cycle].1);
    let number = cycle.to_string();
    let rows = replay(folder, &["--rows-of", &number, "--format", "csv"]).expect(0);
    let positions: Vec<u64> =
        rows.stdout.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    assert_eq!(positions, (start..end).collect::<Vec<_>>());
    let shown = ended(
        folder,
        &[
            "journal",
            "show",
            "p.journal",
            "--from",
            &start.to_string(),
            "--limit",
            &(end - start).to_string(),
            "--format",
            "csv",
        ],
    );
    let shown = shown.expect(0).stdout;
    let without: Vec<&str> = rows.stdout.lines().map(|line| line.split_once(',').unwrap().1).collect();
    assert_eq!(without, shown.lines().collect::<Vec<_>>());
    let by_time = replayed(folder, "raw", &["--at", &cuts[cycle].0]);
    let last = cuts.iter().rposition(|(closed, _)| *closed <= cuts[cycle].0).unwrap().to_string();
    assert_eq!(by_time, replayed(folder, "raw", &["--to-cycle", &last]));
    let table = replay(folder, &["--to-cycle", &number, "--from-cycle", &number]).expect(0);
    let closed = &cuts[cycle].0;
    table.shows(&[&format!("cycle {number}, closed at {closed} UTC: "), "to raw"]);
}

#[test]
fn what_cannot_be_replayed_says_where_why_and_what_helps() {
    let port = free_port();
    let folder = pipeline(port, 50);
    let folder = folder.path();
    killed_after(folder, port, &[]);
    let other = fs::read_to_string(folder.join("p.sql")).unwrap().replace("max(v)", "min(v)");
    fs::write(folder.join("other.sql"), other).unwrap();
    ended(folder, &["journal", "replay", "p.journal", "--script", "other.sql"]).expect(2).tells(&[
        "the journal belongs to a different query",
        "max",
        "min",
    ]);
    replay(folder, &["--to-cycle", "1000000"])
        .expect(2)
        .tells(&["cycle 1000000 cannot be replayed", "has the cycles 0 to "]);
    replay(folder, &["--from-snapshot=1000000"])
        .expect(2)
        .tells(&["has no state after cycle 1000000", "it has th"]);
    replay(folder, &["--format", "csv"]).expect(2).tells(&["choose one", "--sink pairs or --sink raw"]);
    replay(folder, &["--sink", "nobody"])
        .expect(2)
        .tells(&["there is no sink or view 'nobody'", "--sink raw"]);
    replay(folder, &["--at", "yesterday"]).expect(2).tells(&["'yesterday' is not a time"]);
    replay(folder, &["--at", "2001-01-01 00:00:00"])
        .expect(2)
        .tells(&["no cycle of", "was closed at that time"]);
    ended(folder, &["journal", "replay", "nowhere", "--script", "p.sql"])
        .expect(2)
        .tells(&["'nowhere' is not the journal of a query"]);
    let whole = replayed(folder, "raw", &[]);

    // Some bytes in the middle of the rows: what is before it comes out, and then the reason.
    let segments = folder.join("p.journal/streams/m");
    let segment = fs::read_dir(&segments).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&segment).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[used / 2..used / 2 + 64].iter_mut().for_each(|byte| *byte ^= 0x55);
    fs::write(&segment, bytes).unwrap();
    let damaged = replay(folder, &["--sink", "raw", "--format", "csv"]).expect(1);
    assert!(
        whole.starts_with(&damaged.stdout)
            && damaged.stdout.len() > 100
            && damaged.stdout.len() < whole.len()
    );
    let text = damaged.tells(&["goes up to position", "of 'm'", "journal verify", "--to-cycle"]).stderr;
    // The remedy helps.
    let cycle = text.split("--to-cycle ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(whole.starts_with(&replayed(folder, "raw", &["--to-cycle", cycle])));
}

#[test]
fn a_torn_end_is_not_replayed() {
    let port = free_port();
    let folder = pipeline(port, 50);
    let folder = folder.path();
    killed_after(folder, port, &[20]);
    let whole = replayed(folder, "raw", &[]);
    // The last cut was only half written when the machine stopped.
    let segments = folder.join("p.journal/cuts");
    let segment = fs::read_dir(&segments).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&segment).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[used - 3..=used].fill(0);
    fs::write(&segment, bytes).unwrap();
    let replayed = replayed(folder, "raw", &[]);
    assert!(whole.starts_with(&replayed) && replayed.lines().count() > 10);
}

#[test]
fn results_are_looked_at_as_of_a_cycle_and_versions_are_compared() {
    let rows = "customer,amount\nann,5\nbob,7\nann,1\ncat,2\nbob,3\nann,4\n";
    let script = |sum: &str| {
        format!(
            "SET cycle_events = 2; SET cycle_fixed = true;
             CREATE SOURCE orders (customer VARCHAR, amount BIGINT) WITH (path = 'orders.csv', durable = true);
             CREATE SINK totals AS SELECT customer, {sum} AS total FROM orders GROUP BY customer
               WITH (path = 'totals.csv');
             CREATE MATERIALIZED VIEW large AS SELECT customer, amount FROM orders WHERE amount > 3;"
        )
    };
    let scripts =
        [("p.sql", script("sum(amount)")), ("q.sql", script("sum(amount) FILTER (WHERE amount > 1)"))];
    let scripts: Vec<(&str, &str)> = scripts.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let folder = folder_with(&scripts);
    let folder = folder.path();
    fs::write(folder.join("orders.csv"), rows).unwrap();
    ended(folder, &["run", "p.sql"]).expect(0);
    let look = |cycle: &str, query: &str| {
        replay(folder, &["--to-cycle", cycle, "--look", query, "--format", "csv"]).expect(0).stdout
    };
    let totals = "SELECT customer, total FROM totals ORDER BY customer";
    assert_eq!(look("0", totals), "customer,total\nann,5\nbob,7\n");
    assert_eq!(look("1", totals), "customer,total\nann,6\nbob,7\ncat,2\n");
    assert_eq!(look("2", totals), "customer,total\nann,10\nbob,10\ncat,2\n");
    let both = "SELECT t.customer, t.total, l.amount FROM totals t JOIN large l ON l.customer = t.customer \
                ORDER BY l.amount";
    assert_eq!(look("1", both), "customer,total,amount\nann,6,5\nbob,7,7\n");

    // Forward twice, back once, to a cycle, past the end.
    let steps = ["journal", "replay", "p.journal", "--script", "p.sql", "--sink", "totals", "--step"];
    let mut child = support::child::start(tidemill(folder, &steps));
    child.stdin.take().unwrap().write_all(b"\n\np\n0\n2\n\nq\n").unwrap();
    let stepped = support::child::end(child).expect(0).tells(&["no later cycle has rows"]);
    let heads = stepped.stdout.lines().filter_map(|line| line.strip_prefix("cycle ")?.split(',').next());
    assert_eq!(heads.collect::<Vec<_>>(), ["0", "1", "2", "1", "0", "2"]);

    let diff = |arguments: &[&str]| {
        let mut all = vec!["journal", "diff", "p.journal", "--script", "p.sql", "--sink", "totals"];
        all.extend(arguments);
        ended(folder, &all)
    };
    // Without the order of 1, ann has 5 instead of 6, and then 9 instead of 10.
    let versions = diff(&["--with", "q.sql"]).expect(3);
    let lines: Vec<&str> = versions.stdout.lines().collect();
    let cycle = |line: &str| line.split(", closed at ").next().unwrap().to_owned();
    let lines: Vec<String> = lines.into_iter().map(cycle).collect();
    assert_eq!(
        lines,
        ["--- p.sql", "+++ q.sql", "cycle 1", "+ann,5", "-ann,6", "cycle 2", "-ann,10", "+ann,9"]
    );
    diff(&["--with", "q.sql", "--to-cycle", "0"]).expect(0).tells(&["(0 differences)"]);
    diff(&["--with", "p.sql"]).expect(0).tells(&["(0 differences)"]);
    let cycles = diff(&["--cycles", "0", "1"]).expect(3).stdout;
    assert_eq!(cycles, "--- after cycle 0\n+++ after cycle 1\n-ann,5\n+ann,6\n+cat,2\n");
    let other = fs::read_to_string(folder.join("p.sql")).unwrap().replace("orders", "refunds");
    fs::write(folder.join("refunds.sql"), other).unwrap();
    diff(&["--with", "refunds.sql"]).expect(2).tells(&["has no source 'refunds'"]);
}
