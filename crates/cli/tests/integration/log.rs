//! The log of a pipeline: off by default, for people or for programs.
#![cfg(unix)]

use crate::support;

use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::thread;

use crate::support::*;

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
fn without_being_asked_only_warnings_are_logged_and_no_error_twice() {
    let folder = folder_with(&[("p.sql", SCRIPT), ("m.csv", ROWS)]);
    let quiet = run(folder.path(), &[], &[]).expect(0);
    assert!(!quiet.stderr.contains("INFO"), "{}", quiet.stderr);
    let off = run(folder.path(), &[("TIDEMILL_LOG", "off"), ("TIDEMILL_LOG_FORMAT", "json")], &[]).expect(0);
    assert!(!off.stderr.contains("tidemill_"), "{}", off.stderr);
    let script = "SET max_groups = 1;
        CREATE SINK counts FROM (SELECT value, count(*) AS n FROM sequence(count => 9) GROUP BY value)
        WITH (path = 'counts.csv');";
    let folder = folder_with(&[("p.sql", script)]);
    let failed = run(folder.path(), &[], &[]).expect(1);
    assert!(!failed.stderr.contains("ERROR") && failed.stderr.contains("error: "), "{}", failed.stderr);
}

#[test]
fn bad_rows_of_an_unattended_pipeline_are_told_while_they_come() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let script = format!(
        "CREATE SOURCE m (v BIGINT) WITH (connector = 'tcp', connect = '{}', format = 'csv', header = false);
         CREATE SINK s FROM (SELECT v FROM m) WITH (path = 's.csv');",
        server.local_addr().unwrap()
    );
    let folder = folder_with(&[("p.sql", &script)]);
    let mut child = support::run::Run::begin(folder.path());
    let (mut reader, _) = server.accept().unwrap();
    let log = || support::run::log(folder.path());
    child.wait_until("the log reports it", || {
        reader.write_all(b"1\nx\n").unwrap();
        log().contains("records could not be used")
    });
    let line = log().lines().find(|line| line.contains("could not be used")).unwrap().to_owned();
    assert!(line.contains("WARN") && line.contains("source=\"m\"") && line.contains("new="), "{line}");
    child.interrupt();
}

#[test]
fn a_run_says_what_it_recovers_takes_in_and_how_it_ends() {
    let folder = folder_with(&[("p.sql", SCRIPT), ("m.csv", ROWS)]);
    let first = run(folder.path(), &[], &["--verbose", "--workers", "2"]).expect(0);
    let events = [
        ("a query starts", "workers=2"),
        ("source is opened", "source=\"m\""),
        ("the journal is open", "cycles=0"),
        ("records could not be used", "bad=1"),
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
    assert!(having(&second, "the journal is open")[0].contains("snapshot="), "{}", second.stderr);
    assert!(!having(&second, "cycle closed").is_empty(), "{}", second.stderr);
    assert!(having(&second, "cycles are committed")[0].contains("sink=\"sums\""), "{}", second.stderr);
    let warnings = run(folder.path(), &[("TIDEMILL_LOG", "warn")], &[]).expect(0);
    assert!(having(&warnings, "the journal is open").is_empty(), "{}", warnings.stderr);
}

#[test]
fn connections_that_are_lost_and_restored_are_logged() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let script = format!(
        "CREATE SOURCE m (v BIGINT) WITH (connector = 'tcp', connect = '{}', format = 'csv', header = false);
         SELECT v FROM m LIMIT 2;",
        server.local_addr().unwrap()
    );
    let folder = folder_with(&[]);
    let servings = thread::spawn(move || {
        for row in ["1\n", "2\n"] {
            let (mut reader, _) = server.accept().unwrap();
            reader.write_all(row.as_bytes()).unwrap();
        }
    });
    let mut command = tidemill(folder.path(), &["sql", "--verbose", "-c", &script]);
    let ended = Ended::from(command.output().unwrap()).expect(0);
    servings.join().unwrap();
    assert_eq!(having(&ended, "connected; rows are read").len(), 2, "{}", ended.stderr);
    assert!(!having(&ended, "the server has closed the connection").is_empty(), "{}", ended.stderr);
}

#[test]
fn programs_get_an_object_per_line() {
    let folder = folder_with(&[("p.sql", SCRIPT), ("m.csv", ROWS)]);
    let variables = [("TIDEMILL_LOG", "info"), ("TIDEMILL_LOG_FORMAT", "json")];
    let ended = run(folder.path(), &variables, &[]).expect(0);
    let opened = having(&ended, "the journal is open");
    let line: serde_json::Value = serde_json::from_str(opened[0]).unwrap();
    assert_eq!((line["level"].as_str(), line["cycles"].as_u64()), (Some("INFO"), Some(0)), "{line}");
    assert_eq!(line["target"], "tidemill_engine::durable::recovery");
    let text = run(folder.path(), &variables, &["--log-format", "text"]).expect(0);
    assert!(!having(&text, "a query starts")[0].starts_with('{'), "{}", text.stderr);
}

#[test]
fn a_warning_about_a_query_names_it() {
    let script = "CREATE SOURCE m (v BIGINT) WITH (path = 'm.csv');
        CREATE SINK quotients FROM (SELECT 10 / v AS q FROM m) WITH (path = 'q.csv', overwrite = true);";
    let folder = folder_with(&[("p.sql", script), ("m.csv", "v\n0\n5\n")]);
    let text = run(folder.path(), &[], &[]).expect(0);
    let warned = having(&text, "rows could not be computed");
    assert!(warned.len() == 1 && warned[0].contains("run{query=\"quotients\"}:"), "{}", text.stderr);
    let json = run(folder.path(), &[("TIDEMILL_LOG_FORMAT", "json")], &[]).expect(0);
    let line: serde_json::Value = serde_json::from_str(having(&json, "rows could not be")[0]).unwrap();
    assert_eq!((&line["query"], &line["rows"]), (&"quotients".into(), &1.into()), "{line}");
}

#[test]
fn a_failure_is_logged_with_its_causes_and_wrong_levels_are_refused() {
    let script = "SET max_groups = 1;
        CREATE SINK counts FROM (SELECT value, count(*) AS n FROM sequence(count => 9) GROUP BY value)
        WITH (path = 'counts.csv');";
    let folder = folder_with(&[("p.sql", script)]);
    let failed = run(folder.path(), &[("TIDEMILL_LOG", "error")], &[]).expect(1);
    assert_eq!(having(&failed, "the query failed: operator").len(), 1, "{}", failed.stderr);
    let wrong = run(folder.path(), &[("TIDEMILL_LOG", "loud")], &[]).expect(2);
    wrong.tells(&["TIDEMILL_LOG is 'loud'; it must be off, error, warn, info or debug"]);
    let wrong = run(folder.path(), &[("TIDEMILL_LOG_FORMAT", "xml")], &[]).expect(2);
    wrong.tells(&["TIDEMILL_LOG_FORMAT is 'xml'; it must be text or json"]);
}

#[test]
fn what_a_pool_does_not_get_is_logged_once() {
    let script = "CREATE POOL p WITH (cores = '1000', best_effort = true, workers = 2);
        CREATE SINK s FROM (SELECT value FROM sequence(count => 9)) WITH (path = 's.csv', pool = p);";
    let folder = folder_with(&[("p.sql", script)]);
    let ended = run(folder.path(), &[], &[]).expect(0);
    let warning = "pool 'p' runs without what it asked for: its threads cannot run on core 1000 alone";
    assert_eq!(having(&ended, warning).len(), 1, "{}", ended.stderr);
}
