//! A user-defined stateful operator, called in SQL: alarms for values that stay above a limit.
//!
//! `cargo run --example own_table_operator [WORKERS]`: what it prints does not depend on the number of workers.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use tidemill_connect::formats::encode::TextFormat;
use tidemill_connect::standard_streams::StandardOutput;
use tidemill_engine::arrow::array::Array;
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::Int64Type;
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_engine::{Cause, Operator, Output, Rows, Sink, SnapshotReader, SnapshotWriter};
use tidemill_sql::{Arguments, BoundOperator, Planner, Reply, TableOperator, parse};

const SNAPSHOT_VERSION: u8 = 1;

/// One partition: of each sensor, how many readings in a row were above the limit, and their sum. A sorted map,
/// because the order of a hash map is not defined.
struct Alarms {
    above: i64,
    times: i64,
    sensors: BTreeMap<i64, (i64, i64)>,
}

impl Operator for Alarms {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let batch = rows.to_batch();
        let sensors = batch.column(0).as_primitive::<Int64Type>();
        let values = batch.column(1).as_primitive::<Int64Type>();
        for (row, position) in rows.positions().iter().enumerate() {
            if sensors.is_null(row) || values.is_null(row) {
                continue;
            }
            let (sensor, value) = (sensors.value(row), values.value(row));
            if value <= self.above {
                self.sensors.remove(&sensor);
                continue;
            }
            let (count, sum) = self.sensors.entry(sensor).or_default();
            (*count, *sum) = (*count + 1, sum.saturating_add(value));
            if *count == self.times {
                output.port(0).push(*position, (sensor, *count, *sum as f64 / *count as f64));
            }
        }
        Ok(())
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(SNAPSHOT_VERSION);
        writer.u32(self.sensors.len() as u32);
        for (sensor, (count, sum)) in &self.sensors {
            [*sensor, *count, *sum].into_iter().for_each(|number| writer.i64(number));
        }
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(SNAPSHOT_VERSION)?;
        for _ in 0..reader.u32()? {
            let (sensor, count, sum) = (reader.i64()?, reader.i64()?, reader.i64()?);
            self.sensors.insert(sensor, (count, sum));
        }
        Ok(())
    }
}

/// What SQL calls: checks inputs and arguments, and says what comes out.
struct AlarmsFunction;

impl TableOperator for AlarmsFunction {
    fn bind(&self, inputs: &[SchemaRef], arguments: &Arguments) -> Result<BoundOperator, Cause> {
        arguments.finish(&["above", "times"])?;
        let above = arguments.integer("above", i64::MIN..=i64::MAX)?;
        let above = above.ok_or_else(|| Cause::user("alarms() needs the limit, such as above => 80"))?;
        let times = arguments.integer("times", 1..=1_000_000)?.unwrap_or(1);
        let [input] = inputs else {
            return Err(Cause::user("alarms() takes one table: alarms(TABLE(readings), above => 80)"));
        };
        for (column, name) in ["sensor", "value"].into_iter().enumerate() {
            let fits = |field: &Field| field.name() == name && *field.data_type() == DataType::Int64;
            if !input.fields().get(column).is_some_and(|field| fits(field)) {
                return Err(Cause::user(
                    "alarms() needs sensor and value, both BIGINT: alarms((SELECT sensor, value ...))",
                ));
            }
        }
        let field = |name: &str, data_type| Field::new(name, data_type, true);
        let output = Schema::new(vec![
            field("sensor", DataType::Int64),
            field("readings", DataType::Int64),
            field("mean", DataType::Float64),
        ]);
        Ok(BoundOperator {
            output: Arc::new(output),
            // All readings of a sensor come to one partition, in the order of the stream.
            keys: vec![vec!["sensor".into()]],
            // No other sensor contributes to an alarm, so WHERE sensor = 2 may filter readings.
            carried: vec!["sensor".into()],
            factory: Arc::new(move |_| Box::new(Alarms { above, times, sensors: BTreeMap::new() })),
        })
    }
}

const QUERY: &str = "
    CREATE VIEW readings AS
    SELECT value % 4 AS sensor, (value * value) % 97 AS value
    FROM sequence(count => 400);

    SELECT sensor, readings, round(mean, 1) AS mean
    FROM alarms(TABLE(readings), above => 50, times => 4)";

fn main() -> Result<(), Box<dyn Error>> {
    let mut planner = Planner::new();
    planner.settings_mut().workers = std::env::args().nth(1).map_or(Ok(1), |workers| workers.parse())?;
    planner.register_operator("alarms", Arc::new(AlarmsFunction));
    println!("Sensors with 4 readings above 50 in a row, and the mean of these:");
    for statement in parse(QUERY, "query")? {
        let Reply::Query(query) = planner.execute(&statement)? else { continue };
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        for output in query.outputs() {
            sinks.push(Box::new(StandardOutput::of_process(&output.schema, &TextFormat::table())?));
        }
        query.open(sinks)?.start()?.wait()?;
    }
    Ok(())
}
