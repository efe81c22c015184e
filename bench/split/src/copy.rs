//! The physical limit: a plain copy of the same bytes, column by column.

use std::hint::black_box;
use std::time::Instant;

use tidemill_engine::Batch;
use tidemill_engine::arrow::array::{cast::AsArray, types::UInt32Type};

/// Events per second that so many threads copy, each all of the batches `rounds` times.
pub fn rate(batches: &[Batch], threads: usize, rounds: usize) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| (0..rounds).for_each(|_| batches.iter().for_each(copy)));
        }
    });
    let events: usize = batches.iter().map(Batch::len).sum();
    (events * rounds * threads) as f64 / start.elapsed().as_secs_f64()
}

fn copy(batch: &Batch) {
    for column in batch.rows.columns() {
        black_box(column.as_primitive::<UInt32Type>().values().to_vec());
    }
}
