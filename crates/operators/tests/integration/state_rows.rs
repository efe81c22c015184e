//! The rows that operators show as their state, against a loop over all rows that have come. Those of aggregates are in
//! `aggregates`.
#![allow(missing_docs)]

use std::collections::BTreeMap;

use crate::cycles::{DELAY, DIVISIONS, Event, batch, events, held, schema, show, show_events};
use arrow_array::RecordBatch;
use proptest::prelude::*;
use tidemill_core::Operator;
use tidemill_operators::count_windows::{self, CountWindows, CountWindowsSpec};
use tidemill_operators::forward::{Forward, ForwardSpec};
use tidemill_operators::interval_join::{self, IntervalJoin, IntervalJoinSpec};
use tidemill_operators::join::JoinKind;
use tidemill_operators::over::{self, Function, FunctionSpec, Over, OverSpec};
use tidemill_operators::sort::{Ordering, OrderingSpec};
use tidemill_operators::table_join::{self, TableJoin, TableJoinSpec};
use tidemill_operators::top::{self, Numbering, OrderBy, Top, TopSpec};
use tidemill_operators::until_end::{UntilEnd, UntilEndSpec};

/// The watermark after all events.
fn watermark(events: &[Event]) -> i64 {
    events.iter().map(|event| event.time - DELAY).max().unwrap_or(i64::MIN)
}

fn lines<'a>(events: impl Iterator<Item = &'a Event>) -> Vec<String> {
    show_events(&events.collect::<Vec<_>>())
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

fn with_sorted(kinds: Vec<(&'static str, Vec<String>)>) -> Vec<(&'static str, Vec<String>)> {
    kinds.into_iter().map(|(kind, lines)| (kind, sorted(lines))).collect()
}

proptest! {
    #[test]
    fn a_join_within_a_bound_holds_rows_that_may_still_match(
        events in events(2, 60), low in -6..6_i64, width in 0..6_i64, is_left: bool,
    ) {
        let kind = if is_left { JoinKind::Left } else { JoinKind::Inner };
        let high = low + width;
        let spec = IntervalJoinSpec {
            left: schema(),
            right: schema(),
            left_keys: vec![1],
            right_keys: vec![1],
            left_time: 0,
            right_time: 0,
            low_ns: low,
            high_ns: high,
            kind,
            residual: None,
            watermark: vec![0].into(),
            rows_max: 1000,
            late: Default::default(),
        };
        let is_pair = |left: &Event, right: &Event| {
            left.key == right.key && (low..=high).contains(&(left.time - right.time))
        };
        let end = watermark(&events);
        let mut left = Vec::new();
        for event in events.iter().filter(|event| event.input == 0 && event.key.is_some()) {
            // A match is at the latest at the left time minus `low`, and none comes before the watermark.
            if event.time - low < end {
                continue;
            }
            let is_matched = events.iter().any(|other| other.input == 1 && is_pair(event, other));
            let line = show_events(&[event]).remove(0);
            left.push(if is_left { format!("{line}|{is_matched}") } else { line });
        }
        let may_match = |event: &&Event| event.input == 1 && event.key.is_some() && event.time + high >= end;
        let right = lines(events.iter().filter(may_match));
        let make = || Box::new(IntervalJoin::new(spec.clone()).unwrap()) as Box<dyn Operator>;
        for division in DIVISIONS {
            let shown = held(make, interval_join::output_schema(&spec), &events, division);
            prop_assert_eq!(shown, [("left", left.clone()), ("right", right.clone())]);
        }
    }

    #[test]
    fn a_join_with_a_table_holds_the_last_row_of_each_key(events in events(2, 60)) {
        let spec = TableJoinSpec {
            stream: schema(),
            table: schema(),
            stream_keys: vec![1, 2],
            table_keys: vec![1, 2],
            kind: JoinKind::Inner,
            residual: None,
            rows_max: 1000,
        };
        let mut table = BTreeMap::new();
        for event in events.iter().filter(|event| event.input == 0) {
            if let (Some(key), Some(name)) = (event.key, event.name.clone()) {
                table.insert((key, name), event);
            }
        }
        let expected = sorted(lines(table.into_values()));
        let make = || Box::new(TableJoin::new(spec.clone()).unwrap()) as Box<dyn Operator>;
        for division in DIVISIONS {
            let shown = held(make, table_join::output_schema(&spec), &events, division);
            prop_assert_eq!(with_sorted(shown), [("table", expected.clone())]);
        }
    }

    #[test]
    fn what_waits_for_the_watermark_is_held(events in events(2, 60)) {
        let end = watermark(&events);
        let waiting = sorted(lines(events.iter().filter(|event| event.time >= end)));
        let ordering = || -> Box<dyn Operator> {
            Box::new(Ordering::new(OrderingSpec {
                schema: schema(),
                event_time: 0,
                watermark: vec![0].into(),
                rows_max: 1000,
                late: Default::default(),
            }))
        };
        let spec = OverSpec {
            schema: schema(),
            keys: vec![1],
            event_time: 0,
            functions: vec![FunctionSpec { name: "n".into(), function: Function::RowNumber }],
            ordered: false,
            watermark: vec![0].into(),
            rows_max: 1000,
            late: Default::default(),
        };
        let over = || Box::new(Over::new(spec.clone()).unwrap()) as Box<dyn Operator>;
        let until_end = || -> Box<dyn Operator> {
            Box::new(UntilEnd::new(UntilEndSpec { schema: schema(), watermark: vec![0].into(), rows_max: 1000 }))
        };
        for division in DIVISIONS {
            let expected = [("waiting", waiting.clone())];
            prop_assert_eq!(&with_sorted(held(ordering, schema(), &events, division)), &expected);
            let port = over::output_schema(&spec).unwrap();
            prop_assert_eq!(&with_sorted(held(over, port, &events, division)), &expected);
            let all = [("waiting", sorted(lines(events.iter())))];
            prop_assert_eq!(with_sorted(held(until_end, schema(), &events, division)), all);
        }
    }

    #[test]
    fn first_rows_and_windows_by_count_hold_the_rows_of_what_is_open(
        events in events(1, 60), size in 1..7_u32, slide in 1..7_u32,
    ) {
        let spec = TopSpec {
            schema: schema(),
            partition: vec![1],
            order: vec![OrderBy { column: 3, descending: true, nulls_first: false }],
            count: 2,
            numbering: Numbering::RowNumber,
            number_column: None,
            window_end: 0,
            watermark: vec![0].into(),
            rows_max: 1000,
            late: Default::default(),
        };
        let top = || Box::new(Top::new(spec.clone()).unwrap()) as Box<dyn Operator>;
        let end = watermark(&events);
        let mut open: Vec<&Event> = events.iter().filter(|event| event.time > end).collect();
        open.sort_by_key(|event| event.time);
        // By count: the rows from the first one of the next window on.
        let slide = slide.min(size);
        let of_key = |key: Option<i64>| events.iter().filter(move |event| event.key == key);
        let mut incomplete = Vec::new();
        for key in [None, Some(0), Some(1), Some(2), Some(3)] {
            let rows: Vec<&Event> = of_key(key).collect();
            let is_complete = |start: &usize| start + size as usize <= rows.len();
            let next = (0..).step_by(slide as usize).find(|start| !is_complete(start)).unwrap();
            incomplete.extend(rows.into_iter().skip(next));
        }
        let by_count = CountWindowsSpec {
            schema: schema(),
            keys: vec![1],
            size,
            slide,
            watermark: vec![0].into(),
            rows_max: 1000,
        };
        let count = || Box::new(CountWindows::new(by_count.clone()).unwrap()) as Box<dyn Operator>;
        for division in DIVISIONS {
            let shown = held(top, top::output_schema(&spec), &events, division);
            prop_assert_eq!(shown, [("rows", show_events(&open))]);
            let shown = held(count, count_windows::output_schema(&by_count), &events, division);
            prop_assert_eq!(with_sorted(shown), [("rows", sorted(show_events(&incomplete)))]);
        }
    }
}

#[test]
fn who_keeps_nothing_shows_nothing_and_columns_stay_apart() {
    let forward = || Box::new(Forward::new(ForwardSpec { schema: schema() })) as Box<dyn Operator>;
    let event = Event { input: 0, time: 100, key: Some(1), name: None, value: None };
    assert_eq!(held(forward, schema(), std::slice::from_ref(&event), DIVISIONS[0]), []);
    // A left side that has a column `matched` of its own keeps it.
    let schema_of_rows = batch(&[&event]).schema();
    let named = schema_of_rows.fields().iter().map(|field| match field.name().as_str() {
        "value" => std::sync::Arc::new(field.as_ref().clone().with_name("matched")),
        _ => std::sync::Arc::clone(field),
    });
    let named = std::sync::Arc::new(arrow_schema::Schema::new(named.collect::<Vec<_>>()));
    let spec = IntervalJoinSpec {
        left: named,
        right: schema(),
        left_keys: vec![1],
        right_keys: vec![1],
        left_time: 0,
        right_time: 0,
        low_ns: 0,
        high_ns: 0,
        kind: JoinKind::Left,
        residual: None,
        watermark: vec![0].into(),
        rows_max: 10,
        late: Default::default(),
    };
    let shown = IntervalJoin::new(spec).unwrap().state_rows().unwrap().unwrap();
    let names = |rows: &RecordBatch| {
        rows.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&shown[0].rows), ["time", "key", "name", "matched", "matched_"]);
    assert!(show(&shown[0].rows).is_empty() && show(&shown[1].rows).is_empty());
}
