//! Running functions against an oracle that looks at each row's whole frame.
#![allow(missing_docs)]

use std::sync::Arc;

use crate::cycles::{
    DIVISIONS, Division, Event, batch, events, in_event_order, run, schema, show, show_events,
};
use arrow_array::Int64Array;
use proptest::prelude::*;
use tidemill_core::error::Fault;
use tidemill_core::{Operator, SnapshotReader, SnapshotWriter};
use tidemill_operators::over::{
    Frame, Function, FunctionSpec, Over, OverSpec, RunningAggregate, output_schema,
};

const TIME: usize = 0;
const KEY: usize = 1;
const NAME: usize = 2;
const VALUE: usize = 3;

fn spec(keys: Vec<usize>, functions: Vec<Function>, ordered: bool) -> OverSpec {
    let named = |function| FunctionSpec { name: "f".into(), function };
    OverSpec {
        schema: schema(),
        keys,
        event_time: TIME,
        functions: functions.into_iter().map(named).collect(),
        ordered,
        watermark: vec![0].into(),
        rows_max: 100_000,
        late: Default::default(),
    }
}

fn aggregate(aggregate: RunningAggregate, column: Option<usize>, frame: Frame) -> Function {
    Function::Aggregate { aggregate, column, filter: None, frame }
}

fn frames() -> [Frame; 6] {
    [
        Frame::Rows { preceding: None },
        Frame::Range { preceding_ns: None },
        Frame::Rows { preceding: Some(0) },
        Frame::Rows { preceding: Some(2) },
        Frame::Range { preceding_ns: Some(0) },
        Frame::Range { preceding_ns: Some(3) },
    ]
}

/// The places of the frame's rows among the key's rows, for the one at `at`.
fn frame_of(key_rows: &[&Event], at: usize, frame: Frame) -> std::ops::Range<usize> {
    let time = key_rows[at].time;
    match frame {
        Frame::Rows { preceding } => preceding.map_or(0, |preceding| at.saturating_sub(preceding))..at + 1,
        Frame::Range { preceding_ns } => {
            let is_inside = |row: &&Event| {
                row.time <= time && preceding_ns.is_none_or(|preceding| row.time >= time - preceding)
            };
            let start = key_rows.iter().position(is_inside).unwrap();
            start..key_rows.iter().rposition(is_inside).unwrap() + 1
        }
    }
}

fn text<T: ToString>(value: Option<T>) -> String {
    value.map_or("NULL".into(), |value| value.to_string())
}

fn expected_value(function: &Function, key_rows: &[&Event], at: usize) -> String {
    let time = key_rows[at].time;
    let earlier = key_rows.iter().filter(|row| row.time < time);
    match function {
        Function::RowNumber => (at + 1).to_string(),
        Function::Rank => (earlier.count() + 1).to_string(),
        Function::DenseRank => {
            let mut times: Vec<i64> = earlier.map(|row| row.time).collect();
            times.dedup();
            (times.len() + 1).to_string()
        }
        Function::Lag { rows, default, .. } => match at.checked_sub(*rows) {
            Some(before) => text(key_rows[before].value),
            None => if default.is_some() { "-77" } else { "NULL" }.to_string(),
        },
        Function::FirstValue { frame, .. } => text(key_rows[frame_of(key_rows, at, *frame)][0].name.clone()),
        Function::LastValue { frame, .. } => {
            text(key_rows[frame_of(key_rows, at, *frame)].last().unwrap().name.clone())
        }
        Function::NthValue { n, frame, .. } => {
            text(key_rows[frame_of(key_rows, at, *frame)].get(n - 1).and_then(|row| row.name.clone()))
        }
        Function::Aggregate { aggregate, column, frame, .. } => {
            expected_aggregate(*aggregate, *column, &key_rows[frame_of(key_rows, at, *frame)])
        }
    }
}

fn expected_aggregate(aggregate: RunningAggregate, column: Option<usize>, rows: &[&Event]) -> String {
    let names = || rows.iter().filter_map(|row| row.name.clone());
    let values: Vec<i64> = rows.iter().filter_map(|row| row.value).collect();
    match (aggregate, column) {
        (RunningAggregate::Count, None) => rows.len().to_string(),
        (RunningAggregate::Count, _) => values.len().to_string(),
        (RunningAggregate::Sum, _) => text((!values.is_empty()).then(|| values.iter().sum::<i64>())),
        (RunningAggregate::Avg, _) => {
            let mean = values.iter().sum::<i64>() as f64 / values.len() as f64;
            // Shown as Arrow shows floats.
            text((!values.is_empty()).then(|| format!("{mean:?}")))
        }
        (RunningAggregate::Min, Some(NAME)) => text(names().min()),
        (RunningAggregate::Max, Some(NAME)) => text(names().max()),
        (RunningAggregate::Min, _) => text(values.iter().min()),
        (RunningAggregate::Max, _) => text(values.iter().max()),
    }
}

fn functions_of(frame: Frame) -> Vec<Function> {
    vec![
        Function::FirstValue { column: NAME, frame },
        Function::LastValue { column: NAME, frame },
        Function::NthValue { column: NAME, n: 2, frame },
        aggregate(RunningAggregate::Count, None, frame),
        aggregate(RunningAggregate::Count, Some(VALUE), frame),
        aggregate(RunningAggregate::Sum, Some(VALUE), frame),
        aggregate(RunningAggregate::Avg, Some(VALUE), frame),
        aggregate(RunningAggregate::Min, Some(VALUE), frame),
        aggregate(RunningAggregate::Max, Some(VALUE), frame),
        aggregate(RunningAggregate::Min, Some(NAME), frame),
        aggregate(RunningAggregate::Max, Some(NAME), frame),
    ]
}

fn numbering() -> Vec<Function> {
    let default = Some(Arc::new(Int64Array::from(vec![-77])) as _);
    vec![
        Function::RowNumber,
        Function::Rank,
        Function::DenseRank,
        Function::Lag { column: VALUE, rows: 0, default: None },
        Function::Lag { column: VALUE, rows: 1, default: None },
        Function::Lag { column: VALUE, rows: 3, default },
    ]
}

/// All rows in their order with what the functions yield.
fn expected(ordered: &[&Event], keys: &[usize], functions: &[Function]) -> Vec<String> {
    let key = |event: &Event| {
        keys.iter()
            .map(|key| match *key {
                KEY => text(event.key),
                _ => text(event.name.clone()),
            })
            .collect::<Vec<_>>()
    };
    let row = |(index, event): (usize, &&Event)| {
        let before = ordered[..index].iter().filter(|other| key(other) == key(event)).count();
        let key_rows: Vec<&Event> =
            ordered.iter().copied().filter(|other| key(other) == key(event)).collect();
        let values = functions.iter().map(|function| expected_value(function, &key_rows, before));
        std::iter::once(show_events(&[event]).remove(0)).chain(values).collect::<Vec<_>>().join("|")
    };
    ordered.iter().enumerate().map(row).collect()
}

fn check(events: &[Event], keys: Vec<usize>, functions: Vec<Function>) -> Result<(), TestCaseError> {
    let spec = spec(keys, functions, false);
    let functions: Vec<Function> = spec.functions.iter().map(|named| named.function.clone()).collect();
    let expected = expected(&in_event_order(events), &spec.keys, &functions);
    for division in DIVISIONS {
        let make = || Box::new(Over::new(spec.clone()).unwrap()) as Box<dyn Operator>;
        let rows = run(make, output_schema(&spec).unwrap(), events, division).unwrap();
        prop_assert_eq!(rows.into_iter().map(|row| row.2).collect::<Vec<_>>(), expected.clone());
    }
    Ok(())
}

proptest! {
    #[test]
    fn every_frame_yields_what_its_rows_say(events in events(2, 50), frame in 0..6_usize) {
        check(&events, vec![KEY], functions_of(frames()[frame]))?;
    }

    #[test]
    fn numbers_and_lags(events in events(2, 50)) {
        check(&events, vec![KEY, NAME], numbering())?;
        check(&events, vec![], numbering())?;
    }

    #[test]
    fn ordered_rows_come_out_at_their_positions(events in events(1, 40)) {
        let events: Vec<Event> = in_event_order(&events).into_iter().cloned().collect();
        let functions = [numbering(), functions_of(Frame::Rows { preceding: Some(2) })].concat();
        let spec = spec(vec![NAME], functions.clone(), true);
        let all: Vec<&Event> = events.iter().collect();
        let expected = expected(&all, &[NAME], &functions);
        for division in DIVISIONS {
            let make = || Box::new(Over::new(spec.clone()).unwrap()) as Box<dyn Operator>;
            let rows = run(make, output_schema(&spec).unwrap(), &events, division).unwrap();
            let place = |row: usize| ((row / division.cycle) as u64, (row % division.cycle) as u32);
            let expected = expected.iter().enumerate();
            let placed = |(row, text): (usize, &String)| (place(row).0, place(row).1, text.clone());
            let expected: Vec<_> = expected.map(placed).collect();
            prop_assert_eq!(rows, expected);
        }
    }
}

fn event(time: i64, value: i64) -> Event {
    Event { input: 0, time, key: Some(value), name: None, value: Some(value) }
}

const ONE_CYCLE: Division = Division { cycle: 1000, call: 1000, restart_after: None };

#[test]
fn long_runs_give_up_what_is_no_longer_needed() {
    let rows: Vec<Event> = (0..30_000).map(|time| event(time, time % 7)).collect();
    let functions = [numbering(), functions_of(Frame::Rows { preceding: Some(2) })].concat();
    let mut spec = spec(vec![KEY], functions.clone(), true);
    // 7 keys; three rows of each for the longest LAG, and as many for each of nine functions with a frame.
    spec.rows_max = 7 + 7 * (4 + 3 * 11);
    let make = || Box::new(Over::new(spec.clone()).unwrap()) as Box<dyn Operator>;
    let all = run(make, output_schema(&spec).unwrap(), &rows, Division { cycle: 500, ..ONE_CYCLE }).unwrap();
    let last: Vec<&Event> = rows[29_000..].iter().collect();
    // The numbers of earlier rows differ, so only what looks at a few rows is compared.
    let looks_back = expected(&last, &[KEY], &functions_of(Frame::Rows { preceding: Some(2) }));
    for (row, expected) in all[29_500..].iter().zip(&looks_back[500..]) {
        let tail = |text: &str| text.split('|').rev().take(11).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(tail(&row.2), tail(expected));
    }
}

#[test]
fn a_sum_that_does_not_fit_is_an_error() {
    let rows = [event(100, i64::MAX), event(101, 1)];
    let sum = aggregate(RunningAggregate::Sum, Some(VALUE), Frame::Rows { preceding: None });
    let spec = spec(vec![], vec![sum], true);
    let make = || Box::new(Over::new(spec.clone()).unwrap()) as Box<dyn Operator>;
    let error = run(make, output_schema(&spec).unwrap(), &rows, ONE_CYCLE).unwrap_err();
    assert!(error.fault == Fault::User && error.message.contains("SUM"), "{error}");
}

/// The mean of `VALUE` over all rows so far.
fn means(schema: arrow_schema::SchemaRef) -> OverSpec {
    let mean = aggregate(RunningAggregate::Avg, Some(VALUE), Frame::Rows { preceding: None });
    OverSpec { schema, ..spec(vec![], vec![mean], false) }
}

#[test]
fn a_mean_of_integers_is_the_exact_sum_divided() {
    // Added as floating-point numbers, the ones would be lost.
    let large = 1 << 60;
    let values = [large, 1, 1, 1, -large, 5];
    let rows: Vec<Event> = (100..).zip(values).map(|(time, value)| event(time, value)).collect();
    let spec = means(schema());
    for division in [ONE_CYCLE, Division { cycle: 1, call: 1, restart_after: Some(3) }] {
        let make = || Box::new(Over::new(spec.clone()).unwrap()) as Box<dyn Operator>;
        let written = run(make, output_schema(&spec).unwrap(), &rows, division).unwrap();
        let means: Vec<&str> = written.iter().map(|row| row.2.rsplit('|').next().unwrap()).collect();
        assert_eq!(means[4..], ["0.6", "1.3333333333333333"], "{division:?}");
    }
}

#[test]
fn a_mean_continues_from_the_state_of_the_version_that_added_floats() {
    let integers = schema();
    let floats = integers.fields().iter().map(|field| match field.name().as_str() {
        "value" => field.as_ref().clone().with_data_type(arrow_schema::DataType::Float64),
        _ => field.as_ref().clone(),
    });
    let floats = means(Arc::new(arrow_schema::Schema::new(floats.collect::<Vec<_>>())));
    let numbers = |events: &[Event]| batch(&events.iter().collect::<Vec<_>>());
    let events: Vec<Event> = (100..).zip([7, 8, 3]).map(|(time, value)| event(time, value)).collect();
    // The first two rows are in the sum, the third waits for the watermark.
    let mut older = Over::new(floats.clone()).unwrap();
    let rows = numbers(&events);
    let value = arrow_cast::cast(rows.column(VALUE), &arrow_schema::DataType::Float64).unwrap();
    let columns = [rows.columns()[..VALUE].to_vec(), vec![value]].concat();
    let rows = arrow_array::RecordBatch::try_new(floats.schema.clone(), columns).unwrap();
    let mut output = tidemill_core::Output::new(&[output_schema(&floats).unwrap()]);
    cycle(&mut older, rows, 102, &mut output);
    let mut now = SnapshotWriter::default();
    older.snapshot(&mut now);
    let now = now.finish();
    // Its layout was the same, but for the version.
    let (mut then, mut rest) = (SnapshotWriter::default(), SnapshotReader::new(&now).unwrap());
    rest.u8().unwrap();
    then.u8(1);
    while !rest.is_empty() {
        then.u8(rest.u8().unwrap());
    }
    let spec = means(schema());
    let mut newer = Over::new(spec.clone()).unwrap();
    newer.restore(&mut SnapshotReader::new(&then.finish()).unwrap()).unwrap();
    let mut output = tidemill_core::Output::new(&[output_schema(&spec).unwrap()]);
    let rest = cycle(&mut newer, numbers(&[event(103, 4)]), i64::MAX, &mut output);
    let means: Vec<&str> = rest.iter().map(|row| row.rsplit('|').next().unwrap()).collect();
    assert_eq!(means, ["6.0", "5.5"]);
}

fn cycle(
    over: &mut Over,
    rows: arrow_array::RecordBatch,
    watermark: i64,
    output: &mut tidemill_core::Output,
) -> Vec<String> {
    output.begin_cycle(rows.num_rows() as u32);
    let positions: Vec<u32> = (0..rows.num_rows() as u32).collect();
    over.rows(0, tidemill_core::Batch::from_source(rows, positions.into()).as_rows(), output).unwrap();
    let cut = tidemill_core::Cut { watermarks: vec![watermark], ..tidemill_core::Cut::first() };
    over.end_of_cycle(&cut, output).unwrap();
    output.finish(0).map_or_else(Vec::new, |batch| show(&batch.rows))
}

#[test]
fn too_many_keys_are_refused() {
    let rows: Vec<Event> = (100..110).map(|time| event(time, time)).collect();
    let mut spec = spec(vec![KEY], vec![Function::RowNumber], true);
    spec.rows_max = 9;
    let make = || Box::new(Over::new(spec.clone()).unwrap()) as Box<dyn Operator>;
    let error = run(make, output_schema(&spec).unwrap(), &rows, ONE_CYCLE).unwrap_err();
    assert!(error.fault == Fault::Resource && error.message.contains("max_state_rows"), "{error}");
}

#[test]
fn a_filter_says_which_rows_count() {
    use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
    use tidemill_core::{Batch, Cut, Output};
    let plain = [event(1, 10), event(2, 20), event(3, 40)];
    let plain = batch(&plain.iter().collect::<Vec<_>>());
    let passes = Arc::new(BooleanArray::from(vec![Some(true), None, Some(true)])) as ArrayRef;
    let names = [("time", 0), ("value", 3)];
    let columns = names.map(|(name, column)| (name, plain.column(column).clone(), true));
    let rows =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().chain([("passes", passes, true)]));
    let rows = rows.unwrap();
    let frame = Frame::Rows { preceding: None };
    let sum = |column| Function::Aggregate {
        aggregate: RunningAggregate::Sum,
        column: Some(column),
        filter: Some(2),
        frame,
    };
    let spec = OverSpec { schema: rows.schema(), ..spec(vec![], vec![sum(1)], true) };
    let mut output = Output::new(&[output_schema(&spec).unwrap()]);
    let mut over = Over::new(spec).unwrap();
    over.rows(0, Batch::from_source(rows, vec![0, 1, 2].into()).as_rows(), &mut output).unwrap();
    over.end_of_cycle(&Cut { watermarks: vec![0], ..Cut::first() }, &mut output).unwrap();
    let sums: Vec<String> = show(&output.finish(0).unwrap().rows)
        .iter()
        .map(|row| row.rsplit('|').next().unwrap().to_owned())
        .collect();
    assert_eq!(sums, ["10", "10", "50"]);
}

/// Values around the ends of their type; the result of a sum that does not fit, and which rows are reported.
#[test]
fn a_running_sum_that_does_not_fit_is_null_until_its_rows_have_left() {
    use tidemill_core::FaultLog;
    use tidemill_operators::FailedResults;
    let values = [5, i64::MAX, 1, i64::MAX, -i64::MAX, i64::MIN, -1, 3];
    let event = |(at, value): (usize, &i64)| Event {
        input: 0,
        time: at as i64 * 10,
        key: Some(1),
        name: None,
        value: Some(*value),
    };
    let events: Vec<Event> = values.iter().enumerate().map(event).collect();
    for frame in [
        Frame::Rows { preceding: Some(1) },
        Frame::Range { preceding_ns: Some(10) },
        Frame::Rows { preceding: None },
    ] {
        let first =
            |at: usize| if frame == (Frame::Rows { preceding: None }) { 0 } else { at.saturating_sub(1) };
        let sum = |at: usize| values[first(at)..=at].iter().map(|value| i128::from(*value)).sum::<i128>();
        let sums: Vec<Option<i64>> = (0..values.len()).map(|at| i64::try_from(sum(at)).ok()).collect();
        assert!(sums.contains(&None) && sums.iter().flatten().count() > 2);
        for division in DIVISIONS {
            let log = FaultLog::default();
            let spec = spec(vec![KEY], vec![aggregate(RunningAggregate::Sum, Some(VALUE), frame)], false);
            let make = || -> Box<dyn Operator> {
                Box::new(Over::new(spec.clone()).unwrap().failed_results(FailedResults::Null(log.clone())))
            };
            let rows = run(make, output_schema(&spec).unwrap(), &events, division).unwrap();
            let found: Vec<String> =
                rows.iter().map(|row| row.2.rsplit('|').next().unwrap().to_owned()).collect();
            assert_eq!(
                found,
                sums.iter().map(|sum| text(*sum)).collect::<Vec<_>>(),
                "{frame:?} {division:?}"
            );
            assert_eq!(log.read().count, sums.iter().filter(|sum| sum.is_none()).count() as u64);
        }
    }
}
