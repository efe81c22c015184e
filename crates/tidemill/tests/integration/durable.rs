//! Durable queries of typed streams: a run continues where the one before it stopped, or was killed.
//!
//! The process that is killed is this test's own executable.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tidemill::engine::Counter;
use tidemill::{Engine, Error, Query, RowSource, Run, Timestamp, Window, aggregate, sinks};

const KEYS: u64 = 3;
const FOLDER: &str = "TIDEMILL_TEST_DURABLE_FOLDER";
const FROM: &str = "TIDEMILL_TEST_DURABLE_FROM";
const TO: &str = "TIDEMILL_TEST_DURABLE_TO";

/// Running sums for each key, into a file beside the journal.
fn sums(folder: &Path) -> (Query, RowSource<(u64, u64)>) {
    let mut query = Query::new("sums").partitions(2).durable(folder.join("journal"));
    let numbers = query.rows::<(u64, u64)>("numbers", ["key", "number"]);
    numbers
        .key_by("key")
        .scan("sum", ["key", "number"], ["key", "sum"], |sum: &mut u64, (key, number): (u64, u64)| {
            *sum += number;
            [(key, *sum)]
        })
        .to("file", sinks::file(folder.join("sums.csv")));
    (query, numbers)
}

/// What an undisturbed run writes for each key, in order.
fn expected(key: u64, numbers: u64) -> Vec<u64> {
    let own = (0..numbers).filter(|number| number % KEYS == key);
    own.scan(0, |sum, number| {
        *sum += number;
        Some(*sum)
    })
    .collect()
}

fn written(folder: &Path, key: u64) -> Vec<u64> {
    let text = std::fs::read_to_string(folder.join("sums.csv")).unwrap();
    let rows = text.lines().skip(1).filter_map(|line| {
        let (of, sum) = line.split_once(',')?;
        (of == key.to_string()).then(|| sum.parse().unwrap())
    });
    rows.collect()
}

#[test]
fn the_process_that_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let number = |name| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let (query, numbers) = sums(Path::new(&folder));
    let run = Engine::new().workers(2).start(query).unwrap();
    let input = run.input(&numbers).unwrap();
    for number in number(FROM)..number(TO) {
        match input.push_once("test", number + 1, [(number % KEYS, number)]) {
            Ok(()) | Err(Error::Behind { .. }) => println!("\nsafe {number}"),
            Err(error) => panic!("{error}"),
        }
    }
    run.stop().unwrap();
    println!("\nstopped");
}

fn process(folder: &Path, from: u64, to: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "durable::the_process_that_is_killed", "--nocapture"])
        .env(FOLDER, folder)
        .env(FROM, from.to_string())
        .env(TO, to.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Reads what the process says until it says this.
fn hear(child: &mut Child, awaited: &str) {
    let lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    let found = lines.map_while(Result::ok).any(|line| line == awaited);
    assert!(found, "the process ended before '{awaited}'");
}

#[test]
fn a_query_whose_process_is_killed_goes_on_and_writes_each_row_once() {
    let folder = tempfile::tempdir().unwrap();
    // The program pushes again from before what it knows to be safe, as one does that has forgotten.
    for (from, killed_at) in [(0, 40), (30, 90), (91, 95), (0, 140)] {
        let mut child = process(folder.path(), from, u64::MAX);
        hear(&mut child, &format!("safe {killed_at}"));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for end in [400, 500] {
        let mut child = process(folder.path(), 100, end);
        hear(&mut child, "stopped");
        assert!(child.wait().unwrap().success());
    }
    for key in 0..KEYS {
        assert_eq!(written(folder.path(), key), expected(key, 500), "key {key}");
    }
}

fn started(folder: &Path) -> (Run, tidemill::RowInput<(u64, u64)>) {
    let (query, numbers) = sums(folder);
    let run = Engine::new().start(query).unwrap();
    let input = run.input(&numbers).unwrap();
    (run, input)
}

#[test]
fn a_request_counts_once_and_one_that_comes_too_late_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let (run, input) = started(folder.path());
    assert_eq!(run.recovered().unwrap().snapshot, None);
    input.push_once("a", 5, [(0, 1)]).unwrap();
    input.push_once("a", 5, [(0, 1)]).unwrap();
    input.push_once("b", 1, [(0, 10)]).unwrap();
    let behind = Error::Behind { client: "a".into(), sequence: 4, last: 5 };
    assert_eq!(input.push_once("a", 4, [(0, 100)]), Err(behind));
    run.stop().unwrap();
    assert_eq!(input.push([(0, 1)]), Err(Error::Stopped));
    let (run, input) = started(folder.path());
    assert!(run.recovered().unwrap().snapshot.is_some());
    input.push_once("a", 5, [(0, 1000)]).unwrap();
    input.push([(0, 2)]).unwrap();
    run.finish().unwrap();
    assert_eq!(written(folder.path(), 0), [1, 11, 13]);
}

#[test]
fn a_window_stays_open_over_a_stop_and_is_closed_by_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let run = |times: &[i64], ends: bool| {
        let mut query = Query::new("windows").durable(folder.path());
        let clicks =
            query.rows::<(Timestamp,)>("clicks", "time").event_time("time", std::time::Duration::ZERO);
        let window = Window::tumbling("time", std::time::Duration::from_nanos(10));
        let counts = clicks.key_by(()).window(window).aggregate([aggregate::count()]).collect("counts", 10);
        let run = Engine::new().start(query).unwrap();
        let input = run.input(&clicks).unwrap();
        times.iter().for_each(|time| input.push([(Timestamp(*time),)]).unwrap());
        if ends { run.finish() } else { run.stop() }.unwrap();
        tidemill::rows_of::<(Option<i64>,)>(&counts.read().unwrap(), "count").unwrap()
    };
    assert_eq!(run(&[1, 2], false), []);
    assert_eq!(run(&[3, 12], false), [(Some(3),)]);
    assert_eq!(run(&[], true), [(Some(1),)]);
}

#[test]
fn an_idle_source_does_not_hold_windows_back_until_it_has_rows_again() {
    let folder = tempfile::tempdir().unwrap();
    for durable in [false, true] {
        let query = Query::new("idle");
        let mut query = if durable { query.durable(folder.path()) } else { query };
        let zero = std::time::Duration::ZERO;
        let left = query.rows::<(Timestamp,)>("left", "time").event_time("time", zero);
        let right = query.rows::<(Timestamp,)>("right", "time").event_time("time", zero);
        let window = Window::tumbling("time", std::time::Duration::from_nanos(10));
        let counts = left.union(&right).key_by(()).window(window).aggregate([aggregate::count()]);
        let counts = counts.collect("counts", 10);
        let run = Engine::new().start(query).unwrap();
        let (left, right) = (run.input(&left).unwrap(), run.input(&right).unwrap());
        let until = |windows: usize| {
            while counts.len() < windows {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        };
        right.push([(Timestamp(1),)]).unwrap();
        right.idle().unwrap();
        right.idle().unwrap();
        left.push([(Timestamp(2),), (Timestamp(15),)]).unwrap();
        // Without the other source: it is idle, and would hold the window open otherwise.
        until(1);
        // It is active again, and holds the next window open for its own rows, until it is idle again.
        right.push([(Timestamp(16),)]).unwrap();
        // Rows of two sources have no order among each other before they are in a cycle.
        while run.status().engine.get(Counter::EventsCommitted) < 4 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        left.push([(Timestamp(25),)]).unwrap();
        right.push([(Timestamp(17),)]).unwrap();
        right.idle().unwrap();
        until(2);
        let summary = run.finish().unwrap();
        assert_eq!(summary.late, 0);
        let counts = tidemill::rows_of::<(Option<i64>,)>(&counts.read().unwrap(), "count").unwrap();
        assert_eq!(counts, [(Some(2),), (Some(3),), (Some(1),)], "durable: {durable}");
    }
}

#[test]
fn another_query_is_refused_in_the_same_folder_and_numbers_without_one() {
    let folder = tempfile::tempdir().unwrap();
    let start = |operator: &str| {
        let mut query = Query::new("numbers").durable(folder.path());
        let numbers = query.rows::<(u64,)>("numbers", "number");
        let scan = |sum: &mut u64, (number,): (u64,)| {
            *sum += number;
            [(*sum,)]
        };
        numbers.key_by(()).scan(operator, "number", "sum", scan).collect("sums", 10);
        Engine::new().start(query).map(|run| run.stop().map(|_| ()))
    };
    start("sum").unwrap().unwrap();
    let refused = start("total").err().unwrap().to_string();
    assert!(refused.contains("'operator sum in 1 partitions'"), "{refused}");

    let mut query = Query::new("volatile");
    let numbers = query.rows::<(u64,)>("numbers", "number");
    numbers.collect("all", 10);
    let run = Engine::new().start(query).unwrap();
    let refused = run.input(&numbers).unwrap().push_once("a", 1, [(1,)]).unwrap_err().to_string();
    assert!(refused.contains("durable()"), "{refused}");
}
