//! A sink that calls a function of the program.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use arrow_array::RecordBatch;
use tidemill_engine::{Cause, CycleOutput, Sink};

/// Calls a function with the rows of each committed cycle.
pub(crate) struct Callback<F> {
    function: F,
    /// Cycles that are not committed yet.
    prepared: VecDeque<(u64, RecordBatch)>,
}

impl<F> Callback<F> {
    pub fn new(function: F) -> Self {
        Callback { function, prepared: VecDeque::new() }
    }
}

impl<F: FnMut(&RecordBatch) -> Result<(), Cause> + Send> Sink for Callback<F> {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let cycle = output.cut.cycle;
        self.prepared.extend(output.streams.into_iter().flatten().map(|batch| (cycle, batch.rows)));
        Ok(())
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        while let Some((_, rows)) = self.prepared.pop_front_if(|(cycle, _)| *cycle <= *cycles.end()) {
            (self.function)(&rows)?;
        }
        Ok(())
    }
}
