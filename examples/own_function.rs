//! A user-defined scalar function, used in SQL like any other.
//!
//! `cargo run --example own_function`

use std::error::Error;
use std::sync::Arc;

use tidemill_connect::formats::encode::TextFormat;
use tidemill_connect::standard_streams::StandardOutput;
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::Float64Type;
use tidemill_engine::arrow::array::{ArrayRef, Float64Array};
use tidemill_engine::arrow::schema::DataType;
use tidemill_engine::{Cause, Sink};
use tidemill_sql::{Planner, Reply, parse};

/// Whole columns in, one column out, NULL for NULL. The same arguments must always give the same result: no clock, no
/// random numbers, no memory of earlier rows.
fn wind_chill(arguments: &[ArrayRef]) -> Result<ArrayRef, Cause> {
    let [temperatures, speeds] = arguments else {
        return Err(Cause::bug("wind_chill was registered with two arguments"));
    };
    let temperatures = temperatures.as_primitive::<Float64Type>().iter();
    let speeds = speeds.as_primitive::<Float64Type>().iter();
    let felt = temperatures.zip(speeds).map(|(temperature, speed)| Some(felt_celsius(temperature?, speed?)));
    Ok(Arc::new(felt.collect::<Float64Array>()))
}

/// How cold air of `celsius` feels in wind; defined for wind from 4.8 km/h and at most 10 degrees.
fn felt_celsius(celsius: f64, wind_kmh: f64) -> f64 {
    if celsius > 10.0 || wind_kmh < 4.8 {
        return celsius;
    }
    let wind = wind_kmh.powf(0.16);
    13.12 + 0.6215 * celsius - 11.37 * wind + 0.3965 * celsius * wind
}

const QUERY: &str = "
    CREATE VIEW weather AS
    SELECT event_time, 5.0 - value % 20 AS celsius, 10.0 * (value % 7) AS wind_kmh
    FROM sequence(count => 12, rate => 1000000);

    SELECT celsius, wind_kmh, round(wind_chill(celsius, wind_kmh), 1) AS felt
    FROM weather
    WHERE wind_chill(celsius, wind_kmh) < 0";

fn main() -> Result<(), Box<dyn Error>> {
    let mut planner = Planner::new();
    planner.register_function(
        "wind_chill",
        vec![DataType::Float64, DataType::Float64],
        DataType::Float64,
        wind_chill,
    );
    println!("When it feels colder than 0 degrees:");
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
