//! The query (count, minimum, maximum, mean and variance of `field_name_0` per sensor) and its expected result.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use tidemill_engine::{Cause, OperatorPlan, Plan, route_by_hash};
use tidemill_operators::aggregate::{Average, Count, Extreme, Spread, Variance};
use tidemill_operators::{AggregateCall, AggregateSpec, TableAggregate};

use crate::points;

pub const PARTITIONS: u32 = 8;
/// The column of the key among those of the points.
const SENSOR: usize = 2;
const COLUMNS: [&str; 2] = ["sensor", "field_name_0"];

pub fn input() -> SchemaRef {
    let columns =
        [Field::new(COLUMNS[0], DataType::Utf8, true), Field::new(COLUMNS[1], DataType::Float64, true)];
    Arc::new(Schema::new(columns.to_vec()))
}

fn spec() -> Result<AggregateSpec, Cause> {
    let float = DataType::Float64;
    let call = |function, arguments| AggregateCall { function, arguments, filter: None };
    Ok(AggregateSpec {
        keys: vec![0],
        calls: vec![
            call(Arc::new(Count::rows()), vec![]),
            call(Arc::new(Extreme::minimum(&float)?), vec![1]),
            call(Arc::new(Extreme::maximum(&float)?), vec![1]),
            call(Arc::new(Average::new(&float)?), vec![1]),
            call(Arc::new(Variance::new(Spread::PopulationVariance, &float)?), vec![1]),
        ],
        names: ["sensor", "count", "least", "most", "mean", "variance"].map(str::to_owned).to_vec(),
        input: input(),
        partial_input: false,
        groups_max: 10_000_000,
    })
}

pub fn operator() -> Result<TableAggregate, Cause> {
    TableAggregate::new(&spec()?)
}

pub fn output() -> Result<SchemaRef, Cause> {
    TableAggregate::output_schema(&spec()?)
}

/// Points -> statistics -> sink.
pub fn plan() -> Result<Plan, Cause> {
    operator()?;
    let mut plan = Plan::new("ingest");
    let points = plan.source("points", [points::schema(false)]);
    // That it can be made was just seen.
    let operator = OperatorPlan::new("statistics", PARTITIONS, |_| Box::new(operator().expect("as before")))
        .input(points[0], &COLUMNS, route_by_hash(vec![SENSOR], PARTITIONS))
        .output(output()?);
    let rows = plan.operator(operator);
    plan.sink("rows", rows);
    Ok(plan)
}

/// What a sensor's row must be after the messages up to `end`.
#[derive(Debug, Default)]
pub struct Expected {
    count: i64,
    sum: f64,
    /// Squared distances from the mean, summed.
    squares: f64,
    least: f64,
    most: f64,
}

impl Expected {
    fn mean(&self) -> f64 {
        self.sum / self.count as f64
    }
}

/// By sensor, after this many messages.
pub fn expected(messages: u64, sensors: u64) -> Vec<Expected> {
    let mut all: Vec<Expected> = Vec::new();
    all.resize_with(sensors as usize, || Expected { least: f64::MAX, most: f64::MIN, ..Expected::default() });
    for message in 0..messages {
        let (sensor, value) = (&mut all[points::sensor(message, sensors) as usize], points::value(message));
        sensor.count += 1;
        sensor.sum += value;
        (sensor.least, sensor.most) = (sensor.least.min(value), sensor.most.max(value));
    }
    for message in 0..messages {
        let sensor = &mut all[points::sensor(message, sensors) as usize];
        sensor.squares += (points::value(message) - sensor.mean()).powi(2);
    }
    all
}

/// Compares rows with what is expected: the last ones of each sensor.
pub fn check(rows: &[RecordBatch], expected: &[Expected]) -> anyhow::Result<()> {
    let mut last = vec![None; expected.len()];
    for (index, batch) in rows.iter().enumerate() {
        let sensors = batch.column(0).as_string::<i32>();
        for row in 0..batch.num_rows() {
            let sensor: usize = sensors.value(row).trim_start_matches("sensor-").parse()?;
            last[sensor] = Some((index, row));
        }
    }
    for (sensor, (place, expected)) in last.iter().zip(expected).enumerate() {
        let Some((index, row)) = place else {
            anyhow::ensure!(expected.count == 0, "sensor {sensor} is missing");
            continue;
        };
        let float = |column: usize| rows[*index].column(column).as_primitive::<Float64Type>().value(*row);
        let count = rows[*index].column(1).as_primitive::<Int64Type>().value(*row);
        let variance = expected.squares / expected.count as f64;
        let is_near = |found: f64, due: f64| (found - due).abs() < 1e-9 * due.abs().max(1.0);
        let found = (count, float(2), float(3));
        anyhow::ensure!(
            found == (expected.count, expected.least, expected.most)
                && is_near(float(4), expected.mean())
                && is_near(float(5), variance),
            "sensor {sensor}: {found:?}, mean {}, variance {} where {expected:?} is due",
            float(4),
            float(5)
        );
    }
    Ok(())
}
