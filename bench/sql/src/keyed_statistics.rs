//! Keyed statistics in SQL: count, minimum, maximum, mean and variance of 100,000 keys, emitted every million events.

use std::sync::Arc;

use anyhow::Context;
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::{Float64Type, Int64Type};
use tidemill_engine::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};

use crate::{Options, memory, query};

const SCRIPT: &str = "
    SET cycle_fixed = true;
    SET cycle_events = 1000000;
    SELECT key, count(*), min(value), max(value), avg(value), var_pop(value) FROM memory() GROUP BY key";

const KEYS: u64 = 100_000;
const ROWS: u64 = 8192;

pub(crate) fn measure(options: &Options) -> anyhow::Result<()> {
    let events = options.million_events * 1_000_000;
    let batches: Vec<RecordBatch> = (0..events)
        .step_by(ROWS as usize)
        .map(|first| batch(first, ROWS.min(events - first)))
        .collect::<anyhow::Result<_>>()?;
    let batches = Arc::new(batches);
    let reading = memory::reading_time(&batches, &[0, 1]);
    let expected = expected(&batches);
    query::measure(&batches, None, SCRIPT, options, reading, |rows| {
        let keys = rows.column(0).as_primitive::<Int64Type>().values();
        let counts = rows.column(1).as_primitive::<Int64Type>().values();
        let means = rows.column(4).as_primitive::<Float64Type>().values();
        let mut last = vec![(0, 0.0); KEYS as usize];
        for row in 0..rows.num_rows() {
            last[keys[row] as usize] = (counts[row], means[row]);
        }
        for (key, ((count, sum), (given, mean))) in expected.iter().zip(&last).enumerate() {
            anyhow::ensure!(count == given, "key {key} has {given} rows, {count} were expected");
            let close = (sum / *count as f64 - mean).abs() < 1e-9;
            anyhow::ensure!(*count == 0 || close, "key {key} has a wrong mean");
        }
        Ok(())
    })
}

/// A pseudo-random number of an event.
fn random(event: u64) -> u64 {
    let mut value = event.wrapping_add(0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value ^= value >> 31;
    value.wrapping_mul(0x94D0_49BB_1331_11EB)
}

fn batch(first: u64, rows: u64) -> anyhow::Result<RecordBatch> {
    let keys = (first..first + rows).map(|event| ((random(event) >> 20) % KEYS) as i64);
    let values = (first..first + rows).map(|event| (random(event) >> 40) as f64 / 1e6);
    let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(keys));
    let values: ArrayRef = Arc::new(Float64Array::from_iter_values(values));
    RecordBatch::try_from_iter([("key", keys), ("value", values)]).context("columns of equal length")
}

/// Count and sum of each key.
fn expected(batches: &[RecordBatch]) -> Vec<(i64, f64)> {
    let mut all = vec![(0, 0.0); KEYS as usize];
    for batch in batches {
        let keys = batch.column(0).as_primitive::<Int64Type>().values();
        let values = batch.column(1).as_primitive::<Float64Type>().values();
        for (key, value) in keys.iter().zip(values) {
            all[*key as usize].0 += 1;
            all[*key as usize].1 += value;
        }
    }
    all
}
