//! Groups against a map from key to number.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::types::{Float64Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int8Array, Int64Array, StringArray,
    UInt64Array, cast::AsArray,
};
use arrow_schema::DataType;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tidemill_operators::Groups;

use crate::aggregates::harness::lines;

fn shown(columns: &[ArrayRef]) -> Vec<String> {
    let columns = columns.iter().map(|column| ("", ArrayRef::clone(column), true));
    lines(&arrow_array::RecordBatch::try_from_iter_with_nullable(columns).unwrap())
}

/// Interns all batches, twice with a clear between, and compares with a map.
fn check(batches: &[Vec<ArrayRef>]) {
    let types = batches[0].iter().map(|column| column.data_type().clone()).collect::<Vec<_>>();
    let mut groups = Groups::new(&types, 1_000_000).unwrap();
    for _ in 0..2 {
        let mut known: BTreeMap<String, u32> = BTreeMap::new();
        let mut ids = vec![7; 3];
        for columns in batches {
            groups.intern(columns, columns[0].len(), &mut ids).unwrap();
            let keys = shown(columns);
            let expected = keys.iter().map(|key| {
                let next = known.len() as u32;
                *known.entry(key.clone()).or_insert(next)
            });
            assert_eq!(ids, expected.collect::<Vec<_>>());
        }
        let mut in_order = known.iter().map(|(key, id)| (*id, key.clone())).collect::<Vec<_>>();
        in_order.sort();
        let all = (0..groups.len() as u32).collect::<Vec<_>>();
        let keys = groups.keys(&all).unwrap();
        assert!(keys.iter().zip(&types).all(|(column, data_type)| column.data_type() == data_type));
        assert_eq!(shown(&keys), in_order.into_iter().map(|(_, key)| key).collect::<Vec<_>>());
        groups.clear();
        assert!(groups.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn integers(
        batches in vec(vec(option::weighted(0.9, prop_oneof![
            -5..5_i64, -2000..2000_i64, any::<i64>(), Just(i64::MIN), Just(i64::MAX),
            (0..64_u32).prop_map(|bit| 1 << bit),
        ]), 0..200), 1..4),
        scale in prop_oneof![Just(1), Just(1000), any::<i64>()],
    ) {
        let scaled = |value: &Option<i64>| value.map(|value| value.wrapping_mul(scale));
        let numbers = |batch: &Vec<Option<i64>>| batch.iter().map(scaled).collect::<Vec<_>>();
        let signed = |batch| Arc::new(Int64Array::from(numbers(batch))) as ArrayRef;
        let unsigned = |batch| {
            let numbers = numbers(batch).into_iter().map(|number| number.map(|number| number as u64));
            Arc::new(numbers.collect::<UInt64Array>()) as ArrayRef
        };
        let small = |batch| {
            let numbers = numbers(batch).into_iter().map(|number| number.map(|number| number as i8));
            Arc::new(numbers.collect::<Int8Array>()) as ArrayRef
        };
        let without_null = |batch: &Vec<Option<i64>>| {
            Arc::new(Int64Array::from_iter_values(batch.iter().flatten().copied())) as ArrayRef
        };
        check(&batches.iter().map(|batch| vec![signed(batch)]).collect::<Vec<_>>());
        check(&batches.iter().map(|batch| vec![unsigned(batch)]).collect::<Vec<_>>());
        check(&batches.iter().map(|batch| vec![small(batch)]).collect::<Vec<_>>());
        check(&batches.iter().map(|batch| vec![without_null(batch)]).collect::<Vec<_>>());
        check(&batches.iter().map(|batch| vec![signed(batch), small(batch)]).collect::<Vec<_>>());
    }

    #[test]
    fn texts_with_and_without_dictionary(
        batches in vec(vec(option::weighted(0.8, "[ab]{0,2}|.{0,40}"), 0..50), 1..4),
        flags in vec(option::of(any::<bool>()), 50),
    ) {
        let text = |batch: &Vec<Option<String>>| {
            Arc::new(batch.iter().cloned().collect::<StringArray>()) as ArrayRef
        };
        let codes = |batch: &Vec<Option<String>>| {
            let codes = batch.iter().map(|text| text.as_deref()).collect::<DictionaryArray<Int32Type>>();
            Arc::new(codes) as ArrayRef
        };
        let flags = BooleanArray::from(flags);
        let flag = |batch: &Vec<Option<String>>| Arc::new(flags.slice(0, batch.len())) as ArrayRef;
        check(&batches.iter().map(|batch| vec![text(batch)]).collect::<Vec<_>>());
        check(&batches.iter().map(|batch| vec![codes(batch)]).collect::<Vec<_>>());
        check(&batches.iter().map(|batch| vec![flag(batch), codes(batch)]).collect::<Vec<_>>());
    }

    #[test]
    fn slices_of_one_dictionary(
        codes in vec(option::weighted(0.8, 0..4_i32), 1..60),
        cuts in vec(0..60_usize, 0..3),
    ) {
        // Two codes for the same value, and one for no value.
        let values = Arc::new(StringArray::from(vec![Some("a"), Some("b"), Some("a"), None])) as ArrayRef;
        let rows = Arc::new(DictionaryArray::<Int32Type>::new(codes.into(), values)) as ArrayRef;
        let cuts = cuts.into_iter().map(|cut| cut % rows.len());
        let mut cuts = cuts.chain([0, rows.len()]).collect::<Vec<_>>();
        cuts.sort();
        let slices = cuts.windows(2).map(|pair| vec![rows.slice(pair[0], pair[1] - pair[0])]);
        check(&slices.collect::<Vec<_>>());
    }
}

#[test]
fn zeros_are_one_group_and_so_are_nans() {
    let other_nan = f64::from_bits(f64::NAN.to_bits() ^ (1 << 63 | 1));
    let reals = Arc::new(Float64Array::from(vec![0.0, f64::NAN, -0.0, other_nan, -1.5, 0.0])) as ArrayRef;
    let numbers = Arc::new(Int64Array::from(vec![1; 6])) as ArrayRef;
    for columns in [vec![ArrayRef::clone(&reals)], vec![numbers, ArrayRef::clone(&reals)]] {
        let types = columns.iter().map(|column| column.data_type().clone()).collect::<Vec<_>>();
        let mut groups = Groups::new(&types, 100).unwrap();
        let mut ids = Vec::new();
        groups.intern(&columns, 6, &mut ids).unwrap();
        assert_eq!(ids, [0, 1, 0, 1, 2, 0]);
        let keys = groups.keys(&[0, 2]).unwrap();
        assert_eq!(keys.last().unwrap().as_primitive::<Float64Type>().values(), &[0.0, -1.5]);
    }
}

#[test]
fn without_keys_there_is_one_group_as_soon_as_there_are_rows() {
    let mut groups = Groups::new(&[], 100).unwrap();
    let mut ids = Vec::new();
    groups.intern(&[], 0, &mut ids).unwrap();
    assert_eq!((groups.len(), ids.len()), (0, 0));
    groups.intern(&[], 2, &mut ids).unwrap();
    assert_eq!((groups.len(), ids.as_slice()), (1, &[0, 0][..]));
    assert_eq!(groups.keys(&[0]).unwrap().len(), 0);
}

#[test]
fn keys_that_grow_or_fall_steadily() {
    for direction in [1, -1] {
        let batch = |index: i64| {
            let keys = (0..1000).map(|row| direction * (index * 1000 + row) / 3);
            vec![Arc::new(Int64Array::from_iter_values(keys)) as ArrayRef]
        };
        check(&(0..30).map(batch).collect::<Vec<_>>());
    }
}

#[test]
fn a_column_of_another_type_is_a_bug() {
    let mut groups = Groups::new(&[DataType::Int32], 100).unwrap();
    let keys = Arc::new(Int64Array::from(vec![1])) as ArrayRef;
    let cause = groups.intern(&[keys], 1, &mut Vec::new()).unwrap_err();
    assert!(cause.fault == tidemill_core::Fault::Bug, "{cause}");
}
