//! Routing, broadcasting and omitting against a naive split: by one splitter, by trees of any fan-outs, and by
//! several splitters that are dealt the rows; any number of partitions up to 512.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::{BooleanArray, Int64Array, RecordBatch, UInt32Array};
use proptest::prelude::*;
use tidemill_core::{Batch, PartitionedBatch, Rows, Run};
use tidemill_split::cost::{exptree, nodes_of_level};
use tidemill_split::{Placement, Route, RouteError, Share, Splitter, route_by_value, route_or_broadcast};

/// A row: the value of the routing function, the value of the broadcast function.
type Row = (Option<i64>, Option<bool>);

fn batch(rows: &[Row]) -> Batch {
    let columns = [
        ("to", Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.0))) as _),
        ("all", Arc::new(BooleanArray::from_iter(rows.iter().map(|row| row.1))) as _),
        ("number", Arc::new(UInt32Array::from_iter_values(0..rows.len() as u32)) as _),
    ];
    let positions = (0..rows.len() as u32).map(|row| 2 * row).collect();
    Batch::from_source(
        RecordBatch::try_from_iter_with_nullable(columns.map(|(n, c)| (n, c, true))).unwrap(),
        positions,
    )
}

fn route() -> Arc<Route> {
    let marks = |rows: &RecordBatch| rows.column(1).as_boolean().clone();
    route_or_broadcast(route_by_value::<Int64Type>(0), marks).into()
}

/// The numbers of each partition's rows, in order.
type Streams = BTreeMap<u32, Vec<u32>>;

fn naive(rows: &[Row], width: u32) -> Streams {
    let mut streams = Streams::new();
    for (number, (to, all)) in rows.iter().enumerate() {
        for partition in 0..width {
            if *all == Some(true) || *to == Some(i64::from(partition)) {
                streams.entry(partition).or_default().push(number as u32);
            }
        }
    }
    streams
}

fn add(streams: &mut Streams, rows: &PartitionedBatch) {
    let column = rows.batch.rows.num_columns() - 1;
    for run in &rows.runs {
        let merged = rows.merged(run.start as usize, run.end as usize);
        let own = || Rows::new(&rows.batch, run.start as usize, run.end as usize);
        let given = merged.as_ref().map_or_else(own, Rows::merged);
        let numbers = given.column::<UInt32Type>(column);
        assert!(numbers.iter().zip(given.positions()).all(|(number, position)| *position == 2 * number));
        assert_eq!(given.to_batch().column(column).as_primitive::<UInt32Type>().values(), numbers);
        assert!(!numbers.is_empty(), "a partition without rows is not called");
        streams.entry(run.partition).or_default().extend(numbers);
    }
    let held = rows.batch.len() + rows.shared_rows();
    assert!(rows.shared.is_none() || rows.rows_given() >= held as u64, "shared rows are kept once");
}

/// Splits through all levels of a tree, each level's splitters on `workers`.
fn through_tree(batch: &Batch, width: u32, workers: u32, fan_outs: &[u32], share: usize) -> Streams {
    let root = Run { partition: 0, start: 0, end: batch.len() as u32 };
    let mut parcels = vec![PartitionedBatch::new(batch.clone(), vec![root])];
    for level in 1..=fan_outs.len() {
        let outputs =
            if level == fan_outs.len() { width } else { nodes_of_level(fan_outs, level + 1, width) };
        let placement = Arc::new(Placement::spread(outputs, workers));
        let nodes = nodes_of_level(fan_outs, level, width);
        let splitter = Splitter::of_level(route(), width, nodes, placement, vec![0, 1, 2]);
        let mut splitter = splitter.sharing_from(share);
        let mut split = |rows: &PartitionedBatch| splitter.split_level(rows).unwrap();
        parcels = parcels.iter().flat_map(|rows| split(rows).into_iter().map(|share| share.rows)).collect();
    }
    let mut streams = Streams::new();
    parcels.iter().for_each(|rows| add(&mut streams, rows));
    streams
}

/// The number of partitions, and rows for them, of which any part is broadcast or goes nowhere.
fn case() -> impl Strategy<Value = (u32, Vec<Row>)> {
    let width = prop_oneof![1..9u32, 1..=512u32];
    (width, 0..=10u32, 0..=10u32).prop_flat_map(|(width, broadcast, null)| {
        let all = prop_oneof![
            broadcast => Just(Some(true)), 10 - broadcast => Just(Some(false)), 1 => Just(None)
        ];
        let to = prop_oneof![11 - null => (0..i64::from(width)).prop_map(Some), null => Just(None)];
        // Where a row is broadcast, it does not matter where it would be routed, not even if nowhere there is.
        let row = (to, all, any::<i64>()).prop_map(|(to, all, any)| match all {
            Some(true) if any % 3 == 0 => (Some(any), all),
            _ => (to, all),
        });
        (Just(width), prop::collection::vec(row, 0..120))
    })
}

/// From how many broadcast rows on they are shared: any, or what applies outside of tests, which is more than here.
fn shared_rows_min() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 1..5usize, 1 => Just(256)]
}

/// Fan-outs whose product is at least `width`, from random wishes.
fn tree(width: u32, wishes: &[u32]) -> Vec<u32> {
    let (mut fan_outs, mut outputs) = (Vec::new(), 1);
    for wish in wishes {
        fan_outs.push(*wish);
        outputs *= wish;
    }
    fan_outs.push(width.div_ceil(outputs).max(1));
    fan_outs
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn one_splitter_gives_what_a_naive_one_gives(
        (width, rows) in case(), workers in 1..6u32, share in shared_rows_min()
    ) {
        let placement = Arc::new(Placement::spread(width, workers));
        let mut splitter = Splitter::new(route(), placement, vec![2]).sharing_from(share);
        for _ in 0..2 {
            let mut streams = Streams::new();
            let shares = splitter.split(&batch(&rows), 0).unwrap();
            let is_at_home = |share: &Share| share.rows.runs.iter().all(|r| r.partition % workers == share.worker);
            prop_assert!(shares.iter().all(is_at_home));
            shares.iter().for_each(|share| add(&mut streams, &share.rows));
            prop_assert_eq!(&streams, &naive(&rows, width));
        }
    }

    #[test]
    fn a_tree_gives_what_one_splitter_gives(
        (width, rows) in case(),
        workers in 1..6u32,
        wishes in prop::collection::vec(1..7u32, 0..5),
        share in shared_rows_min(),
    ) {
        let expected = naive(&rows, width);
        prop_assert_eq!(&through_tree(&batch(&rows), width, workers, &tree(width, &wishes), share), &expected);
        prop_assert_eq!(&through_tree(&batch(&rows), width, workers, &exptree(width), share), &expected);
    }

    #[test]
    fn splitters_that_are_dealt_windows_give_what_one_gives(
        (width, rows) in case(), splitters in 1..6usize, window in 1..40usize
    ) {
        let (all, placement) = (batch(&rows), Arc::new(Placement::spread(width, 2)));
        let splitter = || Splitter::new(route(), placement.clone(), vec![2]).sharing_from(1);
        let mut of_each: Vec<Splitter> =
            (0..splitters).map(|_| splitter()).collect();
        let mut streams = Streams::new();
        // The windows come back in their order, whoever split them.
        for (number, start) in (0..rows.len()).step_by(window).enumerate() {
            let dealt = all.slice(start, (start + window).min(rows.len()));
            let shares = of_each[number % splitters].split(&dealt, 0).unwrap();
            shares.iter().for_each(|share| add(&mut streams, &share.rows));
        }
        prop_assert_eq!(&streams, &naive(&rows, width));
    }

    #[test]
    fn a_value_that_is_no_partition_is_an_error_that_shows_the_row(
        (width, mut rows) in case(),
        at in any::<prop::sample::Index>(),
        value in prop_oneof![i64::MIN..0, 512..i64::MAX]
    ) {
        prop_assume!(!rows.is_empty());
        let at = at.index(rows.len());
        rows[at] = (Some(value), Some(false));
        for fan_outs in [vec![width], exptree(width)] {
            let placement = Arc::new(Placement::spread(nodes_of_level(&[fan_outs[0], 1], 2, width), 2));
            let mut root = Splitter::of_level(route(), width, 1, placement, vec![0]);
            let error = root.split(&batch(&rows), 0).unwrap_err();
            prop_assert!(error.to_string().contains(&format!("to: {value}, all: false, number: {at}")), "{error}");
            let RouteError::NoSuchPartition { row, .. } = error else { return Err(TestCaseError::fail("no row")) };
            prop_assert_eq!(row, at);
        }
    }
}

#[test]
fn too_few_or_too_many_marks_are_an_error() {
    for count in [0, 1, 3] {
        let marks = move |_: &RecordBatch| BooleanArray::from(vec![true; count]);
        let route: Arc<Route> = route_or_broadcast(route_by_value::<Int64Type>(0), marks).into();
        let mut splitter = Splitter::new(route, Arc::new(Placement::spread(4, 1)), vec![0]);
        let error = splitter.split(&batch(&[(Some(1), None), (Some(2), None)]), 0).unwrap_err();
        assert_eq!(error, RouteError::Count { destinations: count, rows: 2 });
    }
}
