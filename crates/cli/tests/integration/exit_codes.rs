//! What exits with what: 2 if the user can correct it, 1 for operations and limits. A bug has no input that provokes it;
//! its code is tested beside the function that chooses it.
#![cfg(unix)]

use std::fs::{self, OpenOptions};
use std::path::Path;

use crate::support::*;

const SETTING: &str = "CREATE SOURCE numbers (value BIGINT) WITH (path = 'numbers.csv'DURABLE);
    SET WRONG;
    CREATE SINK doubled FROM (SELECT value * 2 AS value FROM numbers) WITH (path = 'doubled.csv');";

/// Runs it with a standard output on which every write fails.
fn ended_on_a_full_disk(folder: &Path, arguments: &[&str]) -> Ended {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    tidemill(folder, arguments).stdin(std::process::Stdio::null()).stdout(full).output().unwrap().into()
}

#[test]
fn a_wrong_setting_has_code_2_with_and_without_a_journal() {
    let wrong = ["workers = 0", "workers = 5000", "cycle_events = 0", "idle_after = 3", "nothing = 1"];
    for durable in ["", ", durable = true"] {
        for setting in wrong {
            let script = SETTING.replace("DURABLE", durable).replace("WRONG", setting);
            let folder = folder_with(&[("p.sql", &script), ("numbers.csv", "value\n1\n")]);
            ended(folder.path(), &["run", "p.sql"]).expect(2).tells(&["error: "]);
            ended(folder.path(), &["validate", "p.sql"]).expect(2);
        }
        let script = SETTING.replace("DURABLE", durable).replace("SET WRONG;", "");
        let folder = folder_with(&[("p.sql", &script), ("numbers.csv", "value\n1\n")]);
        ended(folder.path(), &["run", "p.sql", "--workers", "0"]).expect(2);
        ended(folder.path(), &["run", "p.sql", "--processes", "65"]).expect(2);
        let mut member = tidemill(folder.path(), &["run", "p.sql"]);
        let member: Ended = member.env("TIDEMILL_PROCESS", "1").output().unwrap().into();
        member.expect(2).tells(&["TIDEMILL_PROCESS is set to \"1\""]);
        ended(folder.path(), &["run", "p.sql"]).expect(0);
    }
}

#[test]
fn what_the_user_can_correct_has_code_2() {
    let folder = folder_with(&[("p.sql", "CREATE SOURCE a WITH (path = 'missing.csv');"), ("file", "")]);
    let wrong: [&[&str]; 10] = [
        &["sql", "-c", "SELECT * FROM nothing"],
        &["sql", "-c", "SET workers = 0"],
        &["run", "p.sql"],
        &["run", "missing.sql"],
        &["explain", "p.sql"],
        &["linear-road", "run", "--input", "missing.csv"],
        &["linear-road", "generate", "--minutes", "1", "--out", "file/traffic"],
        &["journal", "ls", "missing.journal"],
        &["bench", "split", "--broadcast", "2"],
        &["bench", "split", "--pictures", "file/pictures"],
    ];
    for arguments in wrong {
        ended(folder.path(), arguments).expect(2).tells(&["error: "]);
    }
}

#[test]
fn a_limit_has_code_1() {
    let script = "SET max_groups = 1;
        CREATE SINK counts FROM (SELECT value, count(*) AS n FROM sequence(count => 9) GROUP BY value)
        WITH (path = 'counts.csv');";
    let folder = folder_with(&[("p.sql", script)]);
    ended(folder.path(), &["run", "p.sql"]).expect(1).tells(&["limit reached", "max_groups"]);
    let rows = "SET max_result_rows = 2; SELECT value FROM sequence(count => 9) ORDER BY value";
    ended(folder.path(), &["sql", "-c", rows]).expect(1).tells(&["limit reached", "max_result_rows"]);
}

#[test]
fn an_operation_that_fails_has_code_1() {
    let script = SETTING.replace("DURABLE", ", durable = true").replace("SET WRONG;", "");
    let folder = folder_with(&[("p.sql", &script), ("numbers.csv", "value\n1\n")]);
    let path = folder.path();
    let select = ["sql", "--format", "csv", "-c", "SELECT value FROM sequence(count => 9)"];
    let full = "No space left on device";
    ended_on_a_full_disk(path, &select).expect(1).tells(&[full]);
    ended(path, &["run", "p.sql"]).expect(0);
    ended_on_a_full_disk(path, &["journal", "ls", "p.journal"]).expect(1).tells(&[full]);
    let generate = ["linear-road", "generate", "--expressways", "1", "--minutes", "1", "--out", "traffic"];
    ended_on_a_full_disk(path, &generate).expect(1).tells(&[full]);

    let cuts = path.join("p.journal/cuts");
    let segment = fs::read_dir(cuts).unwrap().map(|entry| entry.unwrap().path()).max().unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    bytes[20] ^= 0xff;
    fs::write(&segment, bytes).unwrap();
    ended(path, &["run", "p.sql"]).expect(1).tells(&["error: "]);
    ended(path, &["journal", "verify", "p.journal"]).expect(3);
}

#[test]
fn verbose_shows_every_cause_on_a_line_of_its_own() {
    let folder = folder_with(&[]);
    let quiet = ["sql", "--format", "csv", "-c", "SELECT value FROM sequence(count => 9)"];
    let said = |ended: Ended| -> Vec<String> {
        let lines = ended.expect(1).stderr;
        lines.lines().filter(|line| line.contains("No space left")).map(str::to_owned).collect()
    };
    let short = said(ended_on_a_full_disk(folder.path(), &quiet));
    assert!(short.len() == 1 && short[0].starts_with("error: sink "), "{short:?}");
    let long = said(ended_on_a_full_disk(folder.path(), &[&quiet[..], &["--verbose"]].concat()));
    let causes: Vec<&String> = long.iter().filter(|line| !line.contains("tidemill_")).collect();
    assert_eq!(*causes[0], short[0]);
    assert_eq!(causes[1..], ["  because: No space left on device (os error 28)"]);
}
