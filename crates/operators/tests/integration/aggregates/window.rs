//! Windows against a map from window and key to all rows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use tidemill_core::Operator;
use tidemill_operators::{WindowAggregate, WindowSpec};

use crate::aggregates::harness::{
    Cycle, Row, TIME, cycles, divided, held, keys, run, sorted, spec, undivided,
};
use crate::aggregates::oracle;

fn windows() -> impl Strategy<Value = WindowSpec> {
    let lengths = prop_oneof![
        (1..40_i64).prop_map(|size| (size, size)),
        (1..60_i64, 1..40_i64),
        (1..6_i64, 1..10_i64).prop_map(|(slide, times)| (slide * times, slide)),
    ];
    (lengths, -100..100_i64).prop_map(|((size_ns, slide_ns), offset_ns)| WindowSpec {
        time: TIME,
        size_ns,
        slide_ns,
        offset_ns,
    })
}

/// The starts of the windows that hold a time, by trying all that may.
fn starts(window: &WindowSpec, time: i64) -> Vec<i64> {
    let holds = |start: &i64| {
        (start - window.offset_ns).rem_euclid(window.slide_ns) == 0
            && *start <= time
            && time < start + window.size_ns
    };
    (time - window.size_ns..=time).filter(holds).collect()
}

/// What each cycle writes, sorted, and how many rows were dropped.
pub fn expected(window: &WindowSpec, keys: &[usize], cycles: &[Cycle]) -> (Vec<Vec<String>>, u64) {
    let mut open: BTreeMap<(i64, String), Vec<Row>> = BTreeMap::new();
    let (mut closed, mut dropped, mut written) = (i64::MIN, 0, Vec::new());
    for (calls, watermark) in cycles {
        for row in calls.iter().flatten() {
            let all = row.time.map(|time| starts(window, time)).unwrap_or_default();
            let mut starts = all.iter().filter(|start| *start + window.size_ns > closed).peekable();
            if row.time.is_none() || (!all.is_empty() && starts.peek().is_none()) {
                dropped += 1;
            }
            starts.for_each(|start| {
                open.entry((*start, oracle::key(row, keys))).or_default().push(row.clone())
            });
        }
        closed = closed.max(*watermark);
        let (done, rest) = open.into_iter().partition(|((start, _), _)| start + window.size_ns <= closed);
        let done: BTreeMap<(i64, String), Vec<Row>> = done;
        open = rest;
        let line = |((start, key), rows): (&(i64, String), &Vec<Row>)| {
            let bounds = [*start, start + window.size_ns].map(oracle::time).join("|");
            format!("{key}{bounds}|{}", oracle::results(rows))
        };
        written.push(done.iter().map(line).collect());
    }
    (sorted(written), dropped)
}

/// What is held after all cycles, by pane: the longest intervals that no window boundary cuts. A pane is there as long as
/// one of its windows is open, which is asked of its first instant.
fn expected_panes(window: &WindowSpec, keys: &[usize], cycles: &[Cycle]) -> Vec<String> {
    let divides = |length: &i64| window.size_ns % length == 0 && window.slide_ns % length == 0;
    let length = (1..=window.size_ns).rev().find(divides).unwrap();
    let is_open =
        |time: i64, closed| starts(window, time).iter().any(|start| start + window.size_ns > closed);
    let mut panes: BTreeMap<(i64, String), Vec<Row>> = BTreeMap::new();
    let mut closed = i64::MIN;
    for (calls, watermark) in cycles {
        for row in calls.iter().flatten() {
            if let Some(time) = row.time.filter(|time| is_open(*time, closed)) {
                let start = time - (time - window.offset_ns).rem_euclid(length);
                panes.entry((start, oracle::key(row, keys))).or_default().push(row.clone());
            }
        }
        closed = closed.max(*watermark);
        panes.retain(|(start, _), _| is_open(*start, closed));
    }
    let line = |((start, key), rows): (&(i64, String), &Vec<Row>)| {
        let bounds = [*start, start + length].map(oracle::time).join("|");
        format!("{key}{bounds}|{}", oracle::results(rows))
    };
    let mut lines: Vec<String> = panes.iter().map(line).collect();
    lines.sort();
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn windows_hold_what_a_map_of_rows_holds(
        window in windows(),
        keys in keys(),
        cycles in cycles(-150..150),
        restored_after in 0..6_usize,
    ) {
        let spec = spec(&keys, 2);
        let schema = WindowAggregate::output_schema(&spec, &window).unwrap();
        let late = Arc::new(AtomicU64::new(0));
        let make = || -> Box<dyn Operator> {
            Box::new(WindowAggregate::new(&spec, &window, vec![0], Arc::clone(&late)).unwrap())
        };
        let written = run(&make, schema.clone(), &divided(&cycles), None);
        let (expected, dropped) = expected(&window, &keys, &cycles);
        prop_assert_eq!(late.load(Ordering::Relaxed), dropped);
        prop_assert_eq!(sorted(written.clone()), expected);
        prop_assert_eq!(&run(&make, schema.clone(), &undivided(&cycles), None), &written);
        prop_assert_eq!(&run(&make, schema.clone(), &divided(&cycles), Some(restored_after)), &written);
        let kind = if window.size_ns == window.slide_ns { "windows" } else { "panes" };
        let panes = expected_panes(&window, &keys, &cycles);
        prop_assert_eq!(held(&make, schema, &divided(&cycles)), [(kind, panes)]);
    }

    #[test]
    fn the_division_into_cycles_does_not_matter_without_late_rows(
        window in windows(),
        keys in keys(),
        mut rows in proptest::collection::vec(crate::aggregates::harness::row(-150..150), 1..60),
        cycle_rows in 1..20_usize,
    ) {
        rows.sort_by_key(|row| row.time);
        let spec = spec(&keys, 2);
        let schema = WindowAggregate::output_schema(&spec, &window).unwrap();
        let make = || -> Box<dyn Operator> {
            Box::new(WindowAggregate::new(&spec, &window, vec![0], Arc::default()).unwrap())
        };
        let all = |cycle_rows: usize| {
            let watermark = |rows: &[Row]| rows.last().and_then(|row| row.time).unwrap_or(i64::MIN);
            let cycles = rows.chunks(cycle_rows).map(|rows| (vec![rows.to_vec()], watermark(rows)));
            let end = (vec![], i64::MAX);
            let cycles = cycles.chain([end]).collect::<Vec<Cycle>>();
            let mut lines = run(&make, schema.clone(), &divided(&cycles), None).concat();
            lines.sort();
            lines
        };
        prop_assert_eq!(all(cycle_rows), all(1000));
    }
}

#[test]
fn many_panes_in_one_call_are_put_in_order() {
    let window = WindowSpec { time: TIME, size_ns: 3, slide_ns: 3, offset_ns: 1 };
    let row = |index: i64| Row {
        time: (index % 50 != 7).then_some(index * 7919 % 1000 - 500),
        number: Some(index % 3),
        text: None,
        value: Some(index),
        real: None,
        flag: None,
    };
    let cycles = vec![(vec![(0..2000).map(row).collect()], 100), (vec![], i64::MAX)];
    let (keys, late) = (vec![crate::aggregates::harness::NUMBER], Arc::new(AtomicU64::new(0)));
    let spec = spec(&keys, 2);
    let make = || -> Box<dyn Operator> {
        Box::new(WindowAggregate::new(&spec, &window, vec![0], Arc::clone(&late)).unwrap())
    };
    let schema = WindowAggregate::output_schema(&spec, &window).unwrap();
    let written = run(&make, schema, &divided(&cycles), None);
    let (expected, dropped) = expected(&window, &keys, &cycles);
    assert_eq!(late.load(Ordering::Relaxed), dropped);
    assert_eq!(sorted(written), expected);
}

#[test]
fn a_timer_is_set_for_the_first_window_to_end() {
    let window = WindowSpec { time: TIME, size_ns: 10, slide_ns: 5, offset_ns: 0 };
    let spec = spec(&[], 2);
    let mut operator = WindowAggregate::new(&spec, &window, vec![0], Arc::default()).unwrap();
    assert_eq!(operator.next_timer(), None);
    let row = Row { time: Some(-3), number: None, text: None, value: None, real: None, flag: None };
    let mut output = tidemill_core::Output::new(&[WindowAggregate::output_schema(&spec, &window).unwrap()]);
    let batch = crate::aggregates::harness::batch(&[row]);
    let written = crate::aggregates::harness::run_cycle(&mut operator, &mut output, (0, &[batch], -20));
    assert_eq!((written.len(), operator.next_timer()), (0, Some(0)));
    let written = crate::aggregates::harness::run_cycle(&mut operator, &mut output, (1, &[], 0));
    assert_eq!((written.len(), operator.next_timer()), (1, Some(5)));
    let written = crate::aggregates::harness::run_cycle(&mut operator, &mut output, (2, &[], 1000));
    assert_eq!((written.len(), operator.next_timer()), (1, None));
}
