//! Rows that partitions share, against a naive split that knows only `take`: columns of all kinds, any part broadcast.

use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::types::Int8Type;
use arrow_array::*;
use arrow_buffer::IntervalMonthDayNano;
use arrow_schema::{DataType, Field};
use proptest::prelude::*;
use tidemill_core::{Batch, PartitionedBatch, Rows, Run};
use tidemill_split::order::Sorter;
use tidemill_split::{BROADCAST, OMIT, Placement, Route, Share, Splitter, merge_by_partition};

/// A column of each kind; the first one says where a row goes.
fn record_batch(to: &[u32]) -> RecordBatch {
    let rows = 0..to.len() as i64;
    let some = |row: i64| (row % 4 != 1).then_some(row);
    let long = |row: i64| some(row).map(|row| format!("a text of more than twelve bytes {row}"));
    let texts: Vec<Option<String>> = rows.clone().map(long).collect();
    let words: Vec<Option<&str>> =
        rows.clone().map(|row| some(row).map(|row| ["ebb", "flow"][row as usize % 2])).collect();
    let mut lists = ListBuilder::new(Int32Builder::new());
    for row in rows.clone() {
        let list = some(row)
            .map(|row| (0..row % 3).map(|item| (item != 1).then_some(row as i32)).collect::<Vec<_>>());
        lists.append_option(list);
    }
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter(rows.clone().map(some)));
    let inner: ArrayRef = Arc::new(StringArray::from(texts.clone()));
    let fields = vec![Field::new("n", DataType::Int64, true), Field::new("t", DataType::Utf8, true)];
    let wide = rows.clone().map(|row| i128::from(row) << 70);
    let interval = |row: i64| IntervalMonthDayNano::new(row as i32, 1, row);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt32Array::from(to.to_vec())),
        numbers.clone(),
        Arc::new(Int8Array::from_iter_values(rows.clone().map(|row| row as i8))),
        Arc::new(UInt16Array::from_iter_values(rows.clone().map(|row| row as u16))),
        Arc::new(Float64Array::from_iter_values(rows.clone().map(|row| row as f64))),
        Arc::new(Decimal128Array::from_iter_values(wide)),
        Arc::new(TimestampNanosecondArray::from_iter_values(rows.clone()).with_timezone("Europe/Zurich")),
        Arc::new(IntervalMonthDayNanoArray::from_iter_values(rows.clone().map(interval))),
        Arc::new(BooleanArray::from_iter(rows.clone().map(|row| some(row).map(|row| row > 7)))),
        inner.clone(),
        Arc::new(StringViewArray::from_iter(texts)),
        Arc::new(words.into_iter().collect::<DictionaryArray<Int8Type>>()),
        Arc::new(lists.finish()),
        Arc::new(StructArray::new(fields.into(), vec![numbers, inner], None)),
        Arc::new(NullArray::new(to.len())),
    ];
    let named = columns.into_iter().enumerate().map(|(index, column)| (format!("c{index}"), column, true));
    RecordBatch::try_from_iter_with_nullable(named).unwrap()
}

fn route() -> Arc<Route> {
    Arc::new(|rows: &RecordBatch, to: &mut Vec<u32>| {
        let column = rows.column(0).as_any().downcast_ref::<UInt32Array>();
        to.extend(column.expect("the first column says where").values());
    })
}

/// Each row may stand in several places of the order: several rows have one position, and some one origin.
fn batch(to: &[u32], origin: u32) -> Batch {
    let positions = (0..to.len() as u32).map(|row| row / 3).collect();
    let origins = (0..to.len() as u32).map(|row| origin + row % 3 / 2).collect();
    Batch { rows: record_batch(to), positions, origins }
}

fn rows_for(to: &[u32], partition: u32) -> Vec<u32> {
    let is_for = |row: &u32| to[*row as usize] == partition || to[*row as usize] == BROADCAST;
    (0..to.len() as u32).filter(is_for).collect()
}

fn taken(rows: &RecordBatch, indices: &[u32]) -> RecordBatch {
    arrow_select::take::take_record_batch(rows, &UInt32Array::from(indices.to_vec())).unwrap()
}

/// What each partition receives.
fn given(rows: &PartitionedBatch) -> Vec<(u32, RecordBatch, Vec<u32>)> {
    let of_run = |run: &Run| {
        let (start, end) = (run.start as usize, run.end as usize);
        let merged = rows.merged(start, end);
        let rows = merged.as_ref().map_or_else(|| Rows::new(&rows.batch, start, end), Rows::merged);
        (run.partition, rows.to_batch(), rows.positions().to_vec())
    };
    rows.runs.iter().map(of_run).collect()
}

/// The number of partitions, and destinations of which any share is broadcast.
fn case() -> impl Strategy<Value = (u32, Vec<u32>)> {
    (1..=64u32, 0..=20u32, 0..=5u32).prop_flat_map(|(width, broadcast, omit)| {
        let to = prop_oneof![
            20 - broadcast => 0..width, broadcast => Just(BROADCAST), omit => Just(OMIT)
        ];
        (Just(width), prop::collection::vec(to, 0..60))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_partition_receives_shared_rows_among_its_own((width, to) in case(), workers in 1..5u32, base in 0..9u32) {
        let sent = batch(&to, 0);
        let columns = (0..sent.rows.num_columns()).rev().collect::<Vec<_>>();
        let placement = Arc::new(Placement::spread(width, workers));
        let mut splitter = Splitter::new(route(), placement, columns.clone()).sharing_from(1);
        for _ in 0..2 {
            let shares = splitter.split(&sent, base).unwrap();
            let broadcast = to.iter().filter(|to| **to == BROADCAST).count();
            let copies: usize = (0..width).map(|partition| rows_for(&to, partition).len()).sum();
            let is_shared = (1..to.len()).contains(&broadcast) && copies >= 2 * to.len();
            prop_assert!(shares.iter().all(|share| share.rows.shared.is_some() == is_shared));
            let mut left: Vec<u32> = (0..width).filter(|partition| !rows_for(&to, *partition).is_empty()).collect();
            for (partition, found, positions) in shares.iter().flat_map(|share| given(&share.rows)) {
                let indices = rows_for(&to, partition);
                prop_assert_eq!(found, taken(&sent.rows, &indices).project(&columns).unwrap());
                let expected: Vec<u32> = indices.iter().map(|row| sent.positions[*row as usize] + base).collect();
                prop_assert_eq!(positions, expected);
                left.retain(|other| *other != partition);
            }
            prop_assert!(left.is_empty(), "{:?} received nothing", left);
        }
    }

    #[test]
    fn rows_of_several_senders_that_share_are_merged_in_order(
        (width, to) in case(), senders in 1..4u32, workers in 1..4u32, sharing in prop::collection::vec(1..5usize, 4)
    ) {
        let mut of_worker: Vec<Vec<Share>> = (0..workers).map(|_| Vec::new()).collect();
        let batches: Vec<Batch> = (0..senders).map(|sender| batch(&to, 2 * sender)).collect();
        let placement = Arc::new(Placement::spread(width, workers));
        for (sent, sharing) in batches.iter().zip(&sharing) {
            // From the largest number on, nobody shares.
            let sharing = if *sharing == 4 { 1000 } else { *sharing };
            let columns = (0..sent.rows.num_columns()).collect();
            let mut splitter = Splitter::new(route(), placement.clone(), columns).sharing_from(sharing);
            for share in splitter.split(sent, 0).unwrap() {
                of_worker[share.worker as usize].push(share);
            }
        }
        for shares in of_worker {
            let parts: Vec<PartitionedBatch> = shares.into_iter().map(|share| share.rows).collect();
            let Some(merged) = merge_by_partition(&parts, 21, &mut Sorter::default()) else { continue };
            for (partition, found, positions) in given(&merged) {
                let indices = rows_for(&to, partition);
                let of_sender = |sender: u32| {
                    let sent = &batches[sender as usize];
                    let key = |row: &u32| (sent.positions[*row as usize], sent.origins[*row as usize], *row);
                    indices.iter().map(key).collect::<Vec<_>>()
                };
                let mut expected: Vec<(u32, u32, u32)> = (0..senders).flat_map(of_sender).collect();
                expected.sort_by_key(|row| (row.0, row.1));
                let rows: Vec<u32> = expected.iter().map(|row| row.2).collect();
                prop_assert_eq!(found, taken(&batches[0].rows, &rows));
                prop_assert_eq!(positions, expected.iter().map(|row| row.0).collect::<Vec<_>>());
            }
        }
    }
}
