//! Reports of cars on expressways, as in Linear Road: each car in turn, over and over.

use std::sync::Arc;

use tidemill_core::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use tidemill_core::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_store::{Retention, StoreConfig};

/// The length of an expressway, in feet, and of one of its segments.
pub const LENGTH: f64 = 528_000.0;
pub const SEGMENT: f64 = 5280.0;
const EXPRESSWAYS: u64 = 10;
/// The columns of a row.
pub const ROW_BYTES: usize = 6 * 8;

/// A report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    pub vid: i64,
    pub at: i64,
    pub x: f64,
    pub y: f64,
    pub speed: f64,
    pub lane: i64,
}

/// Makes reports. The time counts rows.
pub struct Traffic {
    cars: u64,
    next: u64,
    cycles: u64,
}

impl Traffic {
    pub fn new(cars: u64) -> Traffic {
        Traffic { cars, next: 0, cycles: 0 }
    }

    pub fn cars(&self) -> u64 {
        self.cars
    }

    /// The cycle of the rows that were made last.
    pub fn cycle(&self) -> u64 {
        self.cycles - 1
    }

    /// The report with this number.
    pub fn report(cars: u64, number: u64) -> Report {
        let (turn, car) = (number / cars, mixed(number % cars) % cars);
        let speed = 20.0 + (mixed(car) % 80) as f64;
        let start = (mixed(car + 7) % 528_000) as f64;
        let y = (car % EXPRESSWAYS) as f64 * 1000.0 + (car % 4) as f64 * 12.0;
        let x = (start + turn as f64 * speed * 4.4) % LENGTH;
        Report { vid: car as i64, at: number as i64, x, y, speed, lane: (car % 4) as i64 }
    }

    /// The rows of the next cycle.
    pub fn rows(&mut self, count: usize) -> RecordBatch {
        let first = self.next;
        self.next += count as u64;
        self.cycles += 1;
        Traffic::reports(self.cars, &Vec::from_iter(first..self.next))
    }

    /// The reports with these numbers.
    pub fn reports(cars: u64, numbers: &[u64]) -> RecordBatch {
        let reports: Vec<Report> = numbers.iter().map(|number| Traffic::report(cars, *number)).collect();
        let integers = |value: fn(&Report) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(reports.iter().map(value)))
        };
        let floats = |value: fn(&Report) -> f64| -> ArrayRef {
            Arc::new(Float64Array::from_iter_values(reports.iter().map(value)))
        };
        let columns = vec![
            integers(|report| report.vid),
            integers(|report| report.at),
            floats(|report| report.x),
            floats(|report| report.y),
            floats(|report| report.speed),
            integers(|report| report.lane),
        ];
        RecordBatch::try_new(schema(), columns).expect("the columns of the schema")
    }
}

/// SplitMix64: the runs repeat.
pub fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

fn schema() -> SchemaRef {
    let integer = |name: &str| Field::new(name, DataType::Int64, false);
    let float = |name: &str| Field::new(name, DataType::Float64, false);
    Arc::new(Schema::new(vec![
        integer("vid"),
        integer("at"),
        float("x"),
        float("y"),
        float("speed"),
        integer("lane"),
    ]))
}

/// A store of the last reports in this many bytes.
pub fn config(bytes_max: usize) -> StoreConfig {
    let retention = Retention { bytes_max, ..Retention::default() };
    StoreConfig {
        key: Some(vec![0]),
        time: Some(1),
        point: Some([2, 3]),
        retention,
        ..StoreConfig::new(&schema())
    }
}
