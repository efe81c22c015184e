//! Keyed tables against an obvious one, and readers on other threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Float64Array, Int64Array, RecordBatch, StringArray};
use proptest::prelude::*;
use tidemill_connect::memory::{ChangesSink, TableSink, TableStore};
use tidemill_core::{Cause, Fault, Sink};

use crate::sinks::support::{commit_one, cycle, rows, schema};

/// Rows with two key columns that may be NULL, and a value.
fn keyed(values: &[(Option<&str>, Option<i64>, i64)]) -> RecordBatch {
    let first: StringArray = values.iter().map(|row| row.0).collect();
    let second: Int64Array = values.iter().map(|row| row.1).collect();
    let value: Int64Array = values.iter().map(|row| Some(row.2)).collect();
    RecordBatch::try_from_iter_with_nullable([
        ("value", Arc::new(value) as _, true),
        ("first", Arc::new(first) as _, true),
        ("second", Arc::new(second) as _, true),
    ])
    .unwrap()
}

/// Puts a row into a list of rows, in place of the one with the same key.
fn put<'a>(table: &mut Vec<(Option<&'a str>, Option<i64>, i64)>, row: (Option<&'a str>, Option<i64>, i64)) {
    match table.iter_mut().find(|other| (other.0, other.1) == (row.0, row.1)) {
        Some(other) => *other = row,
        None => table.push(row),
    }
}

fn any_row() -> impl Strategy<Value = (Option<&'static str>, Option<i64>, i64)> {
    let first = prop::option::of(prop::sample::select(vec!["", "a", "b", "ab"]));
    (first, prop::option::of(0..3_i64), any::<i64>())
}

proptest! {
    #[test]
    fn a_table_has_the_last_row_of_each_key(
        commits in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any_row(), 0..30), 0..4), 0..20),
    ) {
        let (mut sink, table) = TableSink::new(&keyed(&[]).schema(), vec![1, 2], 1000).unwrap();
        let (mut expected, mut number) = (Vec::new(), 0);
        for cycles in &commits {
            let first = number;
            for values in cycles {
                sink.prepare(cycle(number, Some(keyed(values)))).unwrap();
                prop_assert_eq!(table.read().unwrap(), keyed(&expected));
                number += 1;
            }
            if number > first {
                sink.commit(first..=number - 1).unwrap();
            }
            cycles.iter().flatten().for_each(|row| put(&mut expected, *row));
            prop_assert_eq!(table.read().unwrap(), keyed(&expected));
            prop_assert_eq!(table.len(), expected.len());
        }
    }
}

#[test]
fn a_table_without_key_has_its_last_row() {
    let (mut sink, table) = TableSink::new(&schema(), vec![], 1).unwrap();
    assert!(table.is_empty());
    for number in 0..3 {
        commit_one(&mut sink, number, rows(&[("a", 1), ("b", number as i64)])).unwrap();
    }
    assert_eq!(table.read().unwrap(), rows(&[("b", 2)]));
}

#[test]
fn a_commit_over_the_limit_changes_nothing() {
    let (mut sink, table) = TableSink::new(&schema(), vec![0], 2).unwrap();
    commit_one(&mut sink, 0, rows(&[("a", 1)])).unwrap();
    let number = table.version_number();
    let refused = commit_one(&mut sink, 1, rows(&[("a", 2), ("b", 2), ("c", 2)]));
    assert!(
        matches!(refused, Err(Cause { fault: Fault::Resource, message, .. }) if message.contains("max_result_rows"))
    );
    assert_eq!((table.read().unwrap(), table.version_number()), (rows(&[("a", 1)]), number));
    // The keys that were refused do not count.
    commit_one(&mut sink, 2, rows(&[("d", 3)])).unwrap();
    assert_eq!(table.read().unwrap(), rows(&[("a", 1), ("d", 3)]));
}

#[test]
fn versions_stay_and_have_numbers() {
    let (mut sink, table) = TableSink::new(&schema(), vec![0], 2).unwrap();
    commit_one(&mut sink, 0, rows(&[("a", 1)])).unwrap();
    let before = table.version().unwrap();
    assert!(Arc::ptr_eq(&before.rows, &table.version().unwrap().rows));
    sink.prepare(cycle(1, None)).unwrap();
    sink.commit(1..=1).unwrap();
    assert_eq!(table.version_number(), before.number);
    commit_one(&mut sink, 2, rows(&[("a", 2)])).unwrap();
    assert_eq!(table.version_number(), before.number + 1);
    assert_eq!(*before.rows, rows(&[("a", 1)]));
}

#[test]
fn readers_on_other_threads_never_see_a_part_of_a_commit() {
    const KEYS: i64 = 500;
    let all = |value: i64| {
        let keys: Int64Array = (0..KEYS).map(Some).collect();
        let values = Int64Array::from(vec![value; KEYS as usize]);
        RecordBatch::try_from_iter([("key", Arc::new(keys) as _), ("value", Arc::new(values) as _)]).unwrap()
    };
    let (mut sink, table) = TableSink::new(&all(0).schema(), vec![0], KEYS as usize).unwrap();
    commit_one(&mut sink, 0, all(0)).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let (mut last, mut changes) = (0, 0);
                    while !is_over.load(Ordering::Acquire) {
                        let rows = table.read().unwrap();
                        let values = rows.column(1).as_primitive::<Int64Type>().values();
                        assert_eq!(values.len(), KEYS as usize);
                        assert!(values.iter().all(|value| *value == values[0]) && values[0] >= last);
                        changes += u64::from(values[0] > last);
                        last = values[0];
                    }
                    changes
                })
            })
            .collect();
        // Two cycles per commit, each with half of the keys; enough of them that the log is rewritten.
        for number in 1..1000_u64 {
            let rows = all(number as i64);
            let half = KEYS as usize / 2;
            sink.prepare(cycle(2 * number, Some(rows.slice(0, half)))).unwrap();
            sink.prepare(cycle(2 * number + 1, Some(rows.slice(half, half)))).unwrap();
            sink.commit(2 * number..=2 * number + 1).unwrap();
        }
        is_over.store(true, Ordering::Release);
        assert!(readers.into_iter().map(|reader| reader.join().unwrap()).sum::<u64>() > 0);
    });
    assert_eq!(table.read().unwrap(), all(999));
}

#[test]
fn floats_and_lists_can_be_keys_and_bad_columns_are_refused() {
    let nan = Float64Array::from(vec![f64::NAN, 1.0, f64::NAN]);
    let values = Int64Array::from(vec![1, 2, 3]);
    let rows = RecordBatch::try_from_iter([("key", Arc::new(nan) as _), ("value", Arc::new(values) as _)]);
    let rows = rows.unwrap();
    let mut store = TableStore::new(&rows.schema(), vec![0], 10).unwrap();
    store.upsert(std::slice::from_ref(&rows)).unwrap();
    assert_eq!(store.handle().len(), 2);
    assert!(matches!(
        TableStore::new(&rows.schema(), vec![2], 10).err(),
        Some(Cause { fault: Fault::Bug, .. })
    ));
}

#[test]
fn changes_are_the_last_row_of_each_key_since_they_were_taken() {
    let (mut sink, changes) = ChangesSink::new(&schema(), vec![0], 3).unwrap();
    assert_eq!(changes.take().unwrap(), None);
    commit_one(&mut sink, 0, rows(&[("a", 1), ("b", 1), ("a", 2)])).unwrap();
    commit_one(&mut sink, 1, rows(&[("a", 3)])).unwrap();
    // What is not committed is not a change yet.
    sink.prepare(cycle(2, Some(rows(&[("c", 1)])))).unwrap();
    assert_eq!(changes.take().unwrap(), Some(rows(&[("a", 3), ("b", 1)])));
    assert_eq!(changes.take().unwrap(), None);
    sink.commit(2..=2).unwrap();
    assert_eq!(changes.take().unwrap(), Some(rows(&[("c", 1)])));
    // As many keys as are allowed wait, however many there were before.
    commit_one(&mut sink, 3, rows(&[("d", 1), ("e", 1), ("f", 1)])).unwrap();
    let refused = commit_one(&mut sink, 4, rows(&[("g", 1)]));
    assert!(matches!(refused, Err(Cause { fault: Fault::Resource, .. })), "{refused:?}");
}
