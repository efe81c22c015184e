//! What was written into the journal of the corpus.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{DictionaryArray, Int64Array, RecordBatch, StringArray};
use tidemill_core::snapshot::Snapshot;
use tidemill_core::source::Request;
use tidemill_core::{Cut, CutLog};
use tidemill_journal::{Journal, Record, StoredSnapshot, StreamSettings};

use crate::journal::FOLDER;
use tidemill_testing::fault_disk::FaultDisk;

pub const STREAMS: [&str; 2] = ["orders", "tags"];
/// Records of each stream, and rows of each record.
pub const RECORDS: u64 = 14;
pub const ROWS: u64 = 4;
pub const CUTS: u64 = 9;
pub const SNAPSHOTS: [u64; 2] = [3, 6];

pub fn settings() -> StreamSettings {
    StreamSettings { segment_bytes: 4096, ..StreamSettings::default() }
}

/// The rows from a position on: plain columns, or a dictionary.
pub fn rows(stream: &str, start: u64, count: u64) -> RecordBatch {
    let numbers = (start..start + count).map(|number| number as i64);
    let texts = numbers.clone().map(|number| (number % 3 != 0).then(|| format!("row {number}")));
    let numbers = Arc::new(Int64Array::from_iter_values(numbers)) as _;
    if stream == "orders" {
        let texts = Arc::new(texts.collect::<StringArray>()) as _;
        return RecordBatch::try_from_iter_with_nullable([("number", numbers, false), ("text", texts, true)])
            .unwrap();
    }
    let texts: Vec<Option<String>> = texts.collect();
    let texts: DictionaryArray<Int32Type> = texts.iter().map(Option::as_deref).collect();
    let texts = Arc::new(texts) as _;
    RecordBatch::try_from_iter_with_nullable([("number", numbers, false), ("tag", texts, true)]).unwrap()
}

pub fn record(stream: &str, number: u64) -> Record {
    let start = number * ROWS;
    let request = number
        .is_multiple_of(2)
        .then(|| Request { client: format!("agent {}", number % 3), sequence: number });
    Record {
        start,
        rows: rows(stream, start, ROWS),
        arrived_ns: number * 1000,
        request,
        stretches: Vec::new(),
    }
}

pub fn cut(cycle: u64) -> Cut {
    Cut {
        cycle,
        positions: vec![cycle * ROWS, cycle * ROWS],
        watermarks: vec![i64::MIN, cycle as i64 - 5],
        idle: vec![cycle.is_multiple_of(2), false],
        closed_at_ns: cycle * 1000,
        snapshot: SNAPSHOTS.contains(&cycle),
        // As cuts of version 1 are replayed.
        ended_at: Vec::new(),
        stands_still_when_idle: true,
        ..Cut::first()
    }
}

pub fn snapshot(cycle: u64) -> StoredSnapshot {
    let partitions = BTreeMap::from([(0, vec![1, 2, cycle as u8]), (7, vec![9; 300])]);
    let operators = BTreeMap::from([("count".to_owned(), partitions), ("sum".to_owned(), BTreeMap::new())]);
    let watermarks = BTreeMap::from([("count".to_owned(), 1_700_000_000), ("sum".to_owned(), i64::MIN)]);
    let state = Snapshot { cycle, operators, watermarks };
    StoredSnapshot { cut: cut(cycle), plan: "operator count in 8 partitions".into(), state }
}

pub fn commits() -> BTreeMap<String, u64> {
    BTreeMap::from([("alerts".to_owned(), 5), ("totals".to_owned(), 8)])
}

/// Writes all of it.
pub fn write(disk: &FaultDisk) {
    let journal = Journal::open_on(Arc::new(disk.clone()), Path::new(FOLDER)).unwrap();
    for stream in STREAMS {
        let (mut writer, _) = journal.stream(stream, rows(stream, 0, 1).schema(), &settings()).unwrap();
        for number in 0..RECORDS {
            let Record { rows, arrived_ns, request, .. } = record(stream, number);
            writer.append(&rows, arrived_ns, request.as_ref()).unwrap();
            if number % 3 == 0 {
                writer.sync().unwrap();
            }
        }
    }
    let mut cuts = journal.cuts().unwrap();
    (0..CUTS).for_each(|cycle| {
        cuts.append(&cut(cycle)).unwrap();
        cuts.sync().unwrap();
    });
    SNAPSHOTS.iter().for_each(|cycle| journal.snapshots().write(&snapshot(*cycle)).unwrap());
    journal.commits().write(&commits()).unwrap();
}
