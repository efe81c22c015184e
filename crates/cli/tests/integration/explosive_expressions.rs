//! Expressions that make much of little are refused, or left out row by row, before they take memory: of the whole process,
//! watched while it computes.
#![cfg(all(target_os = "linux", feature = "sql"))]

use std::fs;
use std::path::Path;
use std::process::Stdio;

use crate::support::*;

/// Far less than any of these would take. The limit is 200 MB, and what is in flight may take as much a few times.
const PEAK_MAX_KB: u64 = 2_000_000;

/// Runs a query until its end. Returns how it ended, and the most memory that it was seen to have.
fn watched(query: &str) -> (Ended, u64) {
    watched_in(folder_with(&[]).path(), query)
}

/// As `watched`, in a folder.
fn watched_in(folder: &Path, query: &str) -> (Ended, u64) {
    let mut command = tidemill(folder, &["sql", "--memory", "200 MB", "--workers", "1", "-c", query]);
    let (answer, told) = (folder.join("answer"), folder.join("told"));
    let stderr = fs::File::create(&told).expect("a file");
    let stdout = fs::File::create(&answer).expect("a file");
    let command = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    let mut child = command.spawn().expect("it starts");
    let mut peak_kb = 0;
    while child.try_wait().expect("its state can be asked for").is_none() {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|text| text.trim().strip_suffix(" kB")?.trim().parse().ok());
        peak_kb = peak_kb.max(peak.unwrap_or(0));
        if peak_kb > PEAK_MAX_KB {
            child.kill().expect("it can be ended");
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let output: Ended = child.wait_with_output().expect("its output").into();
    let read = |path| fs::read_to_string(path).expect("what it wrote");
    (Ended { stdout: read(answer), stderr: read(told), ..output }, peak_kb)
}

#[test]
fn what_explodes_in_one_call_names_the_function() {
    for (function, query) in [
        ("array_repeat()", "SELECT array_repeat(range(1, 1000000), 10000000) AS made"),
        (
            "array_repeat()",
            "SELECT array_length(array_repeat('', CAST(value AS BIGINT) * 1000000000)) AS n FROM sequence(3)",
        ),
        ("array_resize()", "SELECT array_resize([[1]], 100000, range(1, 100000)) AS made"),
        ("array_to_string()", "SELECT array_to_string(range(1, 100000), repeat(',', 100000)) AS made"),
        (
            "array_replace_all()",
            "SELECT array_replace_all(array_repeat('a', 100000), 'a', repeat('x', 100000)) AS made",
        ),
        (
            "generate_series()",
            "SELECT generate_series(DATE '0001-01-01', DATE '9999-01-01', INTERVAL '1 second') AS made",
        ),
        (
            "regexp_replace()",
            "SELECT regexp_replace(repeat('x', 100000), 'x', repeat('\\0', 1000), 'g') AS made",
        ),
        ("replace()", "SELECT replace(repeat('x', 5000000), '', 'yy') AS made"),
        ("||", "SELECT repeat('x', 6000000) || repeat('y', 6000000) AS made"),
    ] {
        let (ended, peak_kb) = watched(query);
        assert!(peak_kb < PEAK_MAX_KB, "{query}: {peak_kb} kB");
        ended.tells(&[function, "at most 10000000 are allowed per row"]);
    }
}

#[test]
fn what_explodes_over_many_rows_is_computed_in_pieces_or_ends_at_the_limit() {
    let doubled = |step: &str| {
        let steps = (1..=40).map(|n| format!(", q{n} AS (SELECT value, {step} AS t FROM q{})", n - 1));
        let first =
            "WITH q0 AS (SELECT value, repeat('x', 1 + CAST(value % 2 AS INT)) AS t FROM sequence(20000))";
        format!("{first}{} SELECT length(t) AS n FROM q40", steps.collect::<String>())
    };
    for query in [
        "SELECT sum(array_position(range(0, 100000), value)) AS n FROM sequence(5000)".to_owned(),
        "SELECT count(*) AS n FROM (SELECT DISTINCT value, range(0, 1000000) AS made FROM sequence(20000))".to_owned(),
        "SELECT count(*) AS n FROM (SELECT DISTINCT value, CASE WHEN value > 7 THEN range(0, 1000000) END AS made \
         FROM sequence(20000))".to_owned(),
        "SELECT max(repeat('x', 1000000) || value) AS made FROM sequence(5000)".to_owned(),
        "SELECT count(*) AS n FROM (SELECT DISTINCT repeat('x', 100000) || value AS t FROM sequence(20000))".to_owned(),
        doubled("t || t"),
        doubled("concat(t, t)"),
        doubled("encode(t, 'hex')"),
    ] {
        let (ended, peak_kb) = watched(&query);
        assert!(peak_kb < PEAK_MAX_KB, "{query}: {peak_kb} kB");
        let beginning: String = ended.stderr.chars().take(2000).collect();
        assert!(matches!(ended.code, Some(0..=2)), "{query}: {:?} {beginning}", ended.code);
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
        // A constant of a megabyte is not shown as a whole.
        assert!(ended.stderr.len() < 20_000, "{query} tells {} bytes", ended.stderr.len());
    }
}

#[test]
fn a_cross_join_of_files_holds_a_piece_of_its_pairs_at_a_time() {
    let folder = folder_with(&[("n.csv", &numbers(400))]);
    let query =
        "SELECT count(*) AS n, max(a.value + b.value + c.value) AS most FROM 'n.csv' a, 'n.csv' b, 'n.csv' c";
    let (ended, peak_kb) = watched_in(folder.path(), query);
    assert!(peak_kb < PEAK_MAX_KB / 2, "{peak_kb} kB");
    // 400 * 400 * 400, and three times the largest value.
    assert!(
        ended.stdout.contains("64000000") && ended.stdout.contains("1197"),
        "{} {}",
        ended.stdout,
        ended.stderr
    );
}

#[test]
fn pairs_that_are_kept_are_refused_at_the_limit() {
    let folder = folder_with(&[("n.csv", &numbers(3000))]);
    let query = "SELECT a.value AS a, b.value AS b, c.value AS c FROM 'n.csv' a, 'n.csv' b, 'n.csv' c";
    let (ended, peak_kb) = watched_in(folder.path(), query);
    assert!(peak_kb < PEAK_MAX_KB / 2, "{peak_kb} kB");
    ended.tells(&["would take", "200 MB", "raise --memory"]);
}

fn numbers(count: u32) -> String {
    (0..count).fold("value\n".to_owned(), |text, value| format!("{text}{value}\n"))
}
