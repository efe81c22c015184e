//! Joins within a time bound against all pairs of rows.
#![allow(missing_docs)]

use std::sync::Arc;

use crate::cycles::{DIVISIONS, Division, Event, events, run, schema, show_events, sorted};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::DataType;
use proptest::prelude::*;
use tidemill_core::error::{Cause, Fault};
use tidemill_core::{Cut, Expression, Operator};
use tidemill_operators::interval_join::{IntervalJoin, IntervalJoinSpec, output_schema};
use tidemill_operators::join::JoinKind;

/// The left value is not larger than the right one; NULL if one is NULL.
#[derive(Debug)]
struct NotLarger;

impl Expression for NotLarger {
    fn data_type(&self) -> DataType {
        DataType::Boolean
    }
    fn evaluate(&self, rows: &RecordBatch, _cut: &Cut) -> Result<ArrayRef, Cause> {
        let value = |column: usize| rows.column(column).as_primitive::<Int64Type>().iter();
        let holds = |(left, right): (Option<i64>, Option<i64>)| Some(left? <= right?);
        Ok(Arc::new(value(3).zip(value(7)).map(holds).collect::<BooleanArray>()))
    }
}

fn spec(bound: (i64, i64), kind: JoinKind, with_condition: bool, by_name: bool) -> IntervalJoinSpec {
    let keys = if by_name { vec![1, 2] } else { vec![1] };
    IntervalJoinSpec {
        left: schema(),
        right: schema(),
        left_keys: keys.clone(),
        right_keys: keys,
        left_time: 0,
        right_time: 0,
        low_ns: bound.0,
        high_ns: bound.1,
        kind,
        residual: with_condition.then(|| Arc::new(NotLarger) as _),
        watermark: vec![0].into(),
        rows_max: 1000,
        late: Default::default(),
    }
}

fn expected(events: &[Event], spec: &IntervalJoinSpec) -> Vec<String> {
    let is_pair = |left: &Event, right: &Event| {
        let by_name = spec.left_keys.len() > 1;
        left.key.is_some()
            && left.key == right.key
            && (!by_name || left.name.is_some() && left.name == right.name)
            && (spec.low_ns..=spec.high_ns).contains(&(left.time - right.time))
            && (spec.residual.is_none()
                || left.value.zip(right.value).is_some_and(|(left, right)| left <= right))
    };
    let show = |event: &Event| show_events(&[event]).remove(0);
    let mut rows = Vec::new();
    for left in events.iter().filter(|event| event.input == 0) {
        let rights = events.iter().filter(|event| event.input == 1 && is_pair(left, event));
        let before = rows.len();
        rows.extend(rights.map(|right| format!("{}|{}", show(left), show(right))));
        if rows.len() == before && spec.kind == JoinKind::Left {
            rows.push(format!("{}|NULL|NULL|NULL|NULL", show(left)));
        }
    }
    rows.sort();
    rows
}

fn make(spec: &IntervalJoinSpec) -> Box<dyn Operator> {
    Box::new(IntervalJoin::new(spec.clone()).unwrap())
}

proptest! {
    #[test]
    fn all_pairs_and_no_others(
        events in events(2, 70),
        low in -6..6_i64,
        width in 0..6_i64,
        is_left: bool,
        with_condition: bool,
        by_name: bool,
    ) {
        let kind = if is_left { JoinKind::Left } else { JoinKind::Inner };
        let spec = spec((low, low + width), kind, with_condition, by_name);
        let expected = expected(&events, &spec);
        for division in DIVISIONS {
            let rows = run(|| make(&spec), output_schema(&spec), &events, division).unwrap();
            prop_assert_eq!(sorted(rows), expected.clone());
            prop_assert_eq!(spec.late.count(), 0);
        }
    }
}

fn event(input: usize, time: i64, key: i64) -> Event {
    Event { input, time, key: Some(key), name: None, value: None }
}

#[test]
fn pairs_come_with_their_second_row_and_the_rest_when_its_time_is_over() {
    let spec = spec((-2, 0), JoinKind::Left, false, false);
    let events = [event(0, 100, 1), event(0, 100, 2), event(1, 102, 1), event(1, 107, 9), event(1, 108, 9)];
    let division = Division { cycle: 1, call: 1, restart_after: Some(1) };
    let rows = run(|| make(&spec), output_schema(&spec), &events, division).unwrap();
    // The watermark is 103 > 100 + 2 after the last row.
    assert_eq!(rows.iter().map(|row| (row.0, row.1)).collect::<Vec<_>>(), [(2, 0), (4, 1)]);
}

#[test]
fn state_stays_small_however_long_the_streams_are() {
    let mut spec = spec((-2, 2), JoinKind::Left, false, false);
    spec.rows_max = 200;
    let rows: Vec<Event> = (0..20_000).map(|row| event(row as usize % 2, 100 + row / 2, row / 2)).collect();
    let division = Division { cycle: 50, call: 50, restart_after: Some(100) };
    let joined = run(|| make(&spec), output_schema(&spec), &rows, division).unwrap();
    assert_eq!(sorted(joined), expected_neighbours(&rows));
}

/// Each left row has the right row of its own key and time.
fn expected_neighbours(rows: &[Event]) -> Vec<String> {
    let pair = |pair: &[Event]| show_events(&[&pair[0]]).remove(0) + "|" + &show_events(&[&pair[1]])[0];
    let mut pairs: Vec<String> = rows.chunks(2).map(pair).collect();
    pairs.sort();
    pairs
}

#[test]
fn late_rows_are_counted_and_too_many_rows_refused() {
    let mut spec = spec((-100, 100), JoinKind::Inner, false, false);
    let late = [event(0, 100, 1), event(1, 110, 1), event(0, 104, 1), event(0, 105, 1)];
    let division = Division { cycle: 2, call: 1, restart_after: None };
    let rows = run(|| make(&spec), output_schema(&spec), &late, division).unwrap();
    assert_eq!((rows.len(), spec.late.count()), (2, 1));
    spec.rows_max = 2;
    let error = run(|| make(&spec), output_schema(&spec), &late, division).unwrap_err();
    assert!(error.fault == Fault::Resource && error.message.contains("max_state_rows"), "{error}");
}
