//! Windows by count: whatever the cycles, calls and restarts are, each window has the rows that a loop finds.
#![allow(missing_docs)]

use crate::cycles;

use std::collections::BTreeMap;

use crate::cycles::{DIVISIONS, Event, events, run, schema, show_events, sorted};
use proptest::prelude::*;
use tidemill_core::Operator;
use tidemill_operators::count_windows::{CountWindows, CountWindowsSpec, output_schema};

fn spec(keys: &[usize], size: u32, slide: u32) -> CountWindowsSpec {
    CountWindowsSpec {
        schema: schema(),
        keys: keys.to_vec(),
        size,
        slide,
        watermark: vec![0].into(),
        rows_max: 1000,
    }
}

/// The rows of all windows of each key.
fn naive(events: &[Event], keys: &[usize], size: usize, slide: usize) -> Vec<String> {
    let mut by_key: BTreeMap<Vec<String>, Vec<&Event>> = BTreeMap::new();
    for event in events {
        let text = show_events(&[event]).remove(0);
        let parts: Vec<&str> = text.split('|').collect();
        // An empty text is not NULL.
        let key = keys.iter().map(|key| parts[*key].to_owned()).collect();
        by_key.entry(key).or_default().push(event);
    }
    let mut rows = Vec::new();
    for events in by_key.into_values() {
        for start in (0..events.len()).step_by(slide) {
            let window = &events[start..(start + size).min(events.len())];
            rows.extend(show_events(window).iter().map(|row| format!("{row}|{start}|{}", start + size)));
        }
    }
    rows.sort();
    rows
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn windows_do_not_depend_on_cycles_and_restarts(events in events(1, 80), size in 1..9_u32, slide in 1..9_u32) {
        let slide = slide.min(size);
        for keys in [&[][..], &[1], &[2], &[1, 2]] {
            let spec = spec(keys, size, slide);
            let make = || Box::new(CountWindows::new(spec.clone()).unwrap()) as Box<dyn Operator>;
            let expected = naive(&events, keys, size as usize, slide as usize);
            for division in DIVISIONS {
                let found = run(make, output_schema(&spec), &events, division).unwrap();
                prop_assert_eq!(sorted(found), expected.clone());
            }
        }
    }

    /// All rows of a window are in one cycle, and full windows come with the row that fills them.
    #[test]
    fn a_window_comes_as_a_whole(events in events(1, 60), size in 1..6_u32) {
        let spec = spec(&[], size, size);
        let make = || Box::new(CountWindows::new(spec.clone()).unwrap()) as Box<dyn Operator>;
        for division in DIVISIONS {
            let mut came: BTreeMap<String, Vec<(u64, u32)>> = BTreeMap::new();
            for (cycle, position, row) in run(make, output_schema(&spec), &events, division).unwrap() {
                let window = row.rsplit('|').next().unwrap().to_owned();
                came.entry(window).or_default().push((cycle, position));
            }
            for (end, places) in came {
                let end: usize = end.parse().unwrap();
                prop_assert!(places.iter().all(|place| *place == places[0]), "a window came in two parts");
                if end <= events.len() {
                    let last = end - 1;
                    let place = ((last / division.cycle) as u64, (last % division.cycle) as u32);
                    prop_assert_eq!(places[0], place, "a full window came late");
                }
            }
        }
    }
}

#[test]
fn many_rows_are_forgotten_when_their_windows_are_over() {
    let mut windows = CountWindows::new(spec(&[], 100, 10)).unwrap();
    let mut output = tidemill_core::Output::new(&[output_schema(&spec(&[], 100, 10))]);
    let event = |time| Event { input: 0, time, key: Some(1), name: None, value: Some(time) };
    let mut most = 0;
    for batch in 0..200 {
        let events: Vec<Event> = (0..100).map(|row| event(batch * 100 + row)).collect();
        let rows = cycles::batch(&events.iter().collect::<Vec<_>>());
        let batch = tidemill_core::Batch::from_source(rows, (0..100).collect());
        windows.rows(0, batch.as_rows(), &mut output).unwrap();
        output.finish(0);
        most = most.max(windows.state_bytes());
    }
    assert!(most < 1 << 20, "{most} bytes for 100 rows");
}

#[test]
fn a_limit_and_a_wrong_slide_are_told() {
    assert!(CountWindows::new(spec(&[], 3, 4)).is_err());
    assert!(CountWindows::new(spec(&[], 3, 0)).is_err());
    let small = CountWindowsSpec { rows_max: 5, ..spec(&[1], 10, 10) };
    let mut windows = CountWindows::new(small.clone()).unwrap();
    let mut output = tidemill_core::Output::new(&[output_schema(&small)]);
    let event = |time| Event { input: 0, time, key: Some(1), name: None, value: None };
    let events: Vec<Event> = (0..6).map(event).collect();
    let batch = tidemill_core::Batch::from_source(
        cycles::batch(&events.iter().collect::<Vec<_>>()),
        (0..6).collect(),
    );
    let error = windows.rows(0, batch.as_rows(), &mut output).unwrap_err().to_string();
    assert!(
        error.contains("a window by count would hold 6 rows") && error.contains("max_state_rows"),
        "{error}"
    );
}
