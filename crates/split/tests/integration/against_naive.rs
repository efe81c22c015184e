//! Splitting and merging against naive ones: the same rows in the same places, with nullable and string columns.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt32Type};
use arrow_array::{Array, Int32Array, RecordBatch, StringArray, UInt32Array};
use arrow_schema::{DataType, Field, Schema};
use proptest::prelude::*;
use tidemill_core::{Batch, PartitionedBatch, Run};
use tidemill_split::order::Sorter;
use tidemill_split::{
    BROADCAST, OMIT, Placement, Route, RouteError, Splitter, merge_by_partition, merge_by_position,
};

/// A row: where it goes, a nullable number, a string.
type Row = (u32, Option<i32>, String);
/// A row with its position and origin.
type Placed = (u32, u32, Row);

fn record_batch(rows: &[Placed]) -> RecordBatch {
    let schema = Schema::new(vec![
        Field::new("to", DataType::UInt32, false),
        Field::new("number", DataType::Int32, true),
        Field::new("text", DataType::Utf8, false),
    ]);
    let columns = vec![
        Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.2.0))) as _,
        Arc::new(Int32Array::from_iter(rows.iter().map(|row| row.2.1))) as _,
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| &row.2.2))) as _,
    ];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

fn batch(rows: &[Placed]) -> Batch {
    let origins: Vec<u32> = rows.iter().map(|row| row.1).collect();
    // No origins at all says that all are 0.
    let origins = if origins.iter().all(|origin| *origin == 0) { Vec::new() } else { origins };
    let positions: Vec<u32> = rows.iter().map(|row| row.0).collect();
    Batch { rows: record_batch(rows), positions: positions.into(), origins: origins.into() }
}

fn placed(batch: &Batch) -> Vec<Placed> {
    let to = batch.rows.column(0).as_primitive::<UInt32Type>();
    let number = batch.rows.column(1).as_primitive::<Int32Type>();
    let text = batch.rows.column(2).as_string::<i32>();
    let row =
        |i: usize| (to.value(i), number.is_valid(i).then(|| number.value(i)), text.value(i).to_string());
    (0..batch.len())
        .map(|i| (batch.positions[i], batch.origins.get(i).copied().unwrap_or(0), row(i)))
        .collect()
}

fn route_to() -> Arc<Route> {
    Arc::new(|rows: &RecordBatch, to: &mut Vec<u32>| {
        to.extend(rows.column(0).as_primitive::<UInt32Type>().values())
    })
}

fn payload() -> impl Strategy<Value = (Option<i32>, String)> {
    (prop::option::of(any::<i32>()), "[a-z]{0,4}")
}

/// Rows in the order of (position, origin), for some of `partitions`, or nowhere.
fn ordered_rows(partitions: u32, rows_max: usize) -> impl Strategy<Value = Vec<Placed>> {
    let to = prop_oneof![9 => 0..partitions, 1 => Just(OMIT)];
    let row = (0..60u32, prop_oneof![3 => Just(0), 1 => 0..4u32], to, payload());
    prop::collection::vec(row, 0..rows_max).prop_map(|rows| {
        let mut rows: Vec<Placed> = rows
            .into_iter()
            .map(|(position, origin, to, (number, text))| (position, origin, (to, number, text)))
            .collect();
        rows.sort_by_key(|row| (row.0, row.1));
        rows
    })
}

/// A placement and rows for it.
fn split_case() -> impl Strategy<Value = (u32, Vec<u32>, Vec<Placed>)> {
    (1..7u32, 1..40u32).prop_flat_map(|(workers, partitions)| {
        let placement = prop::collection::vec(0..workers, partitions as usize);
        (Just(workers), placement, ordered_rows(partitions, 200))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_split_gives_each_partition_its_rows_in_order((workers, worker_of, rows) in split_case(), base in 0..1000u32) {
        let placement = Arc::new(Placement::new(workers, worker_of.clone()));
        let mut splitter = Splitter::new(route_to(), placement, vec![0, 1, 2]);
        // Twice, for the buffers are used again.
        for _ in 0..2 {
            let shares = splitter.split(&batch(&rows), base).unwrap();
            let mut kept = 0;
            prop_assert!(shares.windows(2).all(|pair| pair[0].worker < pair[1].worker));
            for share in &shares {
                let got = placed(&share.rows.batch);
                let mut next = (0, None);
                for run in &share.rows.runs {
                    prop_assert_eq!(worker_of[run.partition as usize], share.worker);
                    prop_assert!(run.start == next.0 && run.start < run.end && Some(run.partition) > next.1);
                    next = (run.end, Some(run.partition));
                    let expected: Vec<Placed> = rows
                        .iter()
                        .filter(|row| row.2.0 == run.partition)
                        .map(|(position, origin, row)| (position + base, *origin, row.clone()))
                        .collect();
                    prop_assert_eq!(&got[run.start as usize..run.end as usize], &expected[..]);
                    kept += expected.len();
                }
                prop_assert_eq!(next.0 as usize, share.rows.batch.len());
            }
            prop_assert_eq!(kept, rows.iter().filter(|row| row.2.0 != OMIT).count());
        }
    }

    #[test]
    fn a_split_keeps_the_columns_that_are_asked_for(rows in ordered_rows(3, 50)) {
        let placement = Arc::new(Placement::spread(3, 2));
        for columns in [vec![2, 0], vec![1], vec![]] {
            let mut splitter = Splitter::new(route_to(), placement.clone(), columns.clone());
            for share in splitter.split(&batch(&rows), 0).unwrap() {
                let names = ["to", "number", "text"];
                let schema = share.rows.batch.rows.schema();
                let got: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
                prop_assert_eq!(got, columns.iter().map(|column| names[*column]).collect::<Vec<_>>());
                prop_assert_eq!(share.rows.batch.rows.num_rows(), share.rows.batch.len());
            }
        }
    }

    #[test]
    fn a_destination_out_of_range_is_an_error_that_shows_the_row(
        mut rows in ordered_rows(5, 50), at in any::<prop::sample::Index>(), to in 5..BROADCAST - 1
    ) {
        prop_assume!(!rows.is_empty());
        let at = at.index(rows.len());
        rows[at].2 = (to, None, "lost".into());
        let mut splitter = Splitter::new(route_to(), Arc::new(Placement::spread(5, 2)), vec![0]);
        let Err(RouteError::NoSuchPartition { row, destination, partitions, values }) = splitter.split(&batch(&rows), 0)
        else { return Err(TestCaseError::fail("no error")) };
        prop_assert_eq!((row, destination, partitions), (at, to, 5));
        prop_assert_eq!(values, format!("to: {to}, number: null, text: \"lost\""));
        // The splitter is as good as before.
        rows.remove(at);
        prop_assert!(splitter.split(&batch(&rows), 0).is_ok());
    }

    #[test]
    fn merging_by_position_is_a_stable_sort(rows in unordered_rows(), workers in 1..6u32, far in prop::bool::ANY) {
        let (parts, end) = dealt(&rows, workers, far);
        let mut expected: Vec<Placed> = parts.concat();
        expected.sort_by_key(|row| (row.0, row.1));
        let batches: Vec<Batch> = parts.iter().filter(|part| !part.is_empty()).map(|part| batch(part)).collect();
        let merged = merge_by_position(&batches, end, &mut Sorter::default());
        prop_assert_eq!(merged.is_none(), rows.is_empty());
        prop_assert_eq!(merged.map(|batch| placed(&batch)).unwrap_or_default(), expected);
    }

    #[test]
    fn merging_by_partition_is_a_stable_sort(rows in unordered_rows(), workers in 1..6u32, far in prop::bool::ANY) {
        let (mut parts, end) = dealt(&rows, workers, far);
        let mut expected: Vec<Placed> = parts.concat();
        expected.sort_by_key(|row| (row.2.0, row.0, row.1));
        parts.retain(|part| !part.is_empty());
        // As senders do: each one's rows gathered by partition.
        parts.iter_mut().for_each(|part| part.sort_by_key(|row| row.2.0));
        let batches: Vec<PartitionedBatch> =
            parts.iter().map(|part| PartitionedBatch::new(batch(part), runs(part))).collect();
        match merge_by_partition(&batches, end, &mut Sorter::default()) {
            None => prop_assert!(rows.is_empty()),
            Some(merged) => {
                prop_assert_eq!(placed(&merged.batch), expected.clone());
                prop_assert_eq!(merged.runs, runs(&expected));
            }
        }
    }

    #[test]
    fn what_all_are_given_is_not_copied_and_can_be_merged(
        rows in unordered_rows(),
        senders in 1..4u32,
        (workers, partitions) in (1..4u32, 1..7u32),
        last_is_copied in any::<bool>(),
    ) {
        let (mut parts, end) = dealt(&rows, senders, false);
        parts.retain(|part| !part.is_empty());
        let to_all = |rows: &RecordBatch, to: &mut Vec<u32>| to.extend(vec![BROADCAST; rows.num_rows()]);
        let route: Arc<Route> = Arc::new(to_all);
        let mut splitter = Splitter::new(route, Arc::new(Placement::spread(partitions, workers)), vec![0, 1, 2]);
        let mut of_worker = vec![Vec::new(); workers as usize];
        for part in &parts {
            let sent = batch(part);
            for share in splitter.split(&sent, 0).unwrap() {
                prop_assert!(Arc::ptr_eq(share.rows.batch.rows.column(0), sent.rows.column(0)));
                of_worker[share.worker as usize].push(share.rows);
            }
        }
        let mut expected: Vec<Placed> = parts.concat();
        expected.sort_by_key(|row| (row.0, row.1));
        for (worker, batches) in of_worker.iter_mut().enumerate() {
            if let Some(last) = batches.last_mut().filter(|_| last_is_copied) {
                *last = copied(last);
            }
            let Some(merged) = merge_by_partition(batches, end, &mut Sorter::default()) else {
                prop_assert!(rows.is_empty() || worker as u32 >= partitions);
                continue;
            };
            let got = placed(&merged.batch);
            let theirs: Vec<u32> = (0..partitions).filter(|p| p % workers == worker as u32).collect();
            prop_assert_eq!(merged.runs.iter().map(|run| run.partition).collect::<Vec<_>>(), theirs);
            for run in &merged.runs {
                prop_assert_eq!(&got[run.start as usize..run.end as usize], &expected[..]);
            }
        }
    }
}

#[test]
fn batches_that_are_for_all_of_different_partitions_are_merged() {
    let row = |position, text: &str| (position, 0, (0, None, text.to_string()));
    let shared = |rows: &[Placed], partitions: &[u32]| {
        let run = |partition: &u32| Run { partition: *partition, start: 0, end: rows.len() as u32 };
        PartitionedBatch::new(batch(rows), partitions.iter().map(run).collect())
    };
    let parts = [shared(&[row(0, "a"), row(2, "c")], &[1, 3, 5]), shared(&[row(1, "b")], &[1, 5])];
    let merged = merge_by_partition(&parts, 3, &mut Sorter::default()).unwrap();
    let texts: String = placed(&merged.batch).into_iter().map(|row| row.2.2).collect();
    let found = merged.runs.iter().map(|run| (run.partition, &texts[run.start as usize..run.end as usize]));
    assert_eq!(found.collect::<Vec<_>>(), [(1, "abc"), (3, "ac"), (5, "abc")]);
}

#[test]
fn a_route_that_gives_too_few_or_too_many_destinations_is_an_error() {
    let rows = vec![(0, 0, (0, None, String::new())); 3];
    for count in [0, 2, 4] {
        let route: Arc<Route> = Arc::new(move |_: &RecordBatch, to: &mut Vec<u32>| to.extend(vec![0; count]));
        let mut splitter = Splitter::new(route, Arc::new(Placement::spread(1, 1)), vec![0]);
        let error = splitter.split(&batch(&rows), 0).unwrap_err();
        assert_eq!(error, RouteError::Count { destinations: count, rows: 3 });
    }
}

/// The same with rows of its own for each partition.
fn copied(shared: &PartitionedBatch) -> PartitionedBatch {
    let rows = placed(&shared.batch);
    let of_run = |run: &Run| rows[run.start as usize..run.end as usize].to_vec();
    let all: Vec<Placed> = shared.runs.iter().flat_map(of_run).collect();
    let length = rows.len() as u32;
    let run = |(index, run): (u32, &Run)| Run { start: index * length, end: (index + 1) * length, ..*run };
    PartitionedBatch::new(batch(&all), (0..).zip(&shared.runs).map(run).collect())
}

fn runs(rows: &[Placed]) -> Vec<Run> {
    let mut start = 0;
    let chunks = rows.chunk_by(|a, b| a.2.0 == b.2.0);
    let run = |chunk: &[Placed]| {
        let run = Run { partition: chunk[0].2.0, start, end: start + chunk.len() as u32 };
        start = run.end;
        run
    };
    chunks.map(run).collect()
}

/// Rows as partitions write them: positions in no order, origins 0 to 8.
fn unordered_rows() -> impl Strategy<Value = Vec<Placed>> {
    let row = (0..30u32, prop_oneof![1 => Just(0), 2 => 0..9u32], 0..12u32, payload());
    let placed = |(position, origin, to, (number, text))| (position, origin, (to, number, text));
    prop::collection::vec(row.prop_map(placed), 0..150)
}

/// The rows as the workers hold them: all of an origin on one worker, in the order of origins; and an end of
/// positions. `far`: few rows over many positions.
fn dealt(rows: &[Placed], workers: u32, far: bool) -> (Vec<Vec<Placed>>, u32) {
    let factor = if far { 100_000 } else { 1 };
    let part = |worker| {
        let mine = rows.iter().filter(|row| row.1 % workers == worker);
        let mut part: Vec<Placed> = mine.map(|row| (row.0 * factor, row.1, row.2.clone())).collect();
        part.sort_by_key(|row| row.1);
        part
    };
    ((0..workers).map(part).collect(), 30 * factor)
}
