//! `state_of(...)`: what operators held after a cycle of the past, against a loop over the rows up to that cycle.
#![cfg(all(unix, feature = "sql"))]

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::support::replayed::{replay, sinks};
use crate::support::*;
use tempfile::TempDir;
use tidemill_testing::random::Random;

/// A row: host, value, and event time in milliseconds.
type Row = (&'static str, i64, i64);

const ROWS_OF_A_CYCLE: usize = 3;
const WINDOW_MS: i64 = 10_000;
const WITHIN_MS: i64 = 4_000;
const DELAY_MS: i64 = 1_000;
const START_MS: i64 = 1_767_225_600_000;

/// Rows whose times go back by less than the watermark's delay.
fn rows() -> Vec<Row> {
    let mut random = Random::new(7);
    let mut latest = START_MS;
    let mut row = |_| {
        latest += random.below(2_000) as i64;
        let host = random.one_of(&["ann", "bob", "cat"]);
        (host, random.below(100) as i64 - 50, latest - random.below(900) as i64)
    };
    (0..60).map(&mut row).collect()
}

/// A pipeline that has read them all.
fn pipeline(rows: &[Row]) -> TempDir {
    let script = format!(
        "SET cycle_events = {ROWS_OF_A_CYCLE}; SET cycle_fixed = true;
         CREATE SOURCE m (host VARCHAR, v BIGINT, time TIMESTAMP, WATERMARK FOR time AS time - INTERVAL '1 second')
           WITH (path = 'm', format = 'csv', durable = true);
         {}",
        sinks("v", "4 seconds")
    );
    let folder = folder_with(&[("p.sql", &script)]);
    // Files of their own, so that the watermark moves from one to the next.
    fs::create_dir(folder.path().join("m")).unwrap();
    for (number, rows) in rows.chunks(4).enumerate() {
        let mut text = "host,v,time\n".to_owned();
        for (host, v, time_ms) in rows {
            let _ = writeln!(text, "{host},{v},{}", time_of(*time_ms));
        }
        fs::write(folder.path().join(format!("m/{number:02}.csv")), text).unwrap();
    }
    ended(folder.path(), &["run", "p.sql"]).expect(0);
    folder
}

/// As CSV writes it.
fn time_of(time_ms: i64) -> String {
    let (second, ms) = ((time_ms - START_MS).div_euclid(1000), time_ms.rem_euclid(1000));
    let (minute, second) = (second.div_euclid(60), second.rem_euclid(60));
    let fraction = if ms == 0 { String::new() } else { format!(".{ms:03}") };
    match minute {
        0.. => format!("2026-01-01 00:{minute:02}:{second:02}{fraction}"),
        _ => format!("2025-12-31 23:{:02}:{second:02}{fraction}", 60 + minute),
    }
}

/// The sorted lines of an answer as of a cycle, without its header.
fn look(folder: &Path, cycle: usize, workers: &str, query: &str) -> Vec<String> {
    let cycle = cycle.to_string();
    let arguments = ["--to-cycle", &cycle, "--workers", workers, "--look", query, "--format", "csv"];
    let text = replay(folder, &arguments).expect(0).stdout;
    let mut lines: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
    lines.sort();
    lines
}

fn sorted(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.collect();
    lines.sort();
    lines
}

#[test]
fn windows_tables_and_joins_hold_what_a_loop_over_the_rows_says() {
    let rows = rows();
    let folder = pipeline(&rows);
    let folder = folder.path();
    let operators = look(folder, 0, "1", "SELECT operator, rows FROM state_of()");
    let named = |kind: &str| {
        let line = operators.iter().find(|line| line.ends_with(&format!(",{kind}")));
        let line = line.unwrap_or_else(|| panic!("no {kind} in {operators:?}"));
        line.rsplit_once(',').unwrap().0.trim_matches('"').replace('\'', "''")
    };
    let (windows, groups, join) = (named("windows"), named("groups"), named("left"));
    let of = |operator: &str| format!("SELECT * FROM state_of('{operator}')");
    let mut reached = Vec::new();
    for (cycle, workers) in [(0, "1"), (3, "2"), (7, "3"), (12, "1"), (19, "2")] {
        let seen = &rows[..(cycle + 1) * ROWS_OF_A_CYCLE];
        let shown = |query: &str| look(folder, cycle, workers, query);
        assert_eq!(without_partition(&shown(&of(&groups))), totals(seen), "groups after cycle {cycle}");

        // Some watermark that the rows so far may have moved to explains which windows are open.
        let open = without_partition(&shown(&of(&windows)));
        let latest = (1..=seen.len()).filter_map(|rows| seen[..rows].iter().map(|row| row.2).max());
        let watermarks = std::iter::once(i64::MIN / 2).chain(latest.map(|latest| latest - DELAY_MS));
        let fitting: Vec<i64> =
            watermarks.filter(|watermark| open_windows(seen, *watermark) == open).collect();
        let (Some(first), Some(last)) = (fitting.first(), fitting.last()) else {
            panic!("no watermark explains cycle {cycle}: {open:?}")
        };
        reached.push(*first);
        // A left row waits for later ones up to four seconds after it; a right one for strictly earlier ones. A partition
        // that had no rows since may hold others, too.
        let held = |kind: &str| shown(&format!("SELECT host, v FROM state_of('{join}', rows => '{kind}')"));
        let has = |held: &[String], is_held: &dyn Fn(&Row) -> bool| {
            let line = |row: &Row| format!("{},{}", row.0, row.1);
            seen.iter().filter(|row| is_held(row)).all(|row| held.contains(&line(row)))
                && held.iter().all(|held| seen.iter().any(|row| line(row) == *held))
        };
        assert!(has(&held("left"), &|row| row.2 + WITHIN_MS >= *last), "left after cycle {cycle}");
        assert!(has(&held("right"), &|row| row.2 > *last), "right after cycle {cycle}");
        assert!(cycle < 12 || held("left").len() < seen.len(), "what cannot match any more is not held");
    }
    // The watermark moved between the cycles, and is that of all rows at the end.
    assert!(reached.is_sorted() && reached.iter().collect::<BTreeSet<_>>().len() > 3, "{reached:?}");
    let end = rows.iter().map(|row| row.2).max().unwrap() - DELAY_MS;
    assert_eq!(open_windows(&rows, end), without_partition(&look(folder, 19, "1", &of(&windows))));
}

/// The lines without their first column, sorted.
fn without_partition(lines: &[String]) -> Vec<String> {
    sorted(lines.iter().map(|line| line.split_once(',').unwrap().1.to_owned()))
}

/// The groups of windows that the watermark has not closed.
fn open_windows(seen: &[Row], watermark: i64) -> Vec<String> {
    let mut open: BTreeMap<(i64, &str), (i64, i64)> = BTreeMap::new();
    for (host, v, time) in seen {
        let start = time.div_euclid(WINDOW_MS) * WINDOW_MS;
        if start + WINDOW_MS > watermark {
            let group = open.entry((start, host)).or_default();
            *group = (group.0 + 1, group.1 + v);
        }
    }
    sorted(open.into_iter().map(|((start, host), (count, sum))| {
        format!("{host},{},{},{count},{sum}", time_of(start), time_of(start + WINDOW_MS))
    }))
}

fn totals(seen: &[Row]) -> Vec<String> {
    let mut table: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for (host, v, _) in seen {
        let group = table.entry(host).or_insert((0, i64::MIN));
        *group = (group.0 + 1, group.1.max(*v));
    }
    sorted(table.into_iter().map(|(host, (count, most))| format!("{host},{count},{most}")))
}

#[test]
fn states_are_compared_stepped_through_and_refused_with_a_way_out() {
    let rows = rows();
    let folder = pipeline(&rows);
    let folder = folder.path();
    let groups = "SELECT operator FROM state_of() WHERE rows = 'groups'";
    let groups = look(folder, 0, "1", groups).remove(0).trim_matches('"').to_owned();
    let refused = |query: &str| replay(folder, &["--to-cycle", "3", "--look", query]).expect(2);
    refused("SELECT * FROM state_of('99 aggregate')")
        .tells(&["the query has no operator '99 aggregate'", &groups]);
    let join = "SELECT operator FROM state_of() WHERE rows = 'left'";
    let join = look(folder, 0, "1", join).remove(0).trim_matches('"').to_owned();
    let all = format!("SELECT * FROM state_of('{join}')");
    refused(&all).tells(&["'left' or 'right'", "rows => 'left'"]);
    refused(&format!("SELECT * FROM state_of('{join}', rows => 'middle')"))
        .tells(&["holds no rows 'middle'"]);
    refused("SELECT * FROM state_of('aggregate')").tells(&["several operators are called 'aggregate'"]);
    // A number will do, and so will words with which the name begins.
    let number = groups.split(' ').next().unwrap();
    let by_number = look(folder, 5, "1", &format!("SELECT * FROM state_of('{number}')"));
    let by_name = look(folder, 5, "1", &format!("SELECT * FROM state_of('{}')", groups.replace('\'', "''")));
    assert_eq!(by_number, by_name);
    assert_eq!(look(folder, 5, "1", "SELECT * FROM state_of('aggregate table')"), by_name);
    assert_eq!(look(folder, 5, "1", &format!("SELECT * FROM state_of('{number} aggregate')")), by_name);

    // What one cycle changes is what its rows change.
    let diff = |cycles: [&str; 2], state: &str| {
        let mut all = vec!["journal", "diff", "p.journal", "--script", "p.sql", "--state", state, "--cycles"];
        all.extend(cycles);
        ended(folder, &all)
    };
    diff(["3", "3"], &groups).expect(0).tells(&["(0 differences)"]);
    let changed = diff(["3", "4"], &groups).expect(3).stdout;
    let host = |line: &str| ["ann", "bob", "cat"].into_iter().find(|host| line.contains(host));
    let mut hosts: Vec<&str> =
        changed.lines().filter(|line| line.starts_with('+')).filter_map(host).collect();
    let mut expected: Vec<&str> = rows[12..15].iter().map(|row| row.0).collect();
    [&mut hosts, &mut expected].into_iter().for_each(|hosts| hosts.sort_unstable());
    expected.dedup();
    assert_eq!(hosts, expected, "{changed}");
    diff(["3", "4"], "nobody").expect(2).tells(&["the query has no operator 'nobody'"]);

    // At a prompt, as of the cycle that is shown; a wrong query does not end it.
    let steps = ["journal", "replay", "p.journal", "--script", "p.sql", "--sink", "totals", "--step"];
    let mut child = support::child::start(tidemill(folder, &steps));
    let lines = format!(
        "\nSELECT sum(points) AS seen FROM totals\nSELECT nothing FROM totals\n\
         SELECT count(*) AS held FROM state_of('{number}')\nq\n"
    );
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let stepped = support::child::end(child).expect(0).tells(&["as of cycle 1", "nothing"]);
    stepped.shows(&["cycle 1, closed at", "seen", "6", "held"]);
}
