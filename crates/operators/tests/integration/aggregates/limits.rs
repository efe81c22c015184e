//! Too many groups end a query with an error, and not the program.

use std::sync::Arc;

use arrow_schema::SchemaRef;
use tidemill_core::{Batch, Cause, Cut, Fault, Operator, Output, SnapshotReader, SnapshotWriter};
use tidemill_operators::aggregate::{CountDistinct, Spread, Variance};
use tidemill_operators::{
    AggregateSpec, Combine, SessionAggregate, SessionSpec, TableAggregate, WINDOWS_OF_ROW_MAX,
    WindowAggregate, WindowSpec,
};

use crate::aggregates::harness::{NUMBER, REAL, Row, TIME, VALUE, batch, call, spec};

fn rows(count: i64) -> Vec<Row> {
    let row = |index| Row {
        time: Some(index * 10),
        number: Some(index / 2),
        text: None,
        value: Some(index),
        real: None,
        flag: None,
    };
    (0..count).map(row).collect()
}

fn give(operator: &mut dyn Operator, schema: SchemaRef, count: i64) -> Result<(), Cause> {
    let mut output = Output::new(&[schema]);
    for rows in rows(count).chunks(3) {
        let positions = vec![0; rows.len()];
        operator.rows(0, Batch::from_source(batch(rows), positions.into()).as_rows(), &mut output)?;
    }
    Ok(())
}

fn assert_limit(found: Result<(), Cause>) {
    match found {
        Err(Cause { fault: Fault::Resource, message: text, .. }) => {
            assert!(text.contains("max_groups"), "{text}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn groups_of_all_open_windows_are_limited_together() {
    let window = WindowSpec { time: TIME, size_ns: 40, slide_ns: 40, offset_ns: 0 };
    let spec = AggregateSpec { groups_max: 10, ..spec(&[NUMBER], 2) };
    let schema = WindowAggregate::output_schema(&spec, &window).unwrap();
    let make = || WindowAggregate::new(&spec, &window, vec![0], Arc::default()).unwrap();
    give(&mut make(), schema.clone(), 20).unwrap();
    assert_limit(give(&mut make(), schema, 21));
}

#[test]
fn groups_of_tables_and_sessions_are_limited() {
    let table = AggregateSpec { groups_max: 10, ..spec(&[NUMBER], 0) };
    let schema = TableAggregate::output_schema(&table).unwrap();
    give(&mut TableAggregate::new(&table).unwrap(), schema.clone(), 20).unwrap();
    assert_limit(give(&mut TableAggregate::new(&table).unwrap(), schema, 21));

    let (spec, session) =
        (AggregateSpec { groups_max: 10, ..spec(&[NUMBER], 2) }, SessionSpec { time: TIME, gap_ns: 9 });
    let schema = SessionAggregate::output_schema(&spec, &session).unwrap();
    let make = || SessionAggregate::new(&spec, &session, vec![0], Arc::default()).unwrap();
    give(&mut make(), schema.clone(), 10).unwrap();
    assert_limit(give(&mut make(), schema, 11));
}

#[test]
fn distinct_values_are_limited() {
    let calls = vec![call(CountDistinct::new(&arrow_schema::DataType::Int64, 20).unwrap(), &[VALUE], None)];
    let names = vec!["number".into(), "values".into()];
    let spec = AggregateSpec { calls, names, ..spec(&[NUMBER], 0) };
    let schema = TableAggregate::output_schema(&spec).unwrap();
    give(&mut TableAggregate::new(&spec).unwrap(), schema.clone(), 20).unwrap();
    assert_limit(give(&mut TableAggregate::new(&spec).unwrap(), schema, 21));
}

/// Each of 5 rows, a key by itself, is in 10 windows, all of which close in one cycle.
#[test]
fn what_hopping_windows_write_at_once_is_limited() {
    let window = WindowSpec { time: TIME, size_ns: 1000, slide_ns: 100, offset_ns: 0 };
    let write = |groups_max: usize| {
        let spec = AggregateSpec { groups_max, ..spec(&[VALUE], 2) };
        let mut output = Output::new(&[WindowAggregate::output_schema(&spec, &window).unwrap()]);
        let mut operator = WindowAggregate::new(&spec, &window, vec![0], Arc::default()).unwrap();
        let rows = Batch::from_source(batch(&rows(5)), vec![0; 5].into());
        operator.rows(0, rows.as_rows(), &mut output).unwrap();
        let cut = Cut { watermarks: vec![i64::MAX], ..Cut::first() };
        operator.end_of_cycle(&cut, &mut output)?;
        Ok(output.finish(0).unwrap().len())
    };
    assert_eq!(write(50), Ok(50));
    assert_limit(write(49).map(|_| ()));
}

#[test]
fn specifications_that_cannot_work_are_refused() {
    let variance = Variance::new(Spread::SampleVariance, &arrow_schema::DataType::Float64).unwrap();
    let inexact = AggregateSpec { calls: vec![call(variance, &[REAL], None)], ..spec(&[], 0) };
    assert!(matches!(Combine::new(&inexact, None), Err(Cause { fault: Fault::Bug, .. })));
    let good = spec(&[], 2);
    let empty = WindowSpec { time: TIME, size_ns: 0, slide_ns: 1, offset_ns: 0 };
    assert!(matches!(
        WindowAggregate::new(&good, &empty, vec![], Arc::default()),
        Err(Cause { fault: Fault::User, .. })
    ));
    let slides = |size_ns| WindowSpec { time: TIME, size_ns, slide_ns: 1000, offset_ns: 0 };
    let of_row = |windows: i64| WindowAggregate::new(&good, &slides(windows * 1000), vec![], Arc::default());
    assert!(of_row(WINDOWS_OF_ROW_MAX).is_ok());
    let error = of_row(WINDOWS_OF_ROW_MAX + 1).err();
    assert!(
        matches!(&error, Some(Cause { fault: Fault::User, message, .. }) if message.contains("100001 hopping windows")),
        "{error:?}"
    );
    let no_time = WindowSpec { time: VALUE, size_ns: 1, slide_ns: 1, offset_ns: 0 };
    assert!(matches!(
        WindowAggregate::new(&good, &no_time, vec![], Arc::default()),
        Err(Cause { fault: Fault::Bug, .. })
    ));
    let no_column = AggregateSpec { keys: vec![99], ..good };
    assert!(matches!(TableAggregate::new(&no_column), Err(Cause { fault: Fault::Bug, .. })));
}

#[test]
fn times_at_the_ends_of_time_are_dropped_and_counted() {
    let window = WindowSpec { time: TIME, size_ns: 40, slide_ns: 20, offset_ns: 3 };
    let spec = spec(&[], 2);
    let late = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let mut operator = WindowAggregate::new(&spec, &window, vec![0], Arc::clone(&late)).unwrap();
    let mut output = Output::new(&[WindowAggregate::output_schema(&spec, &window).unwrap()]);
    let at = |time| Row { time: Some(time), ..rows(1)[0].clone() };
    let ends = batch(&[at(i64::MIN), at(i64::MAX), at(0), at(i64::MIN + 30)]);
    operator.rows(0, Batch::from_source(ends, vec![0; 4].into()).as_rows(), &mut output).unwrap();
    assert_eq!(late.load(std::sync::atomic::Ordering::Relaxed), 3);
}

#[test]
fn a_snapshot_of_another_query_or_a_damaged_one_is_refused() {
    let (one, other) = (spec(&[NUMBER], 0), spec(&[VALUE, NUMBER], 0));
    let mut table = TableAggregate::new(&one).unwrap();
    give(&mut table, TableAggregate::output_schema(&one).unwrap(), 5).unwrap();
    let mut writer = SnapshotWriter::default();
    table.snapshot(&mut writer);
    let bytes = writer.finish();
    let restored = TableAggregate::new(&other).unwrap().restore(&mut SnapshotReader::new(&bytes).unwrap());
    assert!(matches!(restored, Err(Cause { fault: Fault::User, .. })), "{restored:?}");
    let mut writer = SnapshotWriter::default();
    (0..40).for_each(|_| writer.u8(1));
    let bytes = writer.finish();
    let restored = TableAggregate::new(&one).unwrap().restore(&mut SnapshotReader::new(&bytes).unwrap());
    assert!(restored.is_err());
}
