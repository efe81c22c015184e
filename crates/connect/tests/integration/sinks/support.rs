//! Rows, cycles and commits for the tests.

use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch, StringArray};
use arrow_schema::SchemaRef;
use proptest::prelude::*;
use tidemill_connect::formats::encode::TextFormat;
use tidemill_core::{Batch, Cause, Cut, CycleOutput, ManualClock, Sink};

/// A cycle's results with one stream.
pub fn cycle(number: u64, rows: Option<RecordBatch>) -> CycleOutput {
    let batch = rows.map(|rows| {
        let positions: Vec<u32> = (0..rows.num_rows() as u32).collect();
        Batch::from_source(rows, positions.into())
    });
    CycleOutput {
        cut: Arc::new(Cut { cycle: number, ..Cut::first() }),
        streams: vec![batch],
        arrivals: Arc::default(),
        clock: Arc::new(ManualClock::default()),
    }
}

/// Rows `(key, value)`.
pub fn rows(values: &[(&str, i64)]) -> RecordBatch {
    let keys = values.iter().map(|(key, _)| Some(*key)).collect::<StringArray>();
    let values = values.iter().map(|(_, value)| Some(*value)).collect::<Int64Array>();
    RecordBatch::try_from_iter_with_nullable([
        ("key", Arc::new(keys) as _, true),
        ("value", Arc::new(values) as _, true),
    ])
    .unwrap()
}

/// The schema of [`rows`].
pub fn schema() -> SchemaRef {
    rows(&[]).schema()
}

/// `count` rows whose values tell the cycle.
pub fn rows_of_cycle(cycle: u64, count: usize) -> RecordBatch {
    rows(&vec![("some text that takes some room", cycle as i64); count])
}

/// Prepares and commits one cycle.
pub fn commit_one(sink: &mut impl Sink, number: u64, rows: RecordBatch) -> Result<(), Cause> {
    sink.prepare(cycle(number, Some(rows)))?;
    sink.commit(number..=number)
}

/// All rows as text, with the header.
pub fn text_of(format: &TextFormat, batches: &[RecordBatch]) -> String {
    let mut encoder = format.encoder(&schema()).unwrap();
    let mut text = Vec::new();
    encoder.header(&mut text);
    for rows in batches {
        encoder.rows(rows, &mut text).unwrap();
    }
    String::from_utf8(text).unwrap()
}

/// Cycles with 0 to 20 rows or none at all, and how many of them each commit takes.
pub fn any_cycles() -> impl Strategy<Value = (Vec<Option<usize>>, Vec<usize>)> {
    let cycle = prop_oneof![Just(None), (0..20_usize).prop_map(Some)];
    (prop::collection::vec(cycle, 0..40), prop::collection::vec(1..6_usize, 40))
}

/// Drives a sink through these cycles; calls `check` with the rows committed so far after each preparation
/// and each commit. Returns all rows.
pub fn drive(
    sink: &mut impl Sink,
    cycles: &[Option<usize>],
    commits: &[usize],
    mut check: impl FnMut(&[RecordBatch]),
) -> Vec<RecordBatch> {
    let mut committed = Vec::new();
    let mut first = 0;
    for size in commits {
        let last = (first + size).min(cycles.len());
        let mut waiting = Vec::new();
        for (number, count) in cycles.iter().enumerate().take(last).skip(first) {
            let rows = count.map(|count| rows_of_cycle(number as u64, count));
            waiting.extend(rows.clone());
            sink.prepare(cycle(number as u64, rows)).unwrap();
            check(&committed);
        }
        if first < last {
            sink.commit(first as u64..=last as u64 - 1).unwrap();
            committed.extend(waiting);
            check(&committed);
        }
        first = last;
    }
    committed
}
