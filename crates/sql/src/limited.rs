//! LIMIT at the end of a query: a sink that stops the query when it has enough rows.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidemill_engine::{Cause, CycleOutput, FaultLog, Sink};

/// Passes the first rows on.
pub(crate) struct Limited {
    sink: Box<dyn Sink>,
    rows_left: u64,
    reached: Arc<AtomicBool>,
}

impl Limited {
    /// Passes on this many rows, then reports that no more are wanted.
    pub fn new(sink: Box<dyn Sink>, rows: u64, reached: Arc<AtomicBool>) -> Self {
        Limited { sink, rows_left: rows, reached }
    }
}

impl Sink for Limited {
    fn prepare(&mut self, mut output: CycleOutput) -> Result<(), Cause> {
        for batch in output.streams.iter_mut().flatten() {
            let rows = (batch.len() as u64).min(self.rows_left);
            self.rows_left -= rows;
            *batch = batch.slice(0, rows as usize);
        }
        self.sink.prepare(output)
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        self.sink.commit(cycles)?;
        if self.rows_left == 0 {
            self.reached.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn refused(&self) -> FaultLog {
        self.sink.refused()
    }

    fn finish(&mut self) -> Result<(), Cause> {
        self.sink.finish()
    }
}
