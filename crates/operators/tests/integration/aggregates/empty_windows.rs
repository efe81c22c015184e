//! Windows without rows against a loop over all windows there could be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::{RecordBatch, TimestampNanosecondArray};
use proptest::prelude::*;
use tidemill_core::{Batch, Cause, Operator, Output};
use tidemill_operators::{EmptyWindows, WindowAggregate, WindowSpec};

use crate::aggregates::harness::{NUMBER, Row, TIME, batch, cut, keys, lines, row, spec};
use crate::aggregates::oracle;

/// A row of a source, and whether the query's condition lets it pass.
type Event = (Row, bool);

/// Rows that are at most this much behind the largest time before them.
const DELAY: i64 = 15;

fn windows() -> impl Strategy<Value = WindowSpec> {
    let lengths = prop_oneof![
        (1..25_i64).prop_map(|size| (size, size)),
        (1..8_i64, 1..5_i64).prop_map(|(slide, times)| (slide * times, slide)),
        (2..20_i64).prop_flat_map(|size| (Just(size), 1..=size)),
    ];
    (lengths, -50..50_i64).prop_map(|((size_ns, slide_ns), offset_ns)| WindowSpec {
        time: TIME,
        size_ns,
        slide_ns,
        offset_ns,
    })
}

/// Rows with gaps of all lengths between them, without late ones.
fn events() -> impl Strategy<Value = Vec<Event>> {
    let step = prop_oneof![4 => -DELAY..6_i64, 1 => 0..120_i64];
    let event = (row(0..1), any::<bool>(), step);
    proptest::collection::vec(event, 0..40).prop_map(|events| {
        let (mut latest, mut kept) = (-40, Vec::new());
        for (mut row, passes, step) in events {
            row.time = Some(latest + step);
            latest = latest.max(latest + step);
            kept.push((row, passes));
        }
        kept
    })
}

/// All lines, by trying every start of a window.
fn expected(window: &WindowSpec, keys: &[usize], windows_max: i64, events: &[Event]) -> Vec<String> {
    let times = || events.iter().filter_map(|(row, _)| row.time);
    let (Some(first), Some(last)) = (times().min(), times().max()) else { return Vec::new() };
    let starts = (first - window.size_ns..=last)
        .filter(|start| (start - window.offset_ns).rem_euclid(window.slide_ns) == 0)
        .collect::<Vec<_>>();
    let mut groups = BTreeMap::<String, Vec<Row>>::new();
    for (row, passes) in events {
        match (passes, keys) {
            (true, _) => groups.entry(oracle::key(row, keys)).or_default().push(row.clone()),
            // Without keys, rows that the condition removes still make windows.
            (false, []) => drop(groups.entry(oracle::key(row, keys)).or_default()),
            (false, _) => {}
        }
    }
    let mut written = Vec::new();
    for (key, rows) in &groups {
        let holds = |start: i64, time: i64| start <= time && time < start + window.size_ns;
        let mut last_filled = None::<i64>;
        for start in &starts {
            let inside = rows.iter().filter(|row| row.time.is_some_and(|time| holds(*start, time)));
            let inside = inside.cloned().collect::<Vec<_>>();
            let is_filled = match keys {
                [] => times().any(|time| holds(*start, time)),
                _ => !inside.is_empty(),
            };
            last_filled = if is_filled { Some(*start) } else { last_filled };
            if last_filled.is_some_and(|last| (start - last) / window.slide_ns <= windows_max) {
                let bounds = [*start, start + window.size_ns].map(oracle::time).join("|");
                written.push(format!("{key}{bounds}|{}", oracle::results(&inside)));
            }
        }
    }
    written.sort();
    written
}

fn times_batch(times: &[i64]) -> Batch {
    let column = Arc::new(TimestampNanosecondArray::from(times.to_vec())) as _;
    let rows = RecordBatch::try_from_iter([("time", column)]).unwrap();
    Batch::from_source(rows, (0..times.len() as u32).collect::<Vec<_>>().into())
}

/// What an operator writes if cycles have this many rows each. It is restored before cycle `restored`.
fn written(
    make: &dyn Fn() -> WindowAggregate,
    schema: arrow_schema::SchemaRef,
    events: &[Event],
    cycle_rows: usize,
    restored: usize,
) -> Result<Vec<String>, Cause> {
    let make = || -> Box<dyn Operator> { Box::new(make()) };
    let (mut operator, mut output) = (make(), Output::new(&[schema]));
    let (mut latest, mut all) = (i64::MIN, Vec::new());
    let mut watermarks = Vec::new();
    for cycle in events.chunks(cycle_rows) {
        latest = cycle.iter().filter_map(|(row, _)| row.time).fold(latest, i64::max);
        watermarks.push((cycle, latest - DELAY));
    }
    for (number, (cycle, watermark)) in watermarks.into_iter().chain([(&[][..], i64::MAX)]).enumerate() {
        if number == restored {
            operator = crate::restored::restored(operator.as_ref(), make)?;
        }
        output.begin_cycle(cycle.len() as u32);
        let rows = cycle.iter().filter(|(_, passes)| *passes).map(|(row, _)| row.clone()).collect::<Vec<_>>();
        if !rows.is_empty() {
            let positions = (0..rows.len() as u32).collect::<Vec<_>>();
            operator.rows(0, Batch::from_source(batch(&rows), positions.into()).as_rows(), &mut output)?;
        }
        let times = cycle.iter().filter_map(|(row, _)| row.time).collect::<Vec<_>>();
        if !times.is_empty() {
            operator.rows(1, times_batch(&times).as_rows(), &mut output)?;
        }
        let is_due = !cycle.is_empty() || operator.next_timer().is_some_and(|timer| timer <= watermark);
        if is_due {
            operator.end_of_cycle(&cut(number, watermark), &mut output)?;
        }
        assert!(operator.next_timer().is_none_or(|timer| timer > watermark), "a timer is left behind");
        all.extend(output.finish(0).map(|batch| lines(&batch.rows)).unwrap_or_default());
    }
    Ok(all)
}

fn maker(
    keys: &[usize],
    window: WindowSpec,
    windows_max: i64,
    groups_max: usize,
) -> (impl Fn() -> WindowAggregate, arrow_schema::SchemaRef) {
    let spec = tidemill_operators::AggregateSpec { groups_max, ..spec(keys, 2) };
    let schema = WindowAggregate::output_schema(&spec, &window).unwrap();
    let make = move || {
        let empty = EmptyWindows { windows_max };
        let operator = WindowAggregate::new(&spec, &window, vec![0], Arc::default()).unwrap();
        operator.empty_windows(&empty, &window).unwrap()
    };
    (make, schema)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn windows_without_rows_are_those_of_the_loop(
        window in windows(),
        keys in keys(),
        windows_max in prop_oneof![1..6_i64, Just(1000)],
        events in events(),
        cycle_rows in 1..15_usize,
        restored in 0..8_usize,
    ) {
        let (make, schema) = maker(&keys, window, windows_max, 100_000);
        let expected = expected(&window, &keys, windows_max, &events);
        for (cycle_rows, restored) in [(cycle_rows, usize::MAX), (cycle_rows, restored), (1000, usize::MAX)] {
            let mut found = written(&make, schema.clone(), &events, cycle_rows, restored).unwrap();
            found.sort();
            prop_assert_eq!(&found, &expected);
        }
    }
}

fn event(time: i64, number: i64) -> Event {
    let row = Row { time: Some(time), number: Some(number), text: None, value: None, real: None, flag: None };
    (row, true)
}

const SECOND: WindowSpec = WindowSpec { time: TIME, size_ns: 1, slide_ns: 1, offset_ns: 0 };

#[test]
fn a_time_at_the_end_of_the_calendar_makes_a_bounded_number_of_windows() {
    let (make, schema) = maker(&[], SECOND, 1000, 10_000);
    let far = i64::MAX - 10;
    let found = written(&make, schema, &[event(0, 1), event(far, 1)], 1, usize::MAX).unwrap();
    assert_eq!(found.len(), 1 + 1000 + 1);
    // And one so far away that its window cannot be represented.
    let (make, schema) = maker(&[], SECOND, 1000, 10_000);
    let found = written(&make, schema, &[event(0, 1), event(i64::MAX - 1, 1)], 1, usize::MAX).unwrap();
    assert_eq!(found.len(), 1);
}

#[test]
fn too_many_rows_at_once_are_an_error_that_says_what_to_do() {
    let events = (0..100).map(|number| event(0, number)).chain([event(1_000_000, 0)]).collect::<Vec<_>>();
    let (make, schema) = maker(&[NUMBER], SECOND, 1000, 10_000);
    let error = written(&make, schema, &events, 1000, usize::MAX).unwrap_err().to_string();
    assert!(error.contains("empty windows that close together have more than 10000 rows"), "{error}");
    assert!(error.contains("max_groups") && error.contains("forget keys sooner"), "{error}");
}

#[test]
fn keys_that_do_not_come_back_are_forgotten() {
    // A new key in each window: never more than four are known at a time, and sixteen windows are open.
    let (make, schema) = maker(&[NUMBER], SECOND, 3, 100);
    let events = (0..1000).map(|number| event(number, number)).collect::<Vec<_>>();
    let found = written(&make, schema, &events, 1, usize::MAX);
    let found = found.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), found.len());
    assert_eq!(found.len(), 1000 * 4 - (3 + 2 + 1));
}

#[test]
fn keys_that_are_known_at_the_same_time_are_limited() {
    let (make, schema) = maker(&[NUMBER], SECOND, 100, 50);
    let events = (0..200).map(|number| event(number, number)).collect::<Vec<_>>();
    let error = written(&make, schema, &events, 1, usize::MAX).unwrap_err().to_string();
    assert!(error.contains("more than 50 keys in one partition get empty windows"), "{error}");
}

#[test]
fn a_number_of_windows_outside_its_limits_is_refused() {
    let spec = spec(&[], 2);
    for windows_max in [0, -1, 100_001] {
        let operator = WindowAggregate::new(&spec, &SECOND, vec![0], Arc::default()).unwrap();
        let error = operator.empty_windows(&EmptyWindows { windows_max }, &SECOND).err().unwrap().to_string();
        assert!(error.contains("1 to 100000 are allowed"), "{error}");
    }
}
