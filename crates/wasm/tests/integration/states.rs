//! Aggregates and operators, beside the same computations in Rust: divided anywhere, merged, and with rows that fail.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array};
use arrow_schema::DataType::{Float64, Int64};
use proptest::prelude::*;
use tidemill_wasm::{Aggregate, Failure, Limits, Module, RowOperator, States};

const GROUPS: usize = 5;

fn mean(limits: Limits) -> Aggregate {
    let module = Module::new(include_bytes!("mean.wat")).expect("the module is good");
    Aggregate::new(&module, "mean", &[Float64], &[Int64, Float64], &Float64, limits).expect("it is good")
}

fn rises(limits: Limits) -> RowOperator {
    let module = Module::new(include_bytes!("rises.wat")).expect("the module is good");
    RowOperator::new(&module, "rises", &[Int64, Int64], &[Int64, Int64], &[Int64, Int64], limits)
        .expect("it is good")
}

fn states_of(aggregate: &Aggregate) -> States {
    let mut states = aggregate.states();
    states.resize(GROUPS);
    states
}

/// The result of each group: `None` without rows, and an error where the code has failed.
fn results(aggregate: &Aggregate, states: &States) -> Vec<Result<Option<u64>, String>> {
    (0..GROUPS as u32)
        .map(|group| {
            let result = aggregate.result(states, &[group]).map_err(|failure| failure.to_string())?;
            let result = result.as_primitive::<Float64Type>();
            Ok(result.is_valid(0).then(|| result.value(0).to_bits()))
        })
        .collect()
}

type MeanRow = (u32, Option<f64>);

fn add(aggregate: &Aggregate, states: &mut States, rows: &[MeanRow]) -> Result<(), Failure> {
    let (groups, values): (Vec<u32>, Vec<Option<f64>>) = rows.iter().copied().unzip();
    aggregate.update(states, &groups, &[Arc::new(Float64Array::from(values))])
}

/// The means by a loop over the rows.
fn expected_means(rows: &[MeanRow]) -> Vec<Result<Option<u64>, String>> {
    (0..GROUPS as u32)
        .map(|group| {
            let of_group = rows.iter().filter(|row| row.0 == group).filter_map(|row| row.1);
            let (mut count, mut sum) = (0_i64, 0.0_f64);
            for value in of_group {
                if value < 0.0 {
                    return Err("the code gave up (`unreachable`, which is what a panic becomes)".to_owned());
                }
                (count, sum) = (count + 1, sum + value);
            }
            Ok((count > 0).then(|| (sum / count as f64).to_bits()))
        })
        .collect()
}

fn mean_rows(negative: u32) -> impl Strategy<Value = Vec<MeanRow>> {
    let value = prop_oneof![
        1 => Just(None),
        20 => (0.0..1e6_f64).prop_map(Some),
        negative => Just(Some(-1.0)),
    ];
    prop::collection::vec((0..GROUPS as u32, value), 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_aggregate_does_not_depend_on_batches(
        rows in mean_rows(1),
        cuts in prop::collection::vec(0_usize..120, 0..5),
    ) {
        let aggregate = mean(Limits::default());
        let mut states = states_of(&aggregate);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(rows.len())).chain([0, rows.len()]).collect();
        cuts.sort_unstable();
        for part in cuts.windows(2) {
            add(&aggregate, &mut states, &rows[part[0]..part[1]]).unwrap();
        }
        prop_assert_eq!(results(&aggregate, &states), expected_means(&rows));
        let mut whole = states_of(&aggregate);
        add(&aggregate, &mut whole, &rows).unwrap();
        let all: Vec<u32> = (0..GROUPS as u32).collect();
        prop_assert_eq!(whole.partial(&all).unwrap(), states.partial(&all).unwrap());
        prop_assert_eq!(whole.used(), (0..GROUPS as u32).filter(|group| !whole.is_new(*group)).count());
    }

    /// Whole numbers, so that their sums do not depend on the order.
    #[test]
    fn partial_results_are_merged(first in mean_rows(1), second in mean_rows(1), third in mean_rows(0)) {
        let whole = |rows: &[MeanRow]| -> Vec<MeanRow> {
            rows.iter().map(|(group, value)| (*group, value.map(f64::round))).collect()
        };
        let parts = [whole(&first), whole(&second), whole(&third)];
        let aggregate = mean(Limits::default());
        let (mut groups, mut partials) = (Vec::new(), Vec::new());
        let all: Vec<u32> = (0..GROUPS as u32).collect();
        for part in &parts {
            let mut states = states_of(&aggregate);
            add(&aggregate, &mut states, part).unwrap();
            groups.extend(&all);
            partials.push(states.partial(&all).unwrap());
        }
        // All in one call, so that the same group is there several times.
        let columns: Vec<ArrayRef> = (0..partials[0].len())
            .map(|column| {
                let columns: Vec<&dyn Array> = partials.iter().map(|partial| partial[column].as_ref()).collect();
                arrow_select::concat::concat(&columns).unwrap()
            })
            .collect();
        let mut merged = states_of(&aggregate);
        aggregate.merge(&mut merged, &groups, &columns).unwrap();
        prop_assert_eq!(results(&aggregate, &merged), expected_means(&parts.concat()));
        let mut restored = states_of(&aggregate);
        restored.restore(&all, &merged.partial(&all).unwrap()).unwrap();
        prop_assert_eq!(restored.partial(&all).unwrap(), merged.partial(&all).unwrap());
        prop_assert_eq!(restored.used(), merged.used());
    }

    #[test]
    fn an_operator_does_not_depend_on_batches(
        rows in prop::collection::vec((0_i64..4, prop_oneof![20 => -3_i64..50, 1 => Just(-200)]), 0..150),
        cuts in prop::collection::vec(0_usize..150, 0..4),
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(rows.len())).chain([0, rows.len()]).collect();
        cuts.sort_unstable();
        let operator = rises(Limits::default());
        let mut states = operator.states();
        states.resize(4);
        let mut found = Vec::new();
        for part in cuts.windows(2) {
            found.extend(given(&operator, &mut states, &rows[part[0]..part[1]], part[0]).unwrap());
        }
        let (wanted, used) = expected_rises(&rows);
        prop_assert_eq!(found, wanted);
        prop_assert_eq!(states.used(), used);
        let kept: Vec<u32> = (0..4).filter(|key| !states.is_new(*key)).collect();
        let before = states.partial(&kept).unwrap();
        states.keep(&kept);
        let now: Vec<u32> = (0..kept.len() as u32).collect();
        prop_assert_eq!(states.partial(&now).unwrap(), before);
    }
}

/// What is given for a row, by its number: value and rises, or that the code has failed.
type Given = (usize, Option<(i64, i64)>);

fn given(
    operator: &RowOperator,
    states: &mut States,
    rows: &[(i64, i64)],
    first: usize,
) -> Result<Vec<Given>, Failure> {
    let keys: Vec<u32> = rows.iter().map(|(key, _)| *key as u32).collect();
    let columns: [ArrayRef; 2] = [
        Arc::new(rows.iter().map(|(key, _)| *key).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|(_, value)| *value).collect::<Int64Array>()),
    ];
    let given = operator.call(states, &keys, &columns)?;
    let mut rows: Vec<Given> = given.failed.iter().map(|(row, _)| (first + *row as usize, None)).collect();
    for piece in given.pieces {
        let [values, rises] = [0, 1].map(|column| piece.columns[column].as_primitive::<Int64Type>().clone());
        let pairs = values.values().iter().copied().zip(rises.values().iter().copied());
        rows.extend(piece.from.iter().map(|row| first + *row as usize).zip(pairs.map(Some)));
    }
    rows.sort_unstable();
    Ok(rows)
}

/// The rises by a loop over the rows, and how many keys are not forgotten.
fn expected_rises(rows: &[(i64, i64)]) -> (Vec<Given>, usize) {
    let mut keys: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    let mut given = Vec::new();
    for (row, (key, value)) in rows.iter().enumerate() {
        if *value < -100 {
            given.push((row, None));
            continue;
        }
        match keys.get_mut(key) {
            Some((last, count)) => {
                if value > last {
                    *count += 1;
                    given.push((row, Some((*value, *count))));
                }
                *last = *value;
            }
            None => drop(keys.insert(*key, (*value, 0))),
        }
        if *value == -1 {
            keys.remove(key);
        }
    }
    (given, keys.len())
}

#[test]
fn what_needs_too_much_at_once_is_divided() {
    let rows: Vec<MeanRow> = (0..30_000).map(|row| (row % 5, Some(f64::from(row)))).collect();
    let small = Limits { memory_bytes_max: 128 << 10, ..Limits::default() };
    let little = Limits { fuel_max: 20_000, ..Limits::default() };
    for limits in [small, little] {
        let aggregate = mean(limits);
        let mut states = states_of(&aggregate);
        add(&aggregate, &mut states, &rows).unwrap();
        assert_eq!(results(&aggregate, &states), expected_means(&rows));
    }
    let none = mean(Limits { fuel_max: 10, ..Limits::default() });
    let failure = add(&none, &mut states_of(&none), &rows[..3]).unwrap_err();
    assert!(failure.stops() && failure.to_string().contains("10 units of fuel"), "{failure}");
}

#[test]
fn a_failed_group_takes_no_more_rows_and_others_do() {
    let aggregate = mean(Limits::default());
    let mut states = states_of(&aggregate);
    add(&aggregate, &mut states, &[(0, Some(1.0)), (1, Some(-5.0)), (1, Some(7.0)), (2, Some(3.0))]).unwrap();
    add(&aggregate, &mut states, &[(1, Some(1.0)), (0, Some(3.0))]).unwrap();
    assert!(states.failure(1).is_some_and(|reason| reason.contains("gave up")));
    let result = aggregate.result(&states, &[0, 2]).unwrap();
    assert_eq!(result.as_primitive::<Float64Type>().values(), &[2.0, 3.0]);
    let failure = aggregate.result(&states, &[0, 1]).unwrap_err();
    assert!(!failure.stops(), "{failure}");
    states.clear();
    assert!(states.is_empty() && states.used() == 0);
    states.resize(2);
    assert!(states.is_new(1) && states.failure(1).is_none());
}

fn with_update(body: &str) -> Aggregate {
    let text = format!(
        r#"(module (memory (export "memory") 1)
            (func (export "tidemill_allocate") (param i32) (result i32) (i32.const 1024))
            (func $update (export "a_update") (export "a_merge")
                (param $rows i32) (param $arguments i32) (param $groups i32) (param i32) (param $states i32) {body})
            (func (export "a_result") (param i64) (result i64) (local.get 0)))"#
    );
    let module = Module::new(text.as_bytes()).expect("the module is good");
    Aggregate::new(&module, "a", &[Int64], &[Int64], &Int64, Limits::default()).expect("it is good")
}

fn update(aggregate: &Aggregate, rows: usize) -> Result<(), Failure> {
    let values: ArrayRef = Arc::new(Int64Array::from(vec![1; rows]));
    aggregate.update(&mut states_of(aggregate), &vec![0; rows], &[values])
}

#[test]
fn what_depends_on_the_batch_stops() {
    // The state is the number of rows of the last batch.
    let aggregate = with_update(
        "(i64.store (i32.load offset=4 (local.get $states)) (i64.extend_i32_u (local.get $rows)))
         (i32.store8 (i32.load (local.get $states)) (i32.const 1))",
    );
    update(&aggregate, 1).unwrap();
    let failure = update(&aggregate, 10).unwrap_err();
    assert!(failure.stops() && failure.to_string().contains("two batches"), "{failure}");
}

#[test]
fn wild_pointers_stop() {
    for place in ["i32.const -8", "i32.const 65535", "i32.const 2147483644"] {
        let aggregate = with_update(&format!("(i32.store offset=4 (local.get $states) ({place}))"));
        let failure = update(&aggregate, 3).unwrap_err();
        assert!(failure.stops() && failure.to_string().contains("its memory has"), "{failure}");
    }
    let endless = with_update("(loop $again (br $again))");
    assert!(update(&endless, 3).unwrap_err().to_string().contains("fuel"));
}

/// An operator whose output has this many rows, from a place on.
fn with_output(rows: i32, from: i32) -> Result<usize, Failure> {
    let text = format!(
        r#"(module (memory (export "memory") 1)
            (func (export "tidemill_allocate") (param i32) (result i32) (i32.const 1024))
            (func (export "o") (param i32 i32 i32 i32 i32) (param $output i32)
                (i32.store (i32.const 8) (i32.const 1))
                (i32.store (i32.const 12) (i32.const 0))
                (i32.store (i32.const 16) (i32.const 99))
                (i32.store offset=4 (local.get $output) (i32.const {from}))
                (i32.store (local.get $output) (i32.const {rows}))))"#
    );
    let module = Module::new(text.as_bytes()).expect("the module is good");
    let operator = RowOperator::new(&module, "o", &[Int64], &[Int64], &[Int64], Limits::default()).unwrap();
    let mut states = operator.states();
    states.resize(1);
    let rows = operator.call(&mut states, &[0], &[Arc::new(Int64Array::from(vec![1]))])?;
    Ok(rows.pieces.iter().map(|piece| piece.from.len()).sum())
}

#[test]
fn output_that_is_not_there_stops() {
    assert_eq!(with_output(0, -1).unwrap(), 0);
    assert_eq!(with_output(1, 12).unwrap(), 1);
    for (rows, from, why) in [
        (-1, 12, "its memory has"),
        (1_000_000, 12, "its memory has"),
        (1, -1, "its memory has"),
        (2, 8, "do not come from the rows"),
        (1, 16, "do not come from the rows"),
    ] {
        let failure = with_output(rows, from).unwrap_err();
        assert!(failure.stops() && failure.to_string().contains(why), "{rows} {from}: {failure}");
    }
}

#[test]
fn what_a_module_lacks_is_named() {
    let refused = |text: &str| {
        let module = Module::new(text.as_bytes()).expect("the module is good");
        let error = Aggregate::new(&module, "a", &[Int64], &[Int64], &Int64, Limits::default()).unwrap_err();
        format!("{}; {}", error.message, error.hint.unwrap_or_default())
    };
    let update = r#"(func (export "a_update") (param i32 i32 i32 i32 i32))"#;
    assert!(refused("(module)").contains("exports no function `a_update`"));
    assert!(refused(&format!("(module {update})")).contains("does not export its memory"));
    let memory = r#"(memory (export "memory") 1)
        (func (export "tidemill_allocate") (param i32) (result i32) i32.const 8)"#;
    assert!(refused(&format!("(module {memory} {update})")).contains("exports no function `a_merge`"));
    let wrong = r#"(func (export "a_update") (param i32 i32))"#;
    let message = refused(&format!("(module {memory} {wrong})"));
    assert!(message.contains("(i32, i32) -> (); it has to be (i32, i32, i32, i32, i32) -> ()"), "{message}");
    let list = arrow_schema::DataType::new_list(Int64, true);
    let module = Module::new(include_bytes!("mean.wat")).unwrap();
    let error =
        Aggregate::new(&module, "mean", &[Float64], &[list], &Float64, Limits::default()).unwrap_err();
    assert!(error.message.contains("cannot be passed to a module"), "{error}");
}
