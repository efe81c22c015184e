//! Sinks, which receive results in whole cycles.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::batch::Batch;
use crate::clock::Clock;
use crate::cut::Cut;
use crate::error::Cause;
use crate::fault_log::FaultLog;
use crate::sink_outage::SinkOutage;

/// When the events of a cycle arrived: `(first position, arrival on the engine's clock)` in ascending order for each
/// chunk that a gateway took in, and the number of events.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    /// First position within the cycle, and arrival in nanoseconds, of each chunk.
    pub chunks: Vec<(u32, u64)>,
    /// The number of events in the cycle.
    pub events: u32,
}

impl Arrivals {
    /// When the event at `position` arrived. For the position after the last event, when the last event arrived.
    pub fn at_ns(&self, position: u32) -> u64 {
        let after = self.chunks.partition_point(|chunk| chunk.0 <= position);
        self.chunks[..after].last().or(self.chunks.first()).map_or(0, |chunk| chunk.1)
    }

    /// The arrivals, each with the number of events that it stands for.
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
    /// The engine's clock, for timestamps.
    pub clock: Arc<dyn Clock>,
}

/// What a sink guarantees about each cycle when a query resumes after a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guarantee {
    /// Its results are there at least once: cycles that were committed shortly before the crash may come again.
    #[default]
    AtLeastOnce,
    /// Its results are there exactly once: the sink stores the number of its last cycle together with them.
    ExactlyOnce,
}

/// Stands between a durable query and the commits of its sinks. The inputs of a cycle must be as durable as promised
/// before its results are committed. Otherwise a crash could take the inputs and leave the results.
pub trait CommitGuard: Send + Sync {
    /// Called on the sink's thread before a sink commits the cycles up to this cut. May block, and returns early if the
    /// query has stopped.
    ///
    /// # Errors
    /// If they cannot be made durable. The query then stops without the commit.
    fn before_commit(&self, cut: &Cut, is_stopped: &dyn Fn() -> bool) -> Result<(), Cause>;

    /// Reports that a sink, identified by its number in the plan, has committed the cycles up to this one. `recorded`
    /// is the last cycle that the sink would report to a run that began now, see [`Sink::unrecorded`].
    ///
    /// # Errors
    /// If the commit cannot be recorded. The query then stops.
    fn after_commit(&self, sink: usize, cycle: u64, recorded: Option<u64>) -> Result<(), Cause>;

    /// Reports that a sink has all cycles up to this one from earlier runs, and that this run has come that far: it does not
    /// need any more what is before.
    fn passed(&self, sink: usize, cycle: u64);

    /// Reports that a sink whose target was away when the query began is there, and the last cycle that an earlier run has
    /// committed there. Returns the first cycle that it does not have.
    ///
    /// # Errors
    /// If the query lacks cycles that the sink needs, or the sink has cycles that the query never had. The query then
    /// stops without having written to it.
    fn arrived(&self, sink: usize, last_committed: Option<u64>) -> Result<u64, Cause>;
}

/// Takes results as whole cycles in order, and makes ranges of them durable. A sink runs on its own thread and may
/// block. While it does, the engine continues until its credits are used up. (A sink that declares that it never blocks
/// runs on a worker.)
pub trait Sink: Send {
    /// Takes the results of a cycle. They must not become visible before they are committed.
    ///
    /// # Errors
    /// An error stops the query. Committed cycles stay committed.
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause>;

    /// Makes the results of these cycles durable and visible, together. They are when it returns.
    ///
    /// # Errors
    /// As for [`prepare`](Sink::prepare).
    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause>;

    /// Whether a call may wait for a disk, a network or another thread. A sink that never waits is called by the worker
    /// that has its results, which saves handing them to another thread. If such a sink waits nevertheless, it holds up
    /// all operators. Asked once, before the query starts.
    fn may_block(&self) -> bool {
        true
    }

    /// What the sink guarantees when a query resumes after a crash.
    fn guarantee(&self) -> Guarantee {
        Guarantee::AtLeastOnce
    }

    /// The last cycle that an earlier run has committed here; `None` if there is none, or if the sink does not store
    /// it. Cycles up to this one are not given to the sink again. Asked once, before the query starts or when the sink
    /// has arrived.
    ///
    /// # Errors
    /// If it cannot be determined. The query then does not start.
    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        Ok(None)
    }

    /// Why the target cannot be reached, if it was away when the sink was opened. Such a sink is not asked how far it is, and
    /// is given nothing, before it has [arrived](Sink::arrive). Asked once, before the query starts.
    fn away(&self) -> Option<Cause> {
        None
    }

    /// Waits until the target of a sink that is [`away`](Sink::away) is there. Called on the sink's thread, once, while
    /// the query takes in events already; [`last_committed`](Sink::last_committed) is asked after it.
    ///
    /// # Errors
    /// If the target does not come within the time that the sink allows, or if it is there and cannot be used.
    fn arrive(&mut self) -> Result<(), Cause> {
        Ok(())
    }

    /// The first of the committed cycles that the sink has not recorded yet: [`last_committed`](Sink::last_committed)
    /// would tell a run that began now that it is missing. A sink may defer recording cycles without rows, because
    /// receiving them again costs nothing. `None`: it has recorded everything that it has committed.
    ///
    /// Whatever a run needs to resume from the recorded cycles is kept. So a sink that defers recording without saying
    /// so cannot be resumed after a crash.
    fn unrecorded(&self) -> Option<u64> {
        None
    }

    /// Durably records everything that was committed. Called after the commit of a snapshot's cycle, so that anything
    /// older than the snapshot can be removed even if nothing more comes.
    ///
    /// # Errors
    /// As for [`prepare`](Sink::prepare).
    fn record(&mut self) -> Result<(), Cause> {
        Ok(())
    }

    /// A log to which this sink reports, while it runs, rows that the target refuses and that the sink keeps elsewhere,
    /// so that the others can continue. Asked once, before the query starts.
    fn refused(&self) -> FaultLog {
        FaultLog::default()
    }

    /// Where this sink says, while it runs, that its target is away and why. Asked once, before the query starts.
    fn outage(&self) -> SinkOutage {
        SinkOutage::default()
    }

    /// A way to end this sink's waiting from another thread, when the query is told to stop at once: a call that waits
    /// for a server then returns soon, with an error. Asked once, before the query starts.
    fn stopper(&self) -> Option<Box<dyn Fn() + Send + Sync>> {
        None
    }

    /// The query has ended normally: no cycle follows.
    ///
    /// # Errors
    /// As for [`prepare`](Sink::prepare).
    fn finish(&mut self) -> Result<(), Cause> {
        Ok(())
    }
}
