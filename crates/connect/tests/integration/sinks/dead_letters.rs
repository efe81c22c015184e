//! Rows that a text file cannot hold are in the file of dead letters, once, wherever the process was killed. The process
//! is this test binary, started for [`in_child`].

use std::env;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Date32Array, Int64Array, RecordBatch};
use tidemill_connect::dead_letter::{DeadLetterFile, DeadLetterSink};
use tidemill_connect::file::{FileFormat, FileSink, FileSinkSettings, SyncPolicy};
use tidemill_connect::formats::encode::TextFormat;
use tidemill_connect::memory::MemorySink;
use tidemill_core::error::Fault;
use tidemill_core::{Guarantee, RefusedRow, Sink};

use crate::sinks::children::killed_until_done;
use crate::sinks::support::{commit_one, cycle};

const PLACE: &str = "TIDEMILL_DEAD_LETTERS_PLACE";
const CYCLES: u64 = 200;
const ROWS: u64 = 7;

/// The numbers of a cycle's rows. Every fifth has a day that no calendar has.
fn rows_of(cycle: u64) -> RecordBatch {
    let ids: Vec<i64> = (cycle * ROWS..(cycle + 1) * ROWS).map(|id| id as i64).collect();
    let days: Date32Array = ids.iter().map(|id| Some(if is_bad(*id) { i32::MAX } else { 1 })).collect();
    let ids = Int64Array::from(ids);
    RecordBatch::try_from_iter([("id", Arc::new(ids) as _), ("day", Arc::new(days) as _)]).unwrap()
}

fn is_bad(id: i64) -> bool {
    id % 5 == 3
}

fn open(place: &Path, format: FileFormat) -> DeadLetterSink {
    let schema = rows_of(0).schema();
    let settings =
        FileSinkSettings { resume: true, sync: SyncPolicy::EveryCommit, ..FileSinkSettings::new(format) };
    let file = FileSink::create(&place.join("rows"), &schema, &settings).unwrap();
    let letters = DeadLetterFile::open(&place.join("refused"), "s", true).unwrap();
    DeadLetterSink::new(Box::new(file), &schema, Some(letters))
}

#[test]
fn in_child() {
    let Ok(place) = env::var(PLACE) else { return };
    let mut sink = open(Path::new(&place), FileFormat::csv());
    assert_eq!(sink.guarantee(), Guarantee::ExactlyOnce);
    let mut first = sink.last_committed().unwrap().map_or(0, |last| last + 1);
    while first < CYCLES {
        let last = (first + first % 4).min(CYCLES - 1);
        for number in first..=last {
            sink.prepare(cycle(number, Some(rows_of(number)))).unwrap();
        }
        sink.commit(first..=last).unwrap();
        first = last + 1;
    }
    sink.finish().unwrap();
    println!("all written");
}

/// Kills children until one ends; returns how many were killed.
fn write_and_kill(place: &Path) -> u64 {
    killed_until_done(|child| child.args(["--exact", "sinks::dead_letters::in_child"]).env(PLACE, place))
}

/// The rows in the file, and those in the letters, each with cycle and position.
fn written(place: &Path) -> (Vec<i64>, Vec<(i64, u64, u64)>) {
    let rows = fs::read_to_string(place.join("rows")).unwrap();
    let ids = rows.lines().skip(1).map(|line| line.split(',').next().unwrap().parse().unwrap());
    let letters = fs::read_to_string(place.join("refused")).unwrap();
    let letter = |line: &str| {
        let letter: serde_json::Value = serde_json::from_str(line).unwrap();
        let number = |name: &str| letter[name].as_u64().unwrap();
        (letter["row"]["id"].as_i64().unwrap(), number("cycle"), number("position"))
    };
    (ids.collect(), letters.lines().map(letter).collect())
}

#[test]
fn each_row_is_in_one_of_the_two_files_once() {
    let folder = tempfile::tempdir().unwrap();
    let killed = write_and_kill(folder.path());
    let (ids, letters) = written(folder.path());
    let all = 0..(CYCLES * ROWS) as i64;
    assert!(ids.into_iter().eq(all.clone().filter(|id| !is_bad(*id))), "after {killed} kills");
    let expected = all.filter(|id| is_bad(*id)).map(|id| (id, id as u64 / ROWS, id as u64 % ROWS));
    assert!(letters.into_iter().eq(expected), "after {killed} kills");
}

/// The letters are on disk and the rows are not: the process died between the two.
#[test]
fn letters_of_a_commit_that_did_not_come_are_not_doubled() {
    let folder = tempfile::tempdir().unwrap();
    let letters = folder.path().join("refused");
    let mut sink = open(folder.path(), FileFormat::Ndjson);
    commit_one(&mut sink, 0, rows_of(0)).unwrap();
    let (rows, manifest) = (folder.path().join("rows"), folder.path().join("rows.manifest"));
    let before = (fs::read(&rows).unwrap(), fs::read(&manifest).unwrap());
    commit_one(&mut sink, 1, rows_of(1)).unwrap();
    let after = (fs::read(&rows).unwrap(), fs::read(&manifest).unwrap(), fs::read(&letters).unwrap());
    assert_eq!(sink.refused().read().count, 3);
    drop(sink);
    fs::write(&rows, before.0).unwrap();
    fs::write(&manifest, before.1).unwrap();
    let mut sink = open(folder.path(), FileFormat::Ndjson);
    assert_eq!(sink.last_committed().unwrap(), Some(0));
    commit_one(&mut sink, 1, rows_of(1)).unwrap();
    assert_eq!(after, (fs::read(&rows).unwrap(), fs::read(&manifest).unwrap(), fs::read(&letters).unwrap()));
}

#[test]
fn without_letters_such_a_row_is_named() {
    let rows = rows_of(4);
    for format in [TextFormat::csv(), TextFormat::Ndjson] {
        let mut text = Vec::new();
        let refused = format.encoder(&rows.schema()).unwrap().rows(&rows, &mut text);
        let refused = refused.expect_err("a day has no text");
        assert!(refused.fault == Fault::User && refused.message.contains("column 'day'"), "{refused}");
        assert_eq!(text, b"");
    }
    let mut sink = DeadLetterSink::new(Box::new(MemorySink::new(&rows.schema(), 10).0), &rows.schema(), None);
    let refused = sink.prepare(cycle(4, Some(rows))).expect_err("a day has no text");
    assert_eq!(RefusedRow::of(&refused), Some(RefusedRow { cycle: 4, event: 0 }));
    assert!(refused.message.contains("{\"id\":28,"), "{refused}");
}
