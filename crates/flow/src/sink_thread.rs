//! A sink's thread: merges a cycle's results into the defined order, prepares, and commits ranges.

use std::sync::Arc;

use crossbeam_channel::Receiver;
use tidemill_core::counters::Counter;
use tidemill_core::error::Cause;
use tidemill_core::sink::Arrivals;
use tidemill_core::{Batch, Cut, CycleOutput, Sink, SinkError};
use tidemill_split::merge_by_position;
use tidemill_split::order::Sorter;

use crate::panics::guard;
use crate::shared::{Failure, Shared};

/// The results of a cycle for a sink, as the workers wrote them.
pub(crate) struct CycleResults {
    pub cut: Arc<Cut>,
    pub arrivals: Arc<Arrivals>,
    pub streams: Vec<Vec<Batch>>,
    pub bytes: u64,
}

/// The most cycles that are committed together.
const CYCLES_PER_COMMIT: u64 = 64;

pub(crate) struct SinkThread {
    pub index: usize,
    pub name: String,
    pub sink: Box<dyn Sink>,
    pub results: Receiver<CycleResults>,
    pub shared: Arc<Shared>,
}

impl SinkThread {
    /// Runs until the query has ended or failed.
    pub fn run(mut self) {
        let mut next_cycle = 0;
        if let Err(cause) = guard(|| self.take_all(&mut next_cycle)) {
            let sink = self.name.clone();
            self.shared.fail(Failure::Sink(SinkError { sink, cycle: next_cycle, cause }));
        }
    }

    fn take_all(&mut self, next_cycle: &mut u64) -> Result<(), Cause> {
        let mut sorter = Sorter::default();
        while let Ok(first) = self.results.recv() {
            if self.shared.is_stopped() {
                return Ok(());
            }
            let from = first.cut.cycle;
            let mut last = from;
            let mut bytes = first.bytes;
            self.prepare(first, &mut sorter)?;
            while last - from + 1 < CYCLES_PER_COMMIT {
                let Ok(next) = self.results.try_recv() else { break };
                last = next.cut.cycle;
                bytes += next.bytes;
                self.prepare(next, &mut sorter)?;
            }
            let start_ns = self.shared.clock.now_ns();
            self.sink.commit(from..=last)?;
            self.shared.counters.add(Counter::CommitTime, self.shared.clock.now_ns() - start_ns);
            self.shared.counters.subtract(Counter::UncommittedBytes, bytes);
            *next_cycle = last + 1;
            self.shared.cycles_committed(self.index, last);
        }
        if self.shared.is_stopped() { Ok(()) } else { self.sink.finish() }
    }

    fn prepare(&mut self, results: CycleResults, sorter: &mut Sorter) -> Result<(), Cause> {
        let start_ns = self.shared.clock.now_ns();
        let positions_end = results.arrivals.events + 1;
        let streams = results.streams.iter().map(|s| merge_by_position(s, positions_end, sorter)).collect();
        let clock = Arc::clone(&self.shared.clock);
        let output = CycleOutput { cut: results.cut, streams, arrivals: results.arrivals, clock };
        self.sink.prepare(output)?;
        self.shared.counters.add(Counter::OutputTime, self.shared.clock.now_ns() - start_ns);
        Ok(())
    }
}
