//! The log of a pipeline: off by default, for people or for programs.
#![cfg(unix)]

mod support;

use std::path::Path;

use support::*;

const SCRIPT: &str = "
    CREATE SOURCE m (v BIGINT, time TIMESTAMP NOT NULL, WATERMARK FOR time AS time - INTERVAL '1 second')
    WITH (path = 'm.csv', durable = true);
    CREATE SINK sums FROM (SELECT v, count(*) AS n FROM m GROUP BY v, tumble(time, INTERVAL '1 second'))
    WITH (path = 'sums', format = 'csv', connector = 'directory');
";

const ROWS: &str = "v,time\n1,2026-01-01T00:00:01\nx,2026-01-01T00:00:02\n2,2026-01-01T00:00:09\n\
    3,2026-01-01T00:00:02\n4,2026-01-01T00:00:09\n";

fn run(folder: &Path, variables: &[(&str, &str)], options: &[&str]) -> Ended {
    let mut command = tidemill(folder, &[&["run", "p.sql"], options].concat());
    command.envs(variables.iter().copied()).output().unwrap().into()
}

/// The lines of the log that have this message.
fn having<'a>(ended: &'a Ended, message: &str) -> Vec<&'a str> {
    ended.stderr.lines().filter(|line| line.contains("tidemill_") && line.contains(message)).collect()
}

#[test]
fn nothing_is_logged_unless_it_is_asked_for() {
    let folder = folder_with(&[("p.sql", SCRIPT), ("m.csv", ROWS)]);
    let quiet = run(folder.path(), &[], &[]).expect(0);
    assert!(!quiet.stderr.contains("tidemill_"), "{}", quiet.stderr);
    let off = run(folder.path(), &[("TIDEMILL_LOG", "off"), ("TIDEMILL_LOG_FORMAT", "json")], &[]).expect(0);
    assert!(!off.stderr.contains("tidemill_"), "{}", off.stderr);
}

#[test]
fn a_run_says_what_it_recovers_takes_in_and_how_it_ends() {
    let folder = folder_with(&[("p.sql", SCRIPT), ("m.csv", ROWS)]);
    let first = run(folder.path(), &[], &["--verbose", "--workers", "2"]).expect(0);
    let events = [
        ("a query starts", "workers=2"),
        ("source is opened", "source=\"m\""),
        ("journal opened", "cycles=0"),
        ("records cannot be used", "bad=1"),
        ("rows came too late", "late=1"),
        ("snapshot taken", "cycle="),
        ("the query has ended", ""),
    ];
    for (message, field) in events {
        let lines = having(&first, message);
        assert!(lines.len() == 1 && lines[0].contains(field), "{message}:\n{}", first.stderr);
    }
    assert!(having(&first, "cycle closed").is_empty());
    let second = run(folder.path(), &[("TIDEMILL_LOG", "debug")], &[]).expect(0);
    assert!(having(&second, "journal opened")[0].contains("snapshot="), "{}", second.stderr);
    assert!(!having(&second, "cycle closed").is_empty(), "{}", second.stderr);
    let warnings = run(folder.path(), &[("TIDEMILL_LOG", "warn")], &[]).expect(0);
    assert!(having(&warnings, "journal opened").is_empty(), "{}", warnings.stderr);
}

#[test]
fn programs_get_an_object_per_line() {
    let folder = folder_with(&[("p.sql", SCRIPT), ("m.csv", ROWS)]);
    let variables = [("TIDEMILL_LOG", "info"), ("TIDEMILL_LOG_FORMAT", "json")];
    let ended = run(folder.path(), &variables, &[]).expect(0);
    let opened = having(&ended, "journal opened");
    let line: serde_json::Value = serde_json::from_str(opened[0]).unwrap();
    assert_eq!((line["level"].as_str(), line["cycles"].as_u64()), (Some("INFO"), Some(0)), "{line}");
    assert_eq!(line["target"], "tidemill_engine::durable::recovery");
    let text = run(folder.path(), &variables, &["--log-format", "text"]).expect(0);
    assert!(!having(&text, "a query starts")[0].starts_with('{'), "{}", text.stderr);
}

#[test]
fn a_failure_is_logged_with_its_causes_and_wrong_levels_are_refused() {
    let script = "SET max_groups = 1;
        CREATE SINK counts FROM (SELECT value, count(*) AS n FROM sequence(count => 9) GROUP BY value)
        WITH (path = 'counts.csv');";
    let folder = folder_with(&[("p.sql", script)]);
    let failed = run(folder.path(), &[("TIDEMILL_LOG", "error")], &[]).expect(1);
    assert_eq!(having(&failed, "the query fails: operator").len(), 1, "{}", failed.stderr);
    let wrong = run(folder.path(), &[("TIDEMILL_LOG", "loud")], &[]).expect(2);
    wrong.tells(&["TIDEMILL_LOG is 'loud'; it must be off, error, warn, info or debug"]);
    let wrong = run(folder.path(), &[("TIDEMILL_LOG_FORMAT", "xml")], &[]).expect(2);
    wrong.tells(&["TIDEMILL_LOG_FORMAT is 'xml'; it must be text or json"]);
}
