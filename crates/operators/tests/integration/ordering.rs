//! Event order, `ORDER BY event_time` and `UNION ALL`.
#![allow(missing_docs)]

use crate::cycles::{DIVISIONS, Division, Event, events, in_event_order, run, schema, show_events};
use proptest::prelude::*;
use tidemill_core::Operator;
use tidemill_core::error::Fault;
use tidemill_operators::forward::{Forward, ForwardSpec};
use tidemill_operators::sort::{Ordering, OrderingSpec};
use tidemill_operators::watermark::LateRows;

fn ordering(rows_max: usize, late: &LateRows) -> Box<dyn Operator> {
    Box::new(Ordering::new(OrderingSpec {
        schema: schema(),
        event_time: 0,
        watermark: vec![0].into(),
        rows_max,
        late: late.clone(),
    }))
}

fn event(time: i64) -> Event {
    Event { input: 0, time, key: Some(1), name: None, value: Some(time) }
}

proptest! {
    #[test]
    fn rows_come_in_event_order(events in events(2, 60)) {
        let expected = show_events(&in_event_order(&events));
        for division in DIVISIONS {
            let late = LateRows::default();
            let rows = run(|| ordering(1000, &late), schema(), &events, division).unwrap();
            prop_assert_eq!(rows.into_iter().map(|row| row.2).collect::<Vec<_>>(), expected.clone());
            prop_assert_eq!(late.count(), 0);
        }
    }

    #[test]
    fn a_union_keeps_rows_and_positions(events in events(3, 30)) {
        let make = || Box::new(Forward::new(ForwardSpec { schema: schema() })) as Box<dyn Operator>;
        let division = Division { cycle: 1000, call: 2, restart_after: None };
        let mut rows = run(make, schema(), &events, division).unwrap();
        rows.sort_by_key(|row| row.1);
        let all: Vec<&Event> = events.iter().collect();
        prop_assert_eq!(rows.into_iter().map(|row| row.2).collect::<Vec<_>>(), show_events(&all));
    }
}

#[test]
fn a_row_waits_for_the_watermark_to_pass_it() {
    let events = [event(100), event(105), event(106)];
    let division = Division { cycle: 1, call: 1, restart_after: None };
    let rows = run(|| ordering(10, &LateRows::default()), schema(), &events, division).unwrap();
    // The watermark is 100 after the second event, and 101 after the third.
    assert_eq!(rows.iter().map(|row| (row.0, row.1)).collect::<Vec<_>>(), [(2, 1), (3, 0), (3, 0)]);
}

#[test]
fn late_rows_are_counted_and_left_out() {
    let late = LateRows::default();
    let events = [event(100), event(110), event(104), event(105)];
    let division = Division { cycle: 2, call: 1, restart_after: Some(0) };
    let rows = run(|| ordering(10, &late), schema(), &events, division).unwrap();
    assert_eq!((rows.len(), late.count()), (3, 1));
}

#[test]
fn too_many_waiting_rows_are_refused() {
    let events: Vec<Event> = (100..104).map(event).collect();
    let division = Division { cycle: 10, call: 10, restart_after: None };
    let error = run(|| ordering(3, &LateRows::default()), schema(), &events, division).unwrap_err();
    assert!(error.fault == Fault::Resource && error.message.contains("max_state_rows"), "{error}");
}
