//! When a result is computed twice, to see whether it depends on more than its arguments.

use std::sync::atomic::{AtomicU32, Ordering};

/// The first batches are all looked at, and then one of this many.
const FIRST_BATCHES: u32 = 16;

/// Says of which batches one row is computed again, in an instance of its own.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    batches: AtomicU32,
}

impl Repeats {
    /// Whether a row of the next batch is to be computed again.
    pub fn is_due(&self) -> bool {
        let batch = self.batches.fetch_add(1, Ordering::Relaxed);
        batch < FIRST_BATCHES || batch.is_multiple_of(FIRST_BATCHES)
    }
}
