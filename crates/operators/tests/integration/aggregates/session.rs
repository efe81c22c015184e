//! Sessions against a list of the events of each open session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use tidemill_core::Operator;
use tidemill_operators::{SessionAggregate, SessionSpec};

use crate::aggregates::harness::{
    Cycle, NUMBER, Row, TIME, cycles, divided, held, keys, run, sorted, spec, undivided,
};
use crate::aggregates::oracle;

/// What each cycle writes, sorted; how many rows were dropped; and the sessions that are open at the end.
fn expected(gap: i64, keys: &[usize], cycles: &[Cycle]) -> (Vec<Vec<String>>, u64, Vec<String>) {
    let mut open: Vec<(String, Vec<Row>)> = Vec::new();
    let (mut closed, mut dropped, mut written) = (i64::MIN, 0, Vec::new());
    let first = |rows: &[Row]| rows.iter().filter_map(|row| row.time).min().unwrap();
    let end = |rows: &[Row]| rows.iter().filter_map(|row| row.time).max().unwrap() + gap;
    let line = |(key, rows): &(String, Vec<Row>)| {
        let bounds = [first(rows), end(rows)].map(oracle::time).join("|");
        format!("{key}{bounds}|{}", oracle::results(rows))
    };
    for (calls, watermark) in cycles {
        for row in calls.iter().flatten() {
            let Some(time) = row.time else {
                dropped += 1;
                continue;
            };
            let key = oracle::key(row, keys);
            let joins = |session: &(String, Vec<Row>)| {
                session.0 == key
                    && session.1.iter().any(|other| other.time.unwrap().abs_diff(time) <= gap as u64)
            };
            let (joined, rest): (Vec<_>, Vec<_>) = open.into_iter().partition(joins);
            open = rest;
            if joined.is_empty() && time + gap < closed {
                dropped += 1;
                continue;
            }
            let rows = joined.into_iter().flat_map(|session| session.1).chain([row.clone()]).collect();
            open.push((key, rows));
        }
        closed = closed.max(*watermark);
        let is_over = |rows: &[Row]| end(rows) < closed || closed == i64::MAX;
        let (done, rest): (Vec<_>, Vec<_>) = open.into_iter().partition(|(_, rows)| is_over(rows));
        open = rest;
        written.push(done.iter().map(line).collect());
    }
    let mut open: Vec<String> = open.iter().map(line).collect();
    open.sort();
    (sorted(written), dropped, open)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn sessions_hold_what_a_list_of_rows_holds(
        gap_ns in 1..40_i64,
        keys in keys(),
        cycles in cycles(-150..150),
        restored_after in 0..6_usize,
    ) {
        let (spec, session) = (spec(&keys, 2), SessionSpec { time: TIME, gap_ns });
        let schema = SessionAggregate::output_schema(&spec, &session).unwrap();
        let late = Arc::new(AtomicU64::new(0));
        let make = || -> Box<dyn Operator> {
            Box::new(SessionAggregate::new(&spec, &session, vec![0], Arc::clone(&late)).unwrap())
        };
        let written = run(&make, schema.clone(), &divided(&cycles), None);
        let (expected, dropped, open) = expected(gap_ns, &keys, &cycles);
        prop_assert_eq!(late.load(Ordering::Relaxed), dropped);
        prop_assert_eq!(sorted(written.clone()), expected);
        prop_assert_eq!(&run(&make, schema.clone(), &undivided(&cycles), None), &written);
        prop_assert_eq!(&run(&make, schema.clone(), &divided(&cycles), Some(restored_after)), &written);
        prop_assert_eq!(held(&make, schema, &divided(&cycles)), [("sessions", open)]);
    }
}

#[test]
fn closed_sessions_are_forgotten() {
    let (keys, gap_ns) = (vec![NUMBER], 3);
    let row = |index: i64| Row {
        time: Some(index),
        number: Some(index % 700),
        text: None,
        value: Some(index),
        real: None,
        flag: None,
    };
    let cycle = |first: i64| (vec![(first..first + 500).map(row).collect()], first + 400);
    let cycles = (0..20).map(|index| cycle(index * 500)).chain([(vec![], i64::MAX)]).collect::<Vec<Cycle>>();
    let (spec, session) = (spec(&keys, 2), SessionSpec { time: TIME, gap_ns });
    let make = || -> Box<dyn Operator> {
        Box::new(SessionAggregate::new(&spec, &session, vec![0], Arc::default()).unwrap())
    };
    let schema = SessionAggregate::output_schema(&spec, &session).unwrap();
    let written = run(&make, schema, &divided(&cycles), None);
    assert_eq!(sorted(written), expected(gap_ns, &keys, &cycles).0);
}
