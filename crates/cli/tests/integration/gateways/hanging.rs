//! Gateways that hang: they are named and started again, and nobody waits for them without limit.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::fleet::Fleet;
use super::kill;
use crate::support::child::wait_until;
use crate::support::folder_with;

/// What a gateway says for which a file stands in the way is known at once; what hangs is known after this time.
const SILENCE: Duration = Duration::from_secs(20);

#[test]
fn a_gateway_that_hangs_while_it_begins_is_named_and_started_again() {
    let folder = folder_with(&[]);
    let mut fleet = Fleet::start(folder.path(), 2, 5);
    fleet.finish();
    wait_until("every row is there", || fleet.check_whole_cycles(&[5, 5]));
    let journal = folder.path().join("tides/gateways/g1/journal");
    // Who opens a pipe waits until somebody writes into it.
    let kept = journal.with_extension("kept");
    let owner = fs::read_dir(&journal).unwrap().flatten().map(|entry| entry.path());
    let names: Vec<_> = owner.collect();
    println!("{names:?}");
    fs::rename(&journal, &kept).unwrap();
    fs::create_dir(&journal).unwrap();
    for path in names.iter().filter(|path| kept.join(path.file_name().unwrap()).is_file()) {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }
    kill(&fleet.process_of(1));
    // Meanwhile it takes no order. Nobody waits for that longer than the statement may take.
    thread::sleep(Duration::from_secs(1));
    for statement in
        ["STOP MATERIALIZED VIEW recent", "ALTER MATERIALIZED VIEW recent SET (retain_versions = 7)"]
    {
        let start = Instant::now();
        let error = fleet.error(&format!("SET statement_timeout = '1 s'; {statement}"));
        assert!(start.elapsed() < SILENCE / 2, "{:?}", start.elapsed());
        assert!(error.contains("gateway 'g1'") || error.contains("57014"), "{error}");
    }
    fleet.text("SET statement_timeout = 0; START MATERIALIZED VIEW recent");
    wait_until("it is known to hang", || {
        let answer = fleet.answer("SELECT count(*) FROM recent");
        answer.is_err_and(|error| error.contains("shown no sign of work for 20 s"))
    });
    // From time to time it is being started again, and hangs once more.
    wait_until("it is shown to hang", || {
        let queries = fleet.text("SHOW QUERIES");
        queries.contains("views at g1|away") && queries.contains("hangs while it begins")
    });
    fs::remove_dir_all(&journal).unwrap();
    fs::rename(&kept, &journal).unwrap();
    wait_until("it is back with every row", || fleet.check_whole_cycles(&[5, 5]));
}

#[test]
fn gateways_that_say_nothing_are_waited_for_together_and_named() {
    let folder = folder_with(&[]);
    let mut fleet = Fleet::start(folder.path(), 3, 5);
    fleet.finish();
    wait_until("every row is there", || fleet.check_whole_cycles(&[5; 3]));
    let processes: Vec<String> = (0..3).map(|gate| fleet.process_of(gate)).collect();
    let signal = |name: &str, process: &str| {
        assert!(Command::new("kill").args([name, process]).status().expect("kill runs").success());
    };
    processes[1..].iter().for_each(|process| signal("-STOP", process));
    let start = Instant::now();
    let queries = fleet.text("SHOW QUERIES");
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    assert!(queries.contains("recent at g0|running"), "{queries}");
    for gate in ["g1", "g2"] {
        let line = format!("views at {gate}|away||||its process runs, and does not answer");
        assert!(queries.contains(&line), "{queries}");
    }
    // A definition names one that hangs, and does not wait for it without limit.
    let start = Instant::now();
    let error = fleet.error("CREATE MATERIALIZED VIEW east AS SELECT count(*) AS n FROM cars1");
    assert!(error.contains("gateway 'g1': its process hangs"), "{error}");
    assert!(start.elapsed() < SILENCE * 3, "{:?}", start.elapsed());
    signal("-CONT", &processes[2]);
    wait_until("they are back with every row", || fleet.check_whole_cycles(&[5; 3]));
    assert_eq!(fleet.text("SELECT count(*) FROM east").len(), 1);
    // Two sessions that ask at the same time are both answered.
    let mut other = fleet.connect();
    let asking = std::thread::spawn(move || {
        for _ in 0..50 {
            let rows = other.query("SHOW GATEWAYS").unwrap().expect("SHOW GATEWAYS");
            assert!(rows.len() >= 4, "{rows:?}");
        }
    });
    for _ in 0..50 {
        let queries = fleet.text("SHOW QUERIES");
        assert!(!queries.contains("away"), "{queries}");
    }
    asking.join().unwrap();
}
