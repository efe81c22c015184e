//! What a sink got in each cycle.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use tidemill_core::arrow::array::RecordBatch;
use tidemill_core::error::Cause;
use tidemill_core::{Cut, CycleOutput, Sink};

/// How many cycles wait for whoever reads them.
const CYCLES_WAITING_MAX: usize = 4;

/// A cycle of the past: its cut, and what each sink got.
#[derive(Clone, Debug)]
pub struct PastCycle {
    /// Where the cycle ended, with the positions of the query's own sources.
    pub cut: Arc<Cut>,
    /// For each sink, in the plan's order, its rows in the order in which it got them.
    pub outputs: Vec<Vec<RecordBatch>>,
}

/// The rows of one sink in one cycle.
pub(super) type SinkCycle = (Arc<Cut>, Vec<RecordBatch>);

/// Hands on what it gets, cycle by cycle.
pub(super) struct PastSink {
    cycles: Sender<SinkCycle>,
}

impl PastSink {
    /// A sink, and where its cycles come out.
    pub fn new() -> (PastSink, Receiver<SinkCycle>) {
        let (cycles, received) = bounded(CYCLES_WAITING_MAX);
        (PastSink { cycles }, received)
    }
}

impl Sink for PastSink {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let batches = output.streams.into_iter().flatten().filter(|batch| !batch.is_empty());
        // If nobody reads any more, the rows are not wanted.
        let _ = self.cycles.send((output.cut, batches.map(|batch| batch.rows).collect()));
        Ok(())
    }

    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        Ok(())
    }
}
