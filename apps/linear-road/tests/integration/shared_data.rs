//! The application on the shared data set: one expressway, 30 minutes, with the right answers beside it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::application_run::{Collected, run};
use tidemill_connect::LineFile;
use tidemill_linear_road::check::{CheckOptions, check};
use tidemill_linear_road::event::{Event, HistoryRow};
use tidemill_linear_road::query::Partitions;
use tidemill_linear_road::text_read::{InputParser, parse_history_row};

fn shared_data() -> Option<PathBuf> {
    let folder =
        Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../../shared/data/linear-road");
    if folder.exists() {
        return Some(folder);
    }
    println!("skipped: the shared data set is not here ({})", folder.display());
    None
}

fn events(folder: &Path) -> Vec<Event> {
    let mut file = LineFile::open(folder.join("input.csv.zst")).unwrap();
    let mut parser = InputParser::default();
    let mut events = Vec::new();
    while let Some(chunk) = file.next_chunk().unwrap() {
        events.extend(chunk.lines().map(|line| parser.parse(&line).unwrap()));
    }
    events
}

fn history(folder: &Path) -> Vec<HistoryRow> {
    let mut file = LineFile::open(folder.join("history.csv.zst")).unwrap();
    let mut rows = Vec::new();
    while let Some(chunk) = file.next_chunk().unwrap() {
        rows.extend(chunk.lines().map(|line| parse_history_row(line.bytes).unwrap()));
    }
    rows
}

fn assert_exact(found: &Collected, folder: &Path) {
    let answers = tempfile::tempdir().unwrap();
    for (kind, text) in found.text.iter().enumerate() {
        fs::write(answers.path().join(format!("type{kind}.csv")), text).unwrap();
    }
    let report = check(answers.path(), &folder.join("expected"), &CheckOptions::default()).unwrap();
    assert!(report.is_exact(), "{report}");
}

#[test]
fn answers_are_exact_at_1_2_and_5_workers_and_in_small_and_large_cycles() {
    let Some(folder) = shared_data() else { return };
    let (events, history) = (events(&folder), history(&folder));
    let first = run(&events, &history, 1, 60_000, Partitions::default());
    assert_exact(&first, &folder);
    for (workers, cycle_events) in [(2, 60_000), (5, 60_000), (1, 1000), (2, 1000), (5, 1000)] {
        let other = run(&events, &history, workers, cycle_events, Partitions::default());
        assert!(first.text == other.text, "{workers} workers, cycles of {cycle_events}: other bytes");
    }
}

#[test]
fn cycles_of_one_event_answer_the_first_five_minutes_exactly() {
    let Some(folder) = shared_data() else { return };
    let (mut events, history) = (events(&folder), history(&folder));
    events.retain(|event| event.time() < 300);
    let large = run(&events, &history, 1, 60_000, Partitions::default());
    assert!(large.tolls.len() > 10_000);
    for workers in [1, 2, 5] {
        // The reference test holds the first ten minutes against the expected answers.
        let small = run(&events, &history, workers, 1, Partitions::default());
        assert!(large.text == small.text, "{workers} workers: other bytes");
    }
}
