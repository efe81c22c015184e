//! The first rows of windows against sorting all of a window's rows.
#![allow(missing_docs)]

use crate::cycles;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::cycles::{DIVISIONS, Division, Event, events, run, schema, show_events};
use proptest::prelude::*;
use tidemill_core::Operator;
use tidemill_core::error::Fault;
use tidemill_operators::top::{Numbering, OrderBy, Top, TopSpec, output_schema};

/// The first rows by value descending, NULLs first, then by name; the event time stands for the window's end.
fn spec(count: usize, numbering: Numbering) -> TopSpec {
    TopSpec {
        schema: schema(),
        partition: vec![0, 1],
        order: vec![
            OrderBy { column: 3, descending: true, nulls_first: true },
            OrderBy { column: 2, descending: false, nulls_first: false },
        ],
        count,
        numbering,
        number_column: Some("number".into()),
        window_end: 0,
        watermark: vec![0].into(),
        rows_max: 100_000,
        late: Default::default(),
    }
}

type Order = (bool, Reverse<Option<i64>>, bool, Option<String>);

fn order(event: &Event) -> Order {
    (event.value.is_some(), Reverse(event.value), event.name.is_none(), event.name.clone())
}

fn expected(events: &[Event], count: usize, numbering: Numbering) -> Vec<String> {
    let mut partitions: BTreeMap<(i64, Option<i64>), Vec<&Event>> = BTreeMap::new();
    for event in events {
        partitions.entry((event.time, event.key)).or_default().push(event);
    }
    let mut rows = Vec::new();
    for partition in partitions.values_mut() {
        partition.sort_by_key(|event| order(event));
        for (index, event) in partition.iter().enumerate() {
            let before: Vec<Order> =
                partition.iter().map(|other| order(other)).filter(|other| *other < order(event)).collect();
            let mut distinct = before.clone();
            distinct.dedup();
            let number = match numbering {
                Numbering::RowNumber => index,
                Numbering::Rank => before.len(),
                Numbering::DenseRank => distinct.len(),
            } + 1;
            if number <= count {
                rows.push(format!("{}|{number}", show_events(&[event])[0]));
            }
        }
    }
    rows
}

fn make(spec: &TopSpec) -> Box<dyn Operator> {
    Box::new(Top::new(spec.clone()).unwrap())
}

proptest! {
    #[test]
    fn the_first_rows_of_each_window(
        mut events in events(1, 80),
        count in 0..4_usize,
        numbering in 0..3_usize,
    ) {
        let numbering = [Numbering::RowNumber, Numbering::Rank, Numbering::DenseRank][numbering];
        // Few windows, values and names, so that there are ties.
        for event in &mut events {
            event.time = event.time / 8 * 8 + 8;
            event.value = event.value.map(|value| value / 4);
            event.name = event.name.take().filter(|name| name.len() == 1);
        }
        // A window's rows come before the watermark reaches its end, so none may be just at it.
        let mut latest = i64::MIN;
        events.retain(|event| {
            latest = latest.max(event.time);
            event.time > latest - cycles::DELAY
        });
        let expected = expected(&events, count, numbering);
        for division in DIVISIONS {
            let spec = spec(count, numbering);
            let rows = run(|| make(&spec), output_schema(&spec), &events, division).unwrap();
            prop_assert_eq!(rows.into_iter().map(|row| row.2).collect::<Vec<_>>(), expected.clone());
            prop_assert_eq!(spec.late.count(), 0);
        }
    }
}

fn event(time: i64, value: i64) -> Event {
    Event { input: 0, time, key: None, name: None, value: Some(value) }
}

#[test]
fn a_window_comes_out_when_the_watermark_reaches_its_end() {
    let spec = spec(5, Numbering::RowNumber);
    let events = [event(100, 1), event(104, 1), event(105, 1), event(100, 2)];
    let division = Division { cycle: 1, call: 1, restart_after: Some(2) };
    let rows = run(|| make(&spec), output_schema(&spec), &events, division).unwrap();
    assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), [2, 4, 4]);
    assert_eq!(spec.late.count(), 1);
}

#[test]
fn rows_that_cannot_be_first_are_dropped_before_the_window_closes() {
    let mut spec = spec(3, Numbering::RowNumber);
    spec.rows_max = 10_000;
    let rows: Vec<Event> = (0..50_000).map(|row| event(100, row * 7_919 % 50_021)).collect();
    let division = Division { cycle: 1000, call: 300, restart_after: Some(20) };
    let first = run(|| make(&spec), output_schema(&spec), &rows, division).unwrap();
    let mut values: Vec<i64> = rows.iter().filter_map(|row| row.value).collect();
    values.sort_unstable_by_key(|value| Reverse(*value));
    let shown = |(index, value): (usize, &i64)| {
        show_events(&[&event(100, *value)])[0].clone() + &format!("|{}", index + 1)
    };
    let expected: Vec<String> = values.iter().take(3).enumerate().map(shown).collect();
    assert_eq!(first.into_iter().map(|row| row.2).collect::<Vec<_>>(), expected);

    spec.rows_max = 100;
    let error = run(|| make(&spec), output_schema(&spec), &rows, division).unwrap_err();
    assert!(error.fault == Fault::Resource && error.message.contains("max_state_rows"), "{error}");
}
