//! The source `linear_road_reports` against the text that the generator's events are written as.

use std::time::Duration;

use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::{Int16Type, Int32Type, Int64Type, TimestampNanosecondType};
use tidemill_engine::arrow::array::{Array, RecordBatch};
use tidemill_engine::arrow::schema::DataType;
use tidemill_engine::{Cause, Fault, Polled, Source};
use tidemill_linear_road::generator::{Generator, GeneratorConfig};
use tidemill_linear_road::source::LinearRoadReports;
use tidemill_linear_road::text_write::write_event;

fn config() -> GeneratorConfig {
    GeneratorConfig { expressways: 2, minutes: 4, seed: 7, ..GeneratorConfig::default() }
}

fn integer(column: &dyn Array, row: usize) -> i64 {
    match column.data_type() {
        DataType::Int16 => column.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row),
        other => panic!("{other}"),
    }
}

/// The rows without their event times, as lines of text; checks the event times.
fn write_rows(rows: &RecordBatch, text: &mut String) {
    let times = rows.column(15).as_primitive::<TimestampNanosecondType>();
    for row in 0..rows.num_rows() {
        let fields: Vec<_> = (0..15).map(|column| integer(rows.column(column), row).to_string()).collect();
        assert_eq!(times.value(row), fields[1].parse::<i64>().unwrap() * 1_000_000_000);
        text.push_str(&fields.join(","));
        text.push('\n');
    }
}

#[test]
fn the_rows_are_the_generators_events() {
    let mut expected = Vec::new();
    let (mut generator, mut events) = (Generator::new(config()).unwrap(), Vec::new());
    while generator.next_second(&mut events) {
        events.drain(..).for_each(|event| write_event(&event, &mut expected));
    }
    let mut source = LinearRoadReports::new(config()).unwrap();
    let (mut found, mut sizes) = (String::new(), Vec::new());
    while let Polled::Rows(rows) = source.poll(Duration::ZERO).unwrap() {
        assert_eq!(rows.schema(), source.schema());
        sizes.push(rows.num_rows());
        write_rows(&rows, &mut found);
    }
    assert!(found.as_bytes() == expected, "the texts differ");
    let (last, full) = sizes.split_last().unwrap();
    assert!(full.iter().all(|rows| *rows == 8192) && *last <= 8192, "{sizes:?}");
    assert_eq!(source.progress().done as usize, sizes.iter().sum::<usize>());
    assert!(matches!(source.poll(Duration::ZERO), Ok(Polled::Ended)) && source.is_finite());
    for kind in ["\n0,", "\n2,", "\n3,", "\n4,"] {
        assert!(found.contains(kind), "type {kind} occurs");
    }
}

#[test]
fn traffic_that_does_not_exist_is_refused() {
    let nothing = GeneratorConfig { expressways: 0, ..config() };
    assert!(matches!(LinearRoadReports::new(nothing), Err(Cause { fault: Fault::User, .. })));
}
