//! Stages: staging statistics in memory, and flushing them, without the engine around them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use arrow_array::RecordBatch;
use tidemill_core::{Batch, Cut, Operator, Output};

use crate::{points, report, statistics};

const ROWS: usize = 8192;

/// Key and value of messages, as they come out of the split.
fn rows(first: u64, sensors: u64) -> Result<RecordBatch> {
    let messages = first..first + ROWS as u64;
    let keys = messages.clone().map(|message| format!("sensor-{:07}", points::sensor(message, sensors)));
    let keys = arrow_array::StringArray::from_iter_values(keys);
    let values = arrow_array::Float64Array::from_iter_values(messages.map(points::value));
    Ok(RecordBatch::try_new(
        statistics::input(),
        vec![std::sync::Arc::new(keys) as _, std::sync::Arc::new(values) as _],
    )?)
}

pub fn measure(sensors: u64) -> Result<()> {
    let batches = sensors.max(2_000_000).div_ceil(ROWS as u64);
    let positions: Vec<u32> = (0..ROWS as u32).collect();
    let mut operator = statistics::operator()?;
    let mut output = Output::new(&[statistics::output()?]);
    let (mut first_time, mut time) = (Duration::ZERO, Duration::ZERO);
    for round in 0..2 {
        for batch in 0..batches {
            let rows = rows((round * batches + batch) * ROWS as u64, sensors)?;
            let batch = Batch::from_source(rows, positions.clone().into());
            let start = Instant::now();
            operator.rows(0, batch.as_rows(), &mut output)?;
            time += start.elapsed();
        }
        if round == 0 {
            (first_time, time) = (time, Duration::ZERO);
        }
    }
    let messages = batches * ROWS as u64;
    let bytes = messages * points::text(0, 1, sensors).len() as u64;
    let new = messages as f64 / first_time.as_secs_f64() / 1e6;
    report::speed(
        &format!("staging, {sensors} keys"),
        messages,
        bytes,
        time,
        &format!("with new keys among them {new:.2} M/s"),
    );

    let start = Instant::now();
    operator.end_of_cycle(&Cut::first(), &mut output)?;
    let flushed = output.finish(0).context("nothing was flushed")?.rows;
    let time = start.elapsed();
    let flushed_bytes = flushed.get_array_memory_size() as u64;
    report::speed(
        &format!("flush, {sensors} keys"),
        flushed.num_rows() as u64,
        flushed_bytes,
        time,
        "rows of one cycle, to columns",
    );
    ensure!(flushed.num_rows() as u64 == sensors, "{} rows of {sensors}", flushed.num_rows());
    statistics::check(&[flushed], &statistics::expected(2 * messages, sensors))
}
