//! Sinks: where results go, whole cycles at a time.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::batch::Batch;
use crate::clock::Clock;
use crate::cut::Cut;
use crate::error::Cause;
use crate::fault_log::FaultLog;

/// When the events of a cycle arrived: `(first position, arrival on the engine's clock)` for each chunk that
/// a gateway took in, ascending; and the number of events.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    /// First position within the cycle, and arrival in nanoseconds, of each chunk.
    pub chunks: Vec<(u32, u64)>,
    /// The number of events in the cycle.
    pub events: u32,
}

impl Arrivals {
    /// When the event at `position` arrived; for the position after the last one, when the last one did.
    pub fn at_ns(&self, position: u32) -> u64 {
        let after = self.chunks.partition_point(|chunk| chunk.0 <= position);
        self.chunks[..after].last().or(self.chunks.first()).map_or(0, |chunk| chunk.1)
    }

    /// The arrivals with the number of events that each stands for.
    pub fn weighted(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let ends = self.chunks.iter().skip(1).map(|chunk| chunk.0).chain([self.events]);
        self.chunks.iter().zip(ends).map(|(chunk, end)| (chunk.1, u64::from(end - chunk.0)))
    }
}

/// All results of one cycle for one sink.
pub struct CycleOutput {
    /// The cycle's cut.
    pub cut: Arc<Cut>,
    /// For each of the sink's inputs, in the plan's order, its rows in the order of (position, origin).
    pub streams: Vec<Option<Batch>>,
    /// When the cycle's events arrived.
    pub arrivals: Arc<Arrivals>,
    /// The engine's clock, for stamping.
    pub clock: Arc<dyn Clock>,
}

/// What a sink promises of each cycle when a query goes on after a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guarantee {
    /// Its results are there at least once: cycles that it had committed shortly before may come again.
    #[default]
    AtLeastOnce,
    /// Its results are there once: it keeps the number of its last cycle together with them.
    ExactlyOnce,
}

/// Stands between a query and what its sinks commit, if the query is durable: what a cycle was made of must be as
/// durable as was promised before its results are, or a crash could take the one and leave the other.
pub trait CommitGuard: Send + Sync {
    /// Called on the sink's thread before a sink commits the cycles up to this cut; may block, and returns early if
    /// the query has stopped.
    ///
    /// # Errors
    /// If it cannot be made durable; the query then stops without the commit.
    fn before_commit(&self, cut: &Cut, is_stopped: &dyn Fn() -> bool) -> Result<(), Cause>;

    /// A sink, by its number in the plan, has committed the cycles up to this one. `recorded` is the last cycle that the
    /// sink would tell a run which began now, see [`Sink::unrecorded`].
    ///
    /// # Errors
    /// If that cannot be noted; the query then stops.
    fn after_commit(&self, sink: usize, cycle: u64, recorded: Option<u64>) -> Result<(), Cause>;
}

/// Takes results, whole cycles in order, and makes ranges of them durable. Runs on a thread of its own and
/// may block; while it does, the engine goes on until its credits are used up. (A sink that says that it
/// never blocks runs on a worker.)
pub trait Sink: Send {
    /// Takes the results of a cycle. They must not become visible before they are committed.
    ///
    /// # Errors
    /// An error stops the query; cycles that were committed stay so.
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause>;

    /// Makes the results of these cycles durable and visible, together. When it returns, they are.
    ///
    /// # Errors
    /// As for [`prepare`](Sink::prepare).
    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause>;

    /// Whether a call may wait: for a disk, a network, another thread. A sink that never does is called by
    /// the worker that has its results, which saves the way to a thread of its own; one that waits
    /// nevertheless holds all operators up. Asked once, before the query starts.
    fn may_block(&self) -> bool {
        true
    }

    /// What it promises when a query goes on after a crash.
    fn guarantee(&self) -> Guarantee {
        Guarantee::AtLeastOnce
    }

    /// The last cycle that an earlier run has committed here; `None` if there is none, or if the sink does not
    /// remember. Cycles up to this one are not given to it again. Asked once, before the query starts.
    ///
    /// # Errors
    /// If it cannot be found out; the query then does not start.
    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        Ok(None)
    }

    /// The first of the committed cycles that the sink has not recorded yet: a run that began now would be told by
    /// [`last_committed`](Sink::last_committed) that it is missing. A sink may put off recording cycles without rows,
    /// because it costs nothing to be given them again. `None`: it has recorded all that it has committed.
    ///
    /// What a run needs that goes on from the recorded cycles is kept, so a sink that puts off recording and does not say
    /// so could not be gone on with after a crash.
    fn unrecorded(&self) -> Option<u64> {
        None
    }

    /// Records all that was committed, durably. Asked after the commit of a snapshot's cycle, so that what is older than
    /// the snapshot can be removed even if nothing more comes.
    ///
    /// # Errors
    /// As for [`prepare`](Sink::prepare).
    fn record(&mut self) -> Result<(), Cause> {
        Ok(())
    }

    /// Rows that the target refuses and that this sink keeps elsewhere, so that the others can go on: it tells this log of
    /// them while it runs. Asked once, before the query starts.
    fn refused(&self) -> FaultLog {
        FaultLog::default()
    }

    /// How to end a wait of this sink from another thread, when the query is told to stop at once: a call that waits
    /// for a server then returns soon, with an error. Asked once, before the query starts.
    fn stopper(&self) -> Option<Box<dyn Fn() + Send + Sync>> {
        None
    }

    /// The query has ended in order: no cycle follows.
    ///
    /// # Errors
    /// As for [`prepare`](Sink::prepare).
    fn finish(&mut self) -> Result<(), Cause> {
        Ok(())
    }
}
