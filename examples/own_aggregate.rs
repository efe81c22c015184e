//! A user-defined aggregate function: the geometric mean, over windows and like any other aggregate.
//!
//! `cargo run --example own_aggregate [WORKERS]`: what it prints does not depend on the number of workers.

use std::error::Error;
use std::sync::Arc;

use tidemill_connect::formats::encode::TextFormat;
use tidemill_connect::standard_streams::StandardOutput;
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::{Float64Type, Int64Type};
use tidemill_engine::arrow::array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array};
use tidemill_engine::arrow::schema::DataType;
use tidemill_engine::{Cause, Sink};
use tidemill_sql::{Accumulator, Aggregate, Planner, Reply, parse};

/// The n-th root of the product of n numbers: the mean of growth rates.
#[derive(Debug)]
struct GeometricMean;

impl Aggregate for GeometricMean {
    fn name(&self) -> &str {
        "geometric_mean"
    }

    fn result_type(&self) -> DataType {
        DataType::Float64
    }

    /// What goes into snapshots, and from the panes of a hopping window into the window.
    fn partial_types(&self) -> Vec<DataType> {
        vec![DataType::Int64, DataType::Float64]
    }

    /// Sums of floating-point numbers depend on their order, so rows must not be combined before the split.
    fn is_exact(&self) -> bool {
        false
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(Logarithms::default())
    }
}

/// Number and sum of the logarithms, by group: the state of all groups in two arrays.
#[derive(Default)]
struct Logarithms {
    counts: Vec<i64>,
    sums: Vec<f64>,
}

impl Logarithms {
    fn add(&mut self, group: u32, count: i64, sum: f64) {
        self.counts[group as usize] += count;
        self.sums[group as usize] += sum;
    }
}

impl Accumulator for Logarithms {
    fn resize(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
        self.sums.resize(groups, 0.0);
    }

    fn update(
        &mut self,
        groups: &[u32],
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<(), Cause> {
        let values = arguments[0].as_primitive::<Float64Type>();
        for (row, group) in groups.iter().enumerate() {
            let counts = filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
            if counts && values.is_valid(row) {
                self.add(*group, 1, values.value(row).ln());
            }
        }
        Ok(())
    }

    fn merge(&mut self, groups: &[u32], partials: &[ArrayRef]) -> Result<(), Cause> {
        let counts = partials[0].as_primitive::<Int64Type>().values();
        let sums = partials[1].as_primitive::<Float64Type>().values();
        for ((group, count), sum) in groups.iter().zip(counts).zip(sums) {
            self.add(*group, *count, *sum);
        }
        Ok(())
    }

    fn partial(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, Cause> {
        let counts = groups.iter().map(|group| self.counts[*group as usize]);
        let sums = groups.iter().map(|group| self.sums[*group as usize]);
        Ok(vec![
            Arc::new(Int64Array::from_iter_values(counts)),
            Arc::new(Float64Array::from_iter_values(sums)),
        ])
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef, Cause> {
        let mean = |group: &u32| {
            let (count, sum) = (self.counts[*group as usize], self.sums[*group as usize]);
            (count > 0).then(|| (sum / count as f64).exp())
        };
        Ok(Arc::new(groups.iter().map(mean).collect::<Float64Array>()))
    }

    fn clear(&mut self) {
        self.counts.clear();
        self.sums.clear();
    }

    fn bytes(&self) -> usize {
        self.counts.capacity() * size_of::<i64>() + self.sums.capacity() * size_of::<f64>()
    }
}

const QUERY: &str = "
    CREATE VIEW growth AS
    SELECT event_time, value % 3 AS product, 1.0 + (value * value % (9 + 2 * (value % 3))) / 100.0 AS rate
    FROM sequence(count => 40000);

    SELECT window_start, product, count(*) AS months, round(geometric_mean(rate), 6) AS mean_growth
    FROM hop(TABLE(growth), event_time, INTERVAL '10 milliseconds', INTERVAL '20 milliseconds')
    GROUP BY window_start, window_end, product";

fn main() -> Result<(), Box<dyn Error>> {
    let mut planner = Planner::new();
    planner.settings_mut().workers = std::env::args().nth(1).map_or(Ok(1), |workers| workers.parse())?;
    planner.register_aggregate("geometric_mean", vec![DataType::Float64], Arc::new(GeometricMean));
    println!("Growth of three products in windows of 20 ms, every 10 ms:");
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
