//! Runs an operator over events divided into cycles and calls, and shows its rows as text.
#![allow(dead_code, missing_docs)]

use std::sync::Arc;

use crate::restored::{held_lines, restored};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use proptest::prelude::*;
use tidemill_core::error::Cause;
use tidemill_core::{Batch, Cut, Operator, Output, Rows};

/// A row of (time, key, name, value) that comes to an input.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub input: usize,
    pub time: i64,
    pub key: Option<i64>,
    pub name: Option<String>,
    pub value: Option<i64>,
}

/// The watermark is so far behind the latest event.
pub const DELAY: i64 = 5;

/// Events in the order of arrival, up to `DELAY` out of order; none is late.
pub fn events(inputs: usize, count: usize) -> impl Strategy<Value = Vec<Event>> {
    let key = proptest::option::weighted(0.9, 0..4_i64);
    let name = proptest::option::weighted(0.8, "[ab]{0,2}");
    let value = proptest::option::weighted(0.8, -5..5_i64);
    let event = (0..inputs, -DELAY..4_i64, key, name, value);
    prop::collection::vec(event, 0..count).prop_map(|drawn| {
        let mut latest = 100;
        let place = |(input, shift, key, name, value)| {
            let time: i64 = latest + shift;
            latest = latest.max(time);
            Event { input, time, key, name, value }
        };
        drawn.into_iter().map(place).collect()
    })
}

pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("time", DataType::Timestamp(TimeUnit::Nanosecond, None), false),
        Field::new("key", DataType::Int64, true),
        Field::new("name", DataType::Utf8, true),
        Field::new("value", DataType::Int64, true),
    ]))
}

pub fn batch(events: &[&Event]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(events.iter().map(|event| Some(event.time)).collect::<TimestampNanosecondArray>()),
        Arc::new(events.iter().map(|event| event.key).collect::<Int64Array>()),
        Arc::new(events.iter().map(|event| event.name.clone()).collect::<StringArray>()),
        Arc::new(events.iter().map(|event| event.value).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

pub fn show(rows: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<_> = rows
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
        .collect();
    let row = |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|");
    (0..rows.num_rows()).map(row).collect()
}

pub fn show_events(events: &[&Event]) -> Vec<String> {
    show(&batch(events))
}

/// How events are divided.
#[derive(Clone, Copy, Debug)]
pub struct Division {
    pub cycle: usize,
    pub call: usize,
    /// After which cycle the operator is replaced by one restored from its snapshot.
    pub restart_after: Option<usize>,
}

pub const DIVISIONS: [Division; 4] = [
    Division { cycle: 1, call: 1, restart_after: Some(7) },
    Division { cycle: 4, call: 3, restart_after: None },
    Division { cycle: 7, call: 100, restart_after: Some(2) },
    Division { cycle: 1000, call: 5, restart_after: None },
];

/// A row that came out: cycle, position, text.
pub type Shown = (u64, u32, String);

/// Runs the operator as the engine does: no call in cycles without rows unless its timer is due.
pub fn run(
    make: impl Fn() -> Box<dyn Operator>,
    port: SchemaRef,
    events: &[Event],
    division: Division,
) -> Result<Vec<Shown>, Cause> {
    let inputs = events.iter().map(|event| event.input + 1).max().unwrap_or(0);
    let mut output = Output::new(&[port]);
    let mut operator = make();
    let mut shown = Vec::new();
    let mut watermark = i64::MIN;
    let mut cycles: Vec<&[Event]> = events.chunks(division.cycle).collect();
    cycles.push(&[]);
    let last = cycles.len() - 1;
    for (index, events) in cycles.into_iter().enumerate() {
        output.begin_cycle(events.len() as u32);
        output.begin_partition(0);
        for input in 0..inputs {
            give_rows(operator.as_mut(), input, events, division.call, &mut output)?;
        }
        watermark = events.iter().map(|event| event.time - DELAY).fold(watermark, i64::max);
        watermark = if index == last { i64::MAX } else { watermark };
        let cut = Cut { cycle: index as u64, watermarks: vec![watermark], ..Cut::first() };
        if !events.is_empty() || operator.next_timer().is_some_and(|due| due <= watermark) {
            operator.end_of_cycle(&cut, &mut output)?;
        }
        if let Some(batch) = output.finish(0) {
            let rows = show(&batch.rows);
            shown.extend(
                rows.into_iter().zip(batch.positions.iter()).map(|(row, at)| (index as u64, *at, row)),
            );
        }
        if division.restart_after == Some(index) {
            operator = restored(operator.as_ref(), &make)?;
        }
    }
    Ok(shown)
}

fn give_rows(
    operator: &mut dyn Operator,
    input: usize,
    events: &[Event],
    call: usize,
    output: &mut Output,
) -> Result<(), Cause> {
    let of_input = events.iter().enumerate().filter(|(_, event)| event.input == input);
    let (positions, rows): (Vec<u32>, Vec<&Event>) = of_input.map(|(at, event)| (at as u32, event)).unzip();
    if rows.is_empty() {
        return Ok(());
    }
    let gathered = Batch::from_source(batch(&rows), positions.into());
    for start in (0..rows.len()).step_by(call) {
        operator.rows(input, Rows::new(&gathered, start, (start + call).min(rows.len())), output)?;
    }
    Ok(())
}

/// What the operator holds after these events, whose input has not ended, as its restored snapshot shows it: the rows of
/// each kind.
pub fn held(
    make: impl Fn() -> Box<dyn Operator>,
    port: SchemaRef,
    events: &[Event],
    division: Division,
) -> Vec<(&'static str, Vec<String>)> {
    let mut output = Output::new(&[port]);
    let mut operator = make();
    let mut watermark = i64::MIN;
    for (index, events) in events.chunks(division.cycle).enumerate() {
        output.begin_cycle(events.len() as u32);
        for input in 0..2 {
            give_rows(operator.as_mut(), input, events, division.call, &mut output).unwrap();
        }
        watermark = events.iter().map(|event| event.time - DELAY).fold(watermark, i64::max);
        let cut = Cut { cycle: index as u64, watermarks: vec![watermark], ..Cut::first() };
        operator.end_of_cycle(&cut, &mut output).unwrap();
        output.finish(0);
    }
    held_lines(operator.as_ref(), make, |kind| show(&kind.rows))
}

/// The texts alone, sorted: what must not depend on how cycles were cut.
pub fn sorted(rows: Vec<Shown>) -> Vec<String> {
    let mut rows: Vec<String> = rows.into_iter().map(|row| row.2).collect();
    rows.sort();
    rows
}

/// Events in the order in which they are worked on: by event time, then input, then arrival.
pub fn in_event_order(events: &[Event]) -> Vec<&Event> {
    let mut ordered: Vec<&Event> = events.iter().collect();
    ordered.sort_by_key(|event| (event.time, event.input));
    ordered
}
