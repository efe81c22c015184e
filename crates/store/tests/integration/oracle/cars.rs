//! Random rows, and their columns.

use std::sync::Arc;

use tidemill_core::arrow::array::cast::AsArray;
use tidemill_core::arrow::array::types::{Float64Type, Int64Type};
use tidemill_core::arrow::array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use tidemill_core::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_core::changes::weight_field;

#[derive(Clone, Debug, PartialEq)]
pub struct Car {
    pub vid: Option<i64>,
    pub time: Option<i64>,
    pub x: Option<f64>,
    pub y: Option<f64>,
    pub name: Option<String>,
    pub number: i64,
}

/// SplitMix64: the stores that earlier versions have written (`format_1`) hold what comes of its numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn coordinate(&mut self) -> f64 {
        match self.below(40) {
            0 => f64::INFINITY,
            1 => -0.0,
            2 => 1e200,
            _ => self.below(100) as f64 / 2.0,
        }
    }

    pub fn car(&mut self, now: i64) -> Car {
        let mut some = |value: i64| (self.below(30) > 0).then_some(value);
        let (vid, time) = (some(0).map(|_| ()), some(0).map(|_| ()));
        Car {
            vid: vid.map(|()| self.below(25) as i64 - 3),
            time: time.map(|()| now - self.below(30) as i64),
            x: (self.below(30) > 0).then(|| self.coordinate()),
            y: (self.below(30) > 0).then(|| self.coordinate()),
            name: (self.below(30) > 0).then(|| format!("car {}", self.below(12))),
            number: 0,
        }
    }
}

pub fn schema() -> SchemaRef {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    Arc::new(Schema::new(vec![
        field("vid", DataType::Int64),
        field("time", DataType::Int64),
        field("x", DataType::Float64),
        field("y", DataType::Float64),
        field("name", DataType::Utf8),
        field("number", DataType::Int64),
    ]))
}

pub fn batch(cars: &[Car]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(cars.iter().map(|car| car.vid).collect::<Int64Array>()),
        Arc::new(cars.iter().map(|car| car.time).collect::<Int64Array>()),
        Arc::new(cars.iter().map(|car| car.x).collect::<Float64Array>()),
        Arc::new(cars.iter().map(|car| car.y).collect::<Float64Array>()),
        Arc::new(cars.iter().map(|car| car.name.clone()).collect::<StringArray>()),
        Arc::new(cars.iter().map(|car| Some(car.number)).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// Changes of cars, each with its weight.
pub fn weighted(changes: &[(Car, i64)]) -> RecordBatch {
    let cars: Vec<Car> = changes.iter().map(|(car, _)| car.clone()).collect();
    let weights: Int64Array = changes.iter().map(|(_, weight)| Some(*weight)).collect();
    let columns = batch(&cars).columns().iter().cloned().chain([Arc::new(weights) as ArrayRef]).collect();
    let mut fields = schema().fields().to_vec();
    fields.push(Arc::new(weight_field()));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

pub fn cars_of(batches: &[RecordBatch]) -> Vec<Car> {
    let mut cars = Vec::new();
    for rows in batches {
        let (vids, times) =
            (rows.column(0).as_primitive::<Int64Type>(), rows.column(1).as_primitive::<Int64Type>());
        let (x, y) =
            (rows.column(2).as_primitive::<Float64Type>(), rows.column(3).as_primitive::<Float64Type>());
        let (names, numbers) =
            (rows.column(4).as_string::<i32>(), rows.column(5).as_primitive::<Int64Type>());
        for row in 0..rows.num_rows() {
            cars.push(Car {
                vid: vids.is_valid(row).then(|| vids.value(row)),
                time: times.is_valid(row).then(|| times.value(row)),
                x: x.is_valid(row).then(|| x.value(row)),
                y: y.is_valid(row).then(|| y.value(row)),
                name: names.is_valid(row).then(|| names.value(row).to_owned()),
                number: numbers.value(row),
            });
        }
    }
    cars
}

/// The columns of a car's key, with one value each.
pub fn key_of(car: &Car, key: &[usize]) -> Vec<ArrayRef> {
    let rows = batch(std::slice::from_ref(car));
    key.iter().map(|column| rows.column(*column).clone()).collect()
}
