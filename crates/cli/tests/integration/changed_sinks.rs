//! Sinks that are added to a durable script and removed from it: the others continue where they were, whatever is killed when.
#![cfg(feature = "sql")]

use tidemill_testing::postgres::Server;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;

use crate::support::run::{Run, log};
use crate::support::*;
use tempfile::TempDir;
use tidemill_testing::random::Random;

const SOURCE: &str = "CREATE SOURCE orders (id BIGINT, amount BIGINT) WITH (path = 'orders.csv', header = true, \
                      follow = true, durable = true);\nSET snapshot_every = '20 ms';\n";
/// A table: it has state for each of ten keys.
const SUMS: &str = "CREATE SINK sums AS SELECT amount % 10 AS k, count(*) AS n, sum(id) AS ids FROM orders GROUP BY 1 \
                    WITH (path = 'sums.csv');\n";
/// Another table, with other state.
const TOTAL: &str =
    "CREATE SINK total AS SELECT count(*) AS n, max(id) AS last FROM orders WITH (path = 'total.csv');\n";
/// No state.
const LARGE: &str =
    "CREATE SINK large AS SELECT id FROM orders WHERE amount >= 50 WITH (path = 'large.csv');\n";
/// How many rows there were since it began.
const SINCE: &str =
    "CREATE SINK since AS SELECT count(*) AS n, min(id) AS first FROM orders WITH (path = 'since.csv');\n";

fn amount(id: u64) -> u64 {
    id * 7919 % 100
}

fn append(folder: &Path, ids: Range<u64>) {
    let mut file = OpenOptions::new().append(true).open(folder.join("orders.csv")).unwrap();
    let lines: String = ids.map(|id| format!("{id},{}\n", amount(id))).collect();
    file.write_all(lines.as_bytes()).unwrap();
}

fn write(folder: &Path, sinks: &[&str]) {
    fs::write(folder.join("p.sql"), format!("{SOURCE}{}", sinks.concat())).unwrap();
}

/// A folder in which a script with these sinks is to run.
fn begun(sinks: &[&str]) -> TempDir {
    let folder = folder_with(&[("orders.csv", "id,amount\n")]);
    write(folder.path(), sinks);
    folder
}

/// The whole lines of a file, without its header.
fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    whole.lines().skip(1).map(str::to_owned).collect()
}

/// The last line of each key, which is the first field.
fn table(path: &Path) -> BTreeMap<String, String> {
    let lines = lines(path).into_iter();
    lines
        .filter_map(|line| line.split_once(',').map(|(key, rest)| (key.to_owned(), rest.to_owned())))
        .collect()
}

fn sums(ids: Range<u64>) -> BTreeMap<String, String> {
    let mut all: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for id in ids {
        let of_key = all.entry(amount(id) % 10).or_default();
        *of_key = (of_key.0 + 1, of_key.1 + id);
    }
    all.into_iter().map(|(key, (n, ids))| (key.to_string(), format!("{n},{ids}"))).collect()
}

fn large(ids: Range<u64>) -> Vec<String> {
    ids.filter(|id| amount(*id) >= 50).map(|id| id.to_string()).collect()
}

fn has_sums(folder: &Path, rows: u64) -> bool {
    table(&folder.join("sums.csv")) == sums(0..rows)
}

fn last(folder: &Path, sink: &str) -> String {
    lines(&folder.join(format!("{sink}.csv"))).last().cloned().unwrap_or_default()
}

/// Runs the script until `sums` has this many rows, and ends it in order.
#[track_caller]
fn run_to(folder: &Path, rows: u64, also: impl Fn() -> bool) {
    let before = log(folder).len();
    let mut run = Run::begin(folder);
    run.wait_until("all rows are answered", || {
        log(folder)[before..].contains("Ctrl-C ends it cleanly") && has_sums(folder, rows) && also()
    });
    run.interrupt();
}

/// The position with which a new sink has begun, as the command has said.
fn began(folder: &Path, sink: &str) -> u64 {
    let log = log(folder);
    let told = format!("sink '{sink}' is new and begins with position ");
    let at = log.rfind(&told).unwrap_or_else(|| panic!("not told:\n{log}")) + told.len();
    log[at..].split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn comments_spaces_and_options_of_sinks_are_not_part_of_the_query() {
    let folder = begun(&[SUMS]);
    let folder = folder.path();
    append(folder, 0..500);
    run_to(folder, 500, || true);
    let commented = SUMS.replace("SELECT", "SELECT -- the last digit\n").replace(", sum", ",\n\n   sum");
    write(folder, &["/* why */\n", &commented, "-- the end\n"]);
    append(folder, 500..700);
    run_to(folder, 700, || true);
    assert!(!log(folder).contains("is new"), "{}", log(folder));
}

#[test]
fn a_sink_is_added_and_another_one_removed_at_once() {
    let folder = begun(&[TOTAL, SUMS]);
    let folder = folder.path();
    append(folder, 0..1000);
    run_to(folder, 1000, || last(folder, "total") == "1000,999");
    let total = fs::read(folder.join("total.csv")).unwrap();

    // The operator of `sums` is the first one now, and that of `since` has the number that it had.
    write(folder, &[SUMS, SINCE, LARGE]);
    append(folder, 1000..1500);
    run_to(folder, 1500, || {
        last(folder, "since") == "500,1000" && lines(&folder.join("large.csv")) == large(1000..1500)
    });
    let told = log(folder);
    for words in [
        "sink 'total' is gone from the script; what it has written stays",
        "the state of what no sink needs any more is dropped: ",
        "sink 'since' is new and begins with position 1000 of 'orders', without the rows before",
        "unchanged, and continued: sums",
    ] {
        assert!(told.contains(words), "no '{words}' in:\n{told}");
    }
    assert_eq!(fs::read(folder.join("total.csv")).unwrap(), total, "nobody writes there any more");
    ended(folder, &["journal", "verify", "p.journal"]).expect(0);

    // It is a sink as the others from now on.
    append(folder, 1500..1600);
    run_to(folder, 1600, || {
        last(folder, "since") == "600,1000" && lines(&folder.join("large.csv")) == large(1000..1600)
    });

    // One that comes again has no state any more, so its rows would not continue those that it has.
    write(folder, &[SUMS, SINCE, LARGE, TOTAL]);
    ended(folder, &["run", "p.sql"])
        .expect(2)
        .tells(&["sink 'total' has the rows of another query", "another target"]);
    write(folder, &[TOTAL.replace("total.csv", "again.csv").as_str(), SUMS, SINCE, LARGE]);
    append(folder, 1600..1700);
    run_to(folder, 1700, || last(folder, "again") == "100,1699" && last(folder, "since") == "700,1000");
    // And what is refused has changed nothing.
    write(folder, &[LARGE, SUMS]);
    append(folder, 1700..1710);
    run_to(folder, 1710, || lines(&folder.join("large.csv")) == large(1000..1710));
}

#[test]
fn each_row_counts_once_whatever_is_killed_when() {
    let mut random =
        Random::new(std::env::var("TIDEMILL_SINKS_SEED").map_or(11, |seed| seed.parse().unwrap()));
    let folder = begun(&[TOTAL, SUMS]);
    let folder = folder.path();
    let mut rows = 0;
    let kill_at = |folder: &Path, rows: &mut u64, random: &mut Random| {
        append(folder, *rows..*rows + 2000);
        *rows += 2000;
        let run = Run::begin(folder);
        // A kill may come at any time, so there is no condition to wait for.
        std::thread::sleep(std::time::Duration::from_millis(random.below(500)));
        run.kill();
    };
    for round in 0..3 {
        write(folder, &[TOTAL, SUMS]);
        kill_at(folder, &mut rows, &mut random);
        let since = SINCE.replace("since", &format!("since{round}"));
        write(folder, &[SUMS, &since]);
        for _ in 0..3 {
            kill_at(folder, &mut rows, &mut random);
        }
        append(folder, rows..rows + 10);
        rows += 10;
        // Positions are the numbers of the orders here, so the first order says where it began.
        let sink = format!("since{round}");
        let is_whole = || {
            let line = last(folder, &sink);
            let numbers: Vec<u64> = line.split(',').filter_map(|number| number.parse().ok()).collect();
            matches!(numbers.as_slice(), [n, first] if n + first == rows)
        };
        run_to(folder, rows, is_whole);
        if log(folder).contains(&format!("sink '{sink}' is new")) {
            let first = began(folder, &sink);
            assert_eq!(last(folder, &sink), format!("{},{first}", rows - first), "{}", log(folder));
        }
        // What it was, if it came so far.
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.file_name().unwrap().to_string_lossy().into_owned();
            if name.contains("total.csv") {
                fs::remove_file(entry).unwrap();
            }
        }
    }
}

#[test]
fn what_cannot_be_kept_is_refused_with_what_could_be() {
    let folder = begun(&[SUMS, TOTAL]);
    let folder = folder.path();
    append(folder, 0..100);
    run_to(folder, 100, || last(folder, "total") == "100,99");
    let refused = |sinks: &[&str], words: &[&str]| {
        write(folder, sinks);
        let mut all = vec!["belongs to a different query", "--replace"];
        all.extend(words);
        ended(folder, &["run", "p.sql"]).expect(2).tells(&all);
    };
    refused(
        &[SUMS, &TOTAL.replace("max(id)", "min(id)")],
        &[
            "the query of sink 'total' has changed",
            "unchanged: sink 'sums' with the state of",
            "changed or gone: sink 'total' with the state of",
        ],
    );
    refused(
        &[&SUMS.replace("SINK sums", "SINK others")],
        &["none of its sinks ('sums', 'total') is here unchanged"],
    );
    let late = LARGE.replace("WITH (", "WITH (start = 'earliest', ");
    refused(&[SUMS, TOTAL, &late], &["start = 'earliest'", "connector = 'journal'"]);
    let shared = SUMS.replace("SINK sums", "SINK same").replace("sums.csv", "same.csv");
    refused(&[SUMS, TOTAL, &shared], &["sink 'same' is new and gets a table that other sinks have, too"]);
    let other = "CREATE SOURCE more (id BIGINT) WITH (path = 'orders.csv', follow = true, durable = true);\n\
                 CREATE SINK more_ids AS SELECT id FROM more WITH (path = 'more.csv');\n";
    refused(&[SUMS, TOTAL, other], &["the sources have changed", "a script of its own"]);
    // Nothing of that has changed anything.
    write(folder, &[SUMS, TOTAL]);
    append(folder, 100..200);
    run_to(folder, 200, || last(folder, "total") == "200,199");
}

#[test]
fn a_view_may_come_and_go() {
    let view = "CREATE MATERIALIZED VIEW kinds AS SELECT amount % 3 AS kind, count(*) AS n FROM orders GROUP BY 1;\n";
    let folder = begun(&[view, SUMS]);
    let folder = folder.path();
    append(folder, 0..300);
    run_to(folder, 300, || true);
    let rows = folder.join("p.journal/views");
    assert_eq!(fs::read_dir(&rows).unwrap().count(), 2, "its rows, and the folder of its chunks");
    write(folder, &[SUMS]);
    append(folder, 300..400);
    run_to(folder, 400, || true);
    assert_eq!(fs::read_dir(&rows).unwrap().count(), 0, "its rows are gone with it");
    write(folder, &[SUMS, view]);
    append(folder, 400..500);
    run_to(folder, 500, || true);
    assert!(log(folder).contains("sink 'kinds' is new and begins with position 400"), "{}", log(folder));
}

#[test]
fn a_table_in_postgresql_knows_that_it_had_other_rows() {
    let Some(server) = Server::start() else { return };
    let stored = format!(
        "CREATE SINK stored AS SELECT id, amount FROM orders \
         WITH (connector = 'postgres', url = '{}', table = 'stored');\n",
        server.url()
    );
    let folder = begun(&[SUMS]);
    let folder = folder.path();
    append(folder, 0..100);
    run_to(folder, 100, || true);
    write(folder, &[&stored, SUMS]);
    append(folder, 100..150);
    let has = |rows: &str| server.query("SELECT count(*), min(id) FROM stored") == rows;
    run_to(folder, 150, || has("50|100"));
    write(folder, &[SUMS]);
    append(folder, 150..200);
    run_to(folder, 200, || true);
    write(folder, &[SUMS, &stored]);
    ended(folder, &["run", "p.sql"]).expect(2).tells(&["sink 'stored' has the rows of another query"]);
    assert!(has("50|100"));
    // While the database is away, nobody knows where a sink stands, so nothing is changed.
    server.crash();
    write(folder, &[SUMS, &stored.replace("'stored')", "'other')").replace("SINK stored", "SINK other")]);
    let refused = ended(folder, &["run", "p.sql"]);
    assert_ne!(refused.code, Some(0), "{refused:?}");
    write(folder, &[SUMS]);
    run_to(folder, 200, || true);
}

const CLICKS: &str = "CREATE SOURCE clicks (at TIMESTAMP, k BIGINT, WATERMARK FOR at AS at - INTERVAL '5 seconds') \
                      WITH (path = 'clicks.csv', follow = true, durable = true);\nSET snapshot_every = '20 ms';\n";
/// Operators of several kinds, with columns of windows, behind the one that is removed.
const GONE: &str = "CREATE SINK gone AS SELECT window_end, k, count(*) AS n FROM tumble(TABLE(clicks), at, \
                    INTERVAL '7 seconds') GROUP BY window_end, k WITH (path = 'gone.csv');\n";
const STAY: &str = "CREATE SINK hops AS SELECT window_start, window_end, k, count(*) AS n FROM hop(TABLE(clicks), at, \
                    INTERVAL '5 seconds', INTERVAL '10 seconds') GROUP BY window_start, window_end, k \
                    WITH (path = 'hops.csv');\n\
                    CREATE SINK pairs AS SELECT a.at, a.k, b.at AS other FROM clicks a JOIN clicks b ON a.k = b.k \
                    AND b.at BETWEEN a.at AND a.at + INTERVAL '3 seconds' WITH (path = 'pairs.csv');\n\
                    CREATE SINK running AS SELECT at, k, count(*) OVER (PARTITION BY k ORDER BY at \
                    ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS n FROM clicks WITH (path = 'running.csv');\n";
/// Some columns that the others do not read, and their operators with other numbers.
const NEW: &str = "CREATE SINK new AS SELECT window_end, count(DISTINCT k) AS n FROM tumble(TABLE(clicks), at, \
                   INTERVAL '4 seconds') GROUP BY window_end WITH (path = 'new.csv');\n";

/// The clicks of these seconds, some a little late.
fn clicks(seconds: Range<u64>) -> String {
    let click = |n: u64| {
        let second = n - (n * 7 % 4).min(n);
        format!(
            "2026-03-01 {:02}:{:02}:{:02},{}\n",
            10 + second / 3600,
            second / 60 % 60,
            second % 60,
            n * 31 % 5
        )
    };
    seconds.map(click).collect()
}

fn append_clicks(folder: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).open(folder.join("clicks.csv")).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn windows_joins_and_running_functions_continue_behind_a_sink_that_is_removed() {
    const LAST: &str = "2026-03-02 00:00:00,0\n";
    let script = |sinks: &[&str]| format!("{CLICKS}{}", sinks.concat());
    let has_rows = |folder: &Path, rows: usize| lines(&folder.join("running.csv")).len() == rows;

    let whole = folder_with(&[("clicks.csv", "at,k\n"), ("p.sql", &script(&[STAY]))]);
    let whole = whole.path();
    append_clicks(whole, &(clicks(0..900) + LAST));
    let mut run = Run::begin(whole);
    run.wait_until("all rows are answered", || has_rows(whole, 900));
    run.interrupt();

    for stops_in_order in [true, false] {
        let changed = folder_with(&[("clicks.csv", "at,k\n"), ("p.sql", &script(&[GONE, STAY]))]);
        let changed = changed.path();
        append_clicks(changed, &clicks(0..300));
        let mut run = Run::begin(changed);
        run.wait_until("rows are answered", || lines(&changed.join("running.csv")).len() > 250);
        if stops_in_order {
            run.interrupt()
        } else {
            run.kill()
        }
        fs::write(changed.join("p.sql"), script(&[NEW, STAY])).unwrap();
        append_clicks(changed, &clicks(300..600));
        let mut run = Run::begin(changed);
        run.wait_until("more rows are answered", || lines(&changed.join("running.csv")).len() > 550);
        if stops_in_order {
            run.interrupt()
        } else {
            run.kill()
        }
        fs::write(changed.join("p.sql"), script(&[STAY])).unwrap();
        append_clicks(changed, &(clicks(600..900) + LAST));
        let mut run = Run::begin(changed);
        run.wait_until("all rows are answered", || has_rows(changed, 900));
        run.interrupt();
        assert!(log(changed).contains("unchanged, and continued: hops, pairs, running"), "{}", log(changed));
        for sink in ["hops.csv", "pairs.csv", "running.csv"] {
            let sorted = |folder: &Path| {
                let mut lines = lines(&folder.join(sink));
                lines.sort();
                lines
            };
            assert_eq!(sorted(changed), sorted(whole), "{sink}");
        }
    }
}
