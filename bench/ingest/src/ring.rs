//! Stage: handing batches from one thread to another through a bounded queue, as the intake does.

use std::time::Instant;

use anyhow::{Result, ensure};
use crossbeam_channel::bounded;

use crate::{points, report};

/// As the engine's queue behind the journal.
const QUEUE_BATCHES: usize = 64;
const BATCHES: usize = 200_000;

pub fn measure() -> Result<()> {
    for rows in [1, 100, 8192] {
        let batch = points::batches(0, rows, 1000)?.remove(0);
        let (count, time) = report::best_of(3, || {
            let (sender, receiver) = bounded(QUEUE_BATCHES);
            let start = Instant::now();
            let taken = std::thread::spawn(move || {
                receiver.iter().map(|batch: arrow_array::RecordBatch| batch.num_rows() as u64).sum::<u64>()
            });
            for _ in 0..BATCHES {
                sender.send(batch.clone())?;
            }
            drop(sender);
            let count = taken.join().map_err(|_| anyhow::anyhow!("the taker panicked"))?;
            Ok((count, start.elapsed()))
        })?;
        ensure!(count == rows * BATCHES as u64, "{count} messages came");
        let bytes = count * points::text(0, 1, 1000).len() as u64;
        report::speed(&format!("ring, {rows} per batch"), count, bytes, time, "by reference");
    }
    Ok(())
}
