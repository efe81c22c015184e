//! `--processes N`: the same answers over several processes, and a clear end when one of them dies.
#![cfg(unix)]

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::child::{end, wait_until};
use crate::support::*;

#[test]
fn linear_road_answers_the_same_over_processes() {
    let folder = tempfile::TempDir::new().unwrap();
    let run = |processes: usize| {
        let out = format!("answers-{processes}");
        let arguments = format!(
            "run --minutes 20 --out {out} --workers 1 --processes {processes} --cycle-events 5000 --fixed-cycles"
        );
        linear_road(folder.path(), &arguments).expect(0);
        all_answers(&folder.path().join(out))
    };
    let alone = run(1);
    assert!(alone.iter().any(|answers| answers.len() > 1000));
    assert!(alone == run(3));
}

const SCRIPT: &str = "
    CREATE TABLE names (rest BIGINT, name VARCHAR) WITH (path = 'names.csv');
    CREATE PROCESS odd AT 2 AS SELECT value FROM sequence(count => 200000) WHERE value % 2 = 1;
    CREATE SINK sums FROM (
        SELECT value % 7 AS rest, sum(value) AS total, count(DISTINCT value % 100) AS hundreds FROM odd GROUP BY 1
    ) WITH (path = 'sums.csv');
    CREATE SINK named FROM (
        SELECT name, value FROM sequence(count => 1000) JOIN names ON value % 7 = rest
    ) WITH (path = 'named.csv');
";

#[test]
fn a_pipeline_has_the_same_rows_over_processes() {
    let run = |arguments: &[&str]| {
        let folder = folder_with(&[("p.sql", SCRIPT), ("names.csv", "rest,name\n0,zero\n3,three\n")]);
        ended(folder.path(), &[&["run", "p.sql"], arguments].concat()).expect(0);
        let sorted = |name| {
            let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        // Of a table, the last row of each key: sums only grow.
        let sums = sorted("sums.csv");
        let last = (0..7).map(|rest| {
            sums.iter()
                .filter(|line| line.starts_with(&format!("{rest},")))
                .max_by_key(|line| line.len())
                .cloned()
        });
        (last.collect::<Vec<_>>(), sorted("named.csv"))
    };
    let alone = run(&["--workers", "3"]);
    assert!(alone.1.len() > 200, "{alone:?}");
    assert_eq!(run(&["--workers", "1", "--processes", "3"]), alone);
}

const UNFIT: &str = "
    CREATE SOURCE s (k BIGINT, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts) WITH (path = 's.csv');
    CREATE VIEW sums AS SELECT window_start, k, count(*) AS n, sum(v) AS total
        FROM tumble(TABLE(s), DESCRIPTOR(ts), INTERVAL '1 minute') GROUP BY window_start, window_end, k;
    CREATE SINK o FROM (SELECT k, n, total, 100 / (n - 3) AS share FROM sums) WITH (path = 'o.csv');
";

#[test]
fn the_summary_has_what_every_process_left_out() {
    const KEYS: usize = 60;
    let mut rows = "k,v,ts\n".to_owned();
    // The sum of the keys that 3 divides is too large. Others have three rows, and cannot be divided by.
    for key in 0..KEYS {
        let value = if key % 3 == 0 { i64::MAX } else { 1 };
        let times = if key % 3 == 1 { 3 } else { 2 };
        (0..times).for_each(|_| rows += &format!("{key},{value},2026-01-01 00:00:01\n"));
    }
    // No window has this time.
    (0..KEYS).for_each(|key| rows += &format!("{key},1,2262-04-11 23:47:16\n"));
    let run = |arguments: &[&str]| {
        let folder = folder_with(&[("p.sql", UNFIT), ("s.csv", &rows)]);
        let told = ended(folder.path(), &[&["run", "p.sql"], arguments].concat()).expect(0).stderr;
        // The log has its own lines about rows that could not be computed.
        let told: Vec<&str> = told.lines().filter(|line| !line.contains(" WARN ")).collect();
        let told = told.join("\n");
        let line = |words: &str| told.lines().find(|line| line.contains(words)).unwrap_or(&told).to_owned();
        let lines = ["could not be used", "could not be computed", "came too late"].map(line);
        (lines, told.matches("is NULL for k").count(), told)
    };
    let (alone, samples, told) = run(&["--workers", "3"]);
    assert!(alone[0].starts_with("20 rows") && alone[1].starts_with("20 results"), "{told}");
    assert!(alone[2].starts_with("60 rows") && samples == 8, "{told}");
    let (over, samples, told) = run(&["--workers", "1", "--processes", "3"]);
    assert_eq!((over, samples), (alone, 8), "{told}");
}

const QUESTIONS: &str = "
    CREATE TABLE names (rest BIGINT, name VARCHAR) WITH (path = 'names.csv');
    SET partitions = 5;
    CREATE PROCESS odd AT 2 AS SELECT value FROM sequence(count => 20000) WHERE value % 2 = 1;
    DROP TABLE names;
    CREATE OR REPLACE TABLE names (rest BIGINT, name VARCHAR) WITH (path = 'names.csv');
    SELECT value % 7 AS rest, sum(value) AS total FROM odd GROUP BY 1 ORDER BY 1;
    SELECT name, count(*) FROM sequence(count => 1000) JOIN names ON value % 7 = rest GROUP BY name ORDER BY name;
    SELECT value FROM odd LIMIT 3;
    SELECT name FROM names;
";

#[test]
fn a_question_has_the_same_answer_over_processes_wherever_it_is_asked() {
    let folder = folder_with(&[
        ("p.sql", SCRIPT),
        ("q.sql", QUESTIONS),
        ("names.csv", "rest,name\n0,zero\n3,three\n"),
    ]);
    let alone = ended(folder.path(), &["sql", "-f", "q.sql", "--workers", "3"]).expect(0).stdout;
    assert!(alone.contains("14291429") && alone.contains("three"), "{alone}");
    let over = ["--workers", "1", "--processes", "3"];
    let asked = |arguments: &[&str]| ended(folder.path(), &[arguments, &over].concat()).expect(0).stdout;
    assert_eq!(asked(&["sql", "-f", "q.sql"]), alone);
    assert_eq!(asked(&["sql", "-c", QUESTIONS]), alone);
    assert_eq!(asked(&["run", "q.sql"]), alone);
    for command in [&["sql"][..], &["sql", "-f", "-"], &["run", "-"]] {
        let arguments = [command, &over].concat();
        assert_eq!(ended_with_input(folder.path(), &arguments, QUESTIONS).expect(0).stdout, alone);
    }
    // A worker of the third process does a part of it.
    let measured =
        "CREATE PROCESS odd AT 2 AS SELECT value FROM sequence(count => 20000) WHERE value % 2 = 1;
        EXPLAIN ANALYZE SELECT count(*) FROM odd";
    let text = asked(&["sql", "-c", measured]);
    assert!(text.contains("in each of 3 processes") && text.contains("process odd on worker 2"), "{text}");
    assert!(text.contains("20000 rows in"), "{text}");
}

#[test]
fn what_reads_rows_of_this_process_stays_in_it() {
    let typed = "CREATE MATERIALIZED VIEW v AS
    SELECT value % 3 AS k, count(*) AS n FROM sequence(count => 3000) GROUP BY 1;
\\start
SELECT count(*) AS joined FROM sequence(count => 10) s JOIN v ON s.value = v.k;
\\stop
SELECT k, n FROM v ORDER BY k;
";
    let folder = folder_with(&[]);
    let asked =
        ended_with_input(folder.path(), &["sql", "--workers", "1", "--processes", "2"], typed).expect(0);
    assert!(!asked.stderr.contains("error"), "{asked:?}");
    asked.shows(&["joined", "0 | 1000", "1 | 1000", "2 | 1000"]);
}

#[test]
fn what_is_wrong_is_said_once() {
    let folder = folder_with(&[("p.sql", SCRIPT), ("names.csv", "rest,name\n0,zero\n")]);
    let text = ended(folder.path(), &["run", "p.sql", "--workers", "1", "--processes", "2"]).expect(2).stderr;
    assert_eq!(text.matches("error").count(), 1, "{text}");
    assert!(text.contains("worker") && text.contains('2'), "{text}");
    ended(folder.path(), &["run", "p.sql", "--processes", "0"]).expect(2).tells(&["invalid value"]);
}

/// The processes that this one has started.
fn children(parent: &Child) -> Vec<String> {
    let output =
        Command::new("ps").args(["-o", "pid=", "--ppid", &parent.id().to_string()]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_death_of_one_ends_all() {
    let script =
        "CREATE SINK s FROM (SELECT value % 3 AS rest, count(*) FROM sequence(rate => 1000) GROUP BY 1)
        WITH (path = 's.csv');";
    for dies in ["member", "leader"] {
        let folder = folder_with(&[("p.sql", script)]);
        let arguments = ["run", "p.sql", "--workers", "1", "--processes", "3"];
        let run = tidemill(folder.path(), &arguments).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("the others are started", || children(&run).len() == 2);
        let members = children(&run);
        let rows = folder.path().join("s.csv");
        wait_until("the first rows are there", || std::fs::read(&rows).is_ok_and(|rows| rows.len() > 20));
        let victim = if dies == "member" { members[0].clone() } else { run.id().to_string() };
        assert!(Command::new("kill").args(["-9", &victim]).status().unwrap().success());
        let ended = end(run);
        if dies == "member" {
            ended.expect(1).tells(&["it was killed by signal 9"]);
        }
        for member in members {
            wait_until("no process is left", || !Path::new("/proc").join(&member).exists());
        }
    }
}
