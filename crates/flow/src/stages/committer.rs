//! Processes a sink's results: merges them into the defined order, prepares them, and commits ranges of them. On the
//! sink's own thread, or on a worker if the sink never blocks.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use tidemill_core::counters::Counter;
use tidemill_core::error::Cause;
use tidemill_core::sink::Arrivals;
use tidemill_core::{Batch, CommitGuard, Cut, CycleOutput, Guarantee, Sink, SinkError};
use tidemill_realtime::Role;
use tidemill_split::merge_by_position;
use tidemill_split::order::Sorter;
use tracing::debug;

use crate::error::Failure;
use crate::intake::resume::SinkProgress;
use crate::panics::{guard, guard_size};
use crate::run_state::RunState;
use crate::run_state::rest::QUIET;

/// The results of a cycle for a sink, as the workers wrote them.
pub(crate) struct CycleResults {
    pub cut: Arc<Cut>,
    pub arrivals: Arc<Arrivals>,
    pub streams: Vec<Vec<Batch>>,
    pub bytes: u64,
}

/// The most cycles that are committed together.
const CYCLES_PER_COMMIT: u64 = 64;
/// A commit with this many bytes of results takes no further cycle.
const COMMIT_BYTES: u64 = 16 << 20;

/// A sink, and how far it is.
pub(crate) struct Committer {
    index: usize,
    name: String,
    sink: Box<dyn Sink>,
    run_state: Arc<RunState>,
    sorter: Sorter,
    progress: SinkProgress,
    guard: Option<Arc<dyn CommitGuard>>,
}

impl Committer {
    pub fn new(index: usize, name: String, sink: Box<dyn Sink>, run_state: Arc<RunState>) -> Self {
        let first = run_state.first_cycle;
        let (sorter, progress, guard) = (Sorter::default(), SinkProgress::new(first, first), None);
        Committer { index, name, sink, run_state, sorter, progress, guard }
    }

    /// For a query that resumes: the sink has the cycles before `first_new`, and commits only when the guard permits
    /// it.
    pub fn resumed(self, first_new: u64, guard: Option<Arc<dyn CommitGuard>>) -> Self {
        let progress = SinkProgress::new(self.run_state.first_cycle, first_new);
        Committer { progress, guard, ..self }
    }

    /// A sink's thread: runs until the query has ended or failed.
    pub fn run(mut self, results: &Receiver<CycleResults>) {
        match self.run_state.join_pool(Role::Receiver) {
            Ok(_member) => {
                self.run_state.costs.add_this_thread();
                let result = guard(|| self.take_all(results));
                self.report(result);
            }
            Err(failure) => self.run_state.fail(failure),
        }
    }

    /// Processes one cycle of a sink that never blocks, and finishes after the last.
    pub fn take_one(&mut self, results: CycleResults) {
        let (cut, bytes) = (Arc::clone(&results.cut), results.bytes);
        let result = guard(|| {
            self.prepare(results)?;
            self.commit(&cut, bytes)?;
            if cut.last { self.sink.finish() } else { Ok(()) }
        });
        self.report(result);
    }

    fn report(&self, result: Result<(), Cause>) {
        if let Err(cause) = result {
            let (sink, cycle) = (self.name.clone(), self.progress.next());
            self.run_state.fail(Failure::Sink(SinkError { sink, cycle, cause }));
        }
    }

    /// Waits for a target that is away; then learns how far the sink is.
    fn arrive(&mut self) -> Result<(), Cause> {
        if self.sink.away().is_none() {
            return Ok(());
        }
        self.sink.arrive()?;
        if let Some(guard) = &self.guard {
            let remembers = self.sink.guarantee() == Guarantee::ExactlyOnce;
            let last = if remembers { self.sink.last_committed()? } else { None };
            let first_new = guard.arrived(self.index, last)?;
            self.progress = SinkProgress::new(self.run_state.first_cycle, first_new);
        }
        Ok(())
    }

    fn take_all(&mut self, results: &Receiver<CycleResults>) -> Result<(), Cause> {
        self.arrive()?;
        while let Some(first) = self.next(results) {
            if self.run_state.is_stopped() {
                return Ok(());
            }
            let mut last = Arc::clone(&first.cut);
            let mut bytes = first.bytes;
            self.prepare(first)?;
            while last.cycle - self.progress.next() + 1 < CYCLES_PER_COMMIT && bytes < COMMIT_BYTES {
                let Ok(next) = results.try_recv() else { break };
                last = Arc::clone(&next.cut);
                bytes += next.bytes;
                self.prepare(next)?;
            }
            self.commit(&last, bytes)?;
        }
        if self.run_state.is_stopped() { Ok(()) } else { self.sink.finish() }
    }

    /// Waits for the results of a cycle; `None`: there are no more. While it waits for long, others use what is free in its memory.
    fn next(&self, results: &Receiver<CycleResults>) -> Option<CycleResults> {
        match results.recv_timeout(QUIET) {
            Err(RecvTimeoutError::Timeout) => {
                // At real-time priority, the next rows must not wait for new memory.
                if self.run_state.pool.is_none() {
                    self.run_state.memory.release_thread();
                }
                results.recv().ok()
            }
            received => received.ok(),
        }
    }

    /// Passes a cycle's results to the sink, unless it has them.
    fn prepare(&mut self, results: CycleResults) -> Result<(), Cause> {
        if !self.progress.takes(&results.cut) {
            return Ok(());
        }
        let rows = results.streams.iter().flatten().map(|batch| batch.len() as u64).sum();
        self.run_state.counters.add(Counter::RowsOut, rows);
        let start_ns = self.run_state.clock.now_ns();
        let positions_end = results.arrivals.events + 1;
        let merge = |stream: &Vec<Batch>| merge_by_position(stream, positions_end, &mut self.sorter);
        let streams = guard_size(|| results.streams.iter().map(merge).collect())?;
        let clock = Arc::clone(&self.run_state.clock);
        let output = CycleOutput { cut: results.cut, streams, arrivals: results.arrivals, clock };
        self.sink.prepare(output)?;
        self.run_state.counters.add(Counter::OutputTime, self.run_state.clock.now_ns() - start_ns);
        Ok(())
    }

    /// Commits the prepared cycles up to this one.
    fn commit(&mut self, cut: &Cut, bytes: u64) -> Result<(), Cause> {
        let start_ns = self.run_state.clock.now_ns();
        let last = cut.cycle;
        match self.progress.due(last) {
            Some(cycles) => {
                if !self.commit_new(cut, cycles)? {
                    return Ok(());
                }
            }
            None => self.guard.iter().for_each(|guard| guard.passed(self.index, last)),
        }
        self.run_state.counters.add(Counter::CommitTime, self.run_state.clock.now_ns() - start_ns);
        self.run_state.results_committed(bytes);
        self.progress.done(last);
        self.run_state.cycles_committed(self.index, last);
        Ok(())
    }

    /// Commits what the sink does not have; false if the query has stopped first.
    fn commit_new(&mut self, cut: &Cut, cycles: RangeInclusive<u64>) -> Result<bool, Cause> {
        let is_stopped = || self.run_state.is_stopped();
        if let Some(guard) = &self.guard {
            guard.before_commit(cut, &is_stopped)?;
            if is_stopped() {
                return Ok(false);
            }
        }
        let first = *cycles.start();
        self.sink.commit(cycles)?;
        debug!(sink = self.name, first, last = cut.cycle, "cycles are committed");
        if let Some(guard) = &self.guard {
            if self.progress.must_record() {
                self.sink.record()?;
            }
            let recorded = self.sink.unrecorded().map_or(Some(cut.cycle), |first| first.checked_sub(1));
            guard.after_commit(self.index, cut.cycle, recorded)?;
        }
        Ok(true)
    }
}
