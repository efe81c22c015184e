//! Ctrl-C, and readers that go away.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::Duration;

use crate::support::child::{end, hang_up, interrupt, signal, wait_until};
use crate::support::*;

fn start(folder: &Path, arguments: &str) -> Child {
    child::start(command(folder, arguments))
}

fn has_answers(folder: &Path) -> bool {
    folder.join("type0.csv").metadata().is_ok_and(|file| file.len() > 0)
}

/// The first second that is not answered, from the summary.
fn answered_until(summary: &str) -> u32 {
    let (_, rest) = summary.split_once("events up to ").expect("a summary");
    let clock = rest.split(' ').next().expect("a time");
    clock.split(':').fold(0, |seconds, part| seconds * 60 + part.parse::<u32>().expect("a number"))
}

#[test]
fn ctrl_c_ends_in_order_and_all_that_was_taken_in_is_answered() {
    let folder = folder_with_traffic();
    let folder = folder.path();
    let from_files = "run --input traffic/input.csv --history traffic/history.csv --workers 2";
    linear_road(folder, &format!("{from_files} --out full")).expect(0);

    let child = start(folder, &format!("{from_files} --pace real --out part"));
    wait_until("there are answers", || has_answers(&folder.join("part")));
    thread::sleep(Duration::from_millis(1500));
    interrupt(&child);
    let ended = end(child).expect(130).tells(&["in real time", "interrupted"]).shows(&["stopped: "]);

    let end_s = answered_until(&ended.stdout);
    assert!((1..100).contains(&end_s), "{}", ended.stdout);
    for kind in 0..4 {
        let mut expected = answers(&folder.join("full"), kind);
        expected.retain(|answer| second_of(answer, kind) < end_s);
        expected.sort();
        let mut found = answers(&folder.join("part"), kind);
        found.sort();
        assert_eq!(expected, found, "type {kind}");
    }
}

#[test]
fn ctrl_c_ends_a_run_that_waits_for_standard_input() {
    let folder = folder_with_traffic();
    let folder = folder.path();
    let text = std::fs::read(folder.join("traffic/input.csv")).unwrap();
    let mut child = start(folder, "run --input - --out a --workers 1");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(&text).unwrap();
    input.flush().unwrap();
    // What came is answered although the pipe stays open.
    wait_until("there are answers", || has_answers(&folder.join("a")));
    interrupt(&child);
    end(child).expect(130).shows(&["stopped: "]);
    drop(input);

    // Here nothing comes at all, and the terminal is closed. It says what it does once it can be interrupted.
    let mut child = start(folder, "run --input - --out b");
    let mut told = BufReader::new(child.stderr.take().expect("a pipe"));
    told.read_line(&mut String::new()).expect("it says what it does");
    signal(&child, hang_up());
    end(child).expect(130).shows(&["stopped: 0 events"]);
}

#[test]
fn generating_can_be_interrupted() {
    let folder = tempfile::TempDir::new().unwrap();
    let folder = folder.path();
    let child = start(folder, "generate --expressways 50 --minutes 180 --out traffic");
    let input = folder.join("traffic/input.csv");
    wait_until("there is traffic", || input.metadata().is_ok_and(|file| file.len() > 0));
    interrupt(&child);
    end(child).expect(130).tells(&["interrupted: the files contain the first"]);
    assert!(std::fs::read_to_string(&input).unwrap().ends_with('\n'));
    linear_road(folder, "run --input traffic/input.csv --history traffic/history.csv --strict --out a")
        .expect(0);
}

#[test]
fn closed_pipes_are_no_error() {
    let folder = folder_with_traffic();
    let folder = folder.path();
    let mut child = start(folder, "run --input traffic/input.csv --out a");
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut stderr).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");

    let mut child = start(folder, "check --answers a --expected a --ignore-delays");
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(0));

    let mut child = start(folder, "run --input nowhere.csv");
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

/// The processor time that a child has used so far, in hundredths of a second (`man 5 proc`, field 14 of `stat`).
#[cfg(feature = "sql")]
fn processor_ticks(child: &std::process::Child) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it runs");
    let behind_name = stat.rsplit_once(") ").expect("its name is in parentheses").1;
    behind_name.split(' ').nth(11).expect("a field of stat").parse().expect("a number")
}

#[test]
#[cfg(feature = "sql")]
fn ctrl_c_ends_a_query_in_the_middle_of_a_long_computation() {
    let folder = tempfile::TempDir::new().unwrap();
    // Minutes of work in one cycle.
    let long = "SELECT count(*) FROM sequence(1000000) a, sequence(1000000) b WHERE a.value + b.value < 0";
    let mut child =
        child::start(tidemill(folder.path(), &["sql", "-c", &format!("SELECT 1 AS begun; {long}")]));
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_exact(&mut [0]).expect("the first statement is answered");
    // Before that, it reads its rows, and ends in order.
    wait_until("it has computed for a while", || processor_ticks(&child) > 200);
    interrupt(&child);
    let ended = child.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(130) && told.contains("did not end within 5 s"), "{ended:?}");
}
