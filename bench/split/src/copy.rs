//! The physical limit: a plain copy of the same bytes, column by column.

use std::collections::VecDeque;

use tidemill_engine::arrow::array::{cast::AsArray, types::UInt32Type};
use tidemill_engine::{Batch, Clock, ThreadTime};

/// Processor time per event: this many threads copy, each all of the batches `rounds` times, and keep the last `kept`
/// copies, as a split must until its rows are taken. If none are kept, each copy goes where the last one was, in the
/// first-level cache.
pub fn measure(batches: &[Batch], threads: usize, rounds: usize, kept: usize) -> f64 {
    let copy_all = || {
        let start_ns = ThreadTime.now_ns();
        let mut copies = VecDeque::with_capacity(kept + 1);
        for batch in (0..rounds).flat_map(|_| batches) {
            copies.push_back(copy(batch, kept > 0));
            if copies.len() > kept {
                copies.pop_front();
            }
        }
        ThreadTime.now_ns() - start_ns
    };
    let cpu_ns: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(copy_all)).collect();
        threads.into_iter().map(|thread| thread.join().expect("copying does not panic")).sum()
    });
    let events = (batches.iter().map(Batch::len).sum::<usize>() * rounds * threads) as f64;
    cpu_ns as f64 / events
}

/// The copied columns, if they are kept.
fn copy(batch: &Batch, keep: bool) -> Vec<Vec<u32>> {
    let mut columns = Vec::new();
    for column in batch.rows.columns() {
        let copied = std::hint::black_box(column.as_primitive::<UInt32Type>().values().to_vec());
        if keep {
            columns.push(copied);
        }
    }
    columns
}
