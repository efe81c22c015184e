//! The state that the threads of a run share: counters, credit, progress, failure, snapshots, split plans, placements. Touched per
//! cycle, never per event.

pub(crate) mod clock_timers;
pub(crate) mod costs;
pub(crate) mod credit;
pub(crate) mod cycle_costs;
pub(crate) mod failure;
mod largest_mean;
pub(crate) mod misses;
pub(crate) mod new_policy;
pub(crate) mod progress;
pub(crate) mod rest;
pub(crate) mod snapshots;
pub(crate) mod splits;
pub(crate) mod threads;
pub(crate) mod uplink;
pub(crate) mod wake_ups;
pub(crate) mod window_costs;
pub(crate) mod work;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tidemill_core::clock::Clock;
use tidemill_core::counters::{Counter, Counters};
use tidemill_core::error::Cause;
use tidemill_core::snapshot::Snapshot;
use tidemill_core::{Cut, MemoryAccount, MemoryBudget, SplitChange};
use tidemill_plan::Limits;
use tidemill_realtime::{Member, PoolError, PoolQuery, Role, TakenIn};

use self::clock_timers::ClockTimers;
use self::costs::CostMeter;
use self::credit::Credit;
use self::failure::{FirstFailure, Stopper};
use self::misses::Misses;
use self::new_policy::NewPolicy;
use self::progress::Progress;
use self::snapshots::SnapshotRequests;
use self::splits::{CycleSplitPlans, SplitPlans};
use self::threads::WorkingThreads;
use self::uplink::Uplink;
use self::wake_ups::WakeUps;
use self::window_costs::WindowCosts;
use self::work::WorkTable;
use crate::error::Failure;
use crate::placement::handover::Handover;
use crate::placement::placements::{CyclePlacements, Placements};
use crate::topology::Topology;

/// One run of a plan, in one process. Its parts do not know each other; actions that concern several of them are here.
pub(crate) struct RunState {
    pub clock: Arc<dyn Clock>,
    pub counters: Counters,
    pub credit: Credit,
    pub progress: Progress,
    pub wake_ups: WakeUps,
    pub threads: WorkingThreads,
    pub snapshots: SnapshotRequests,
    pub splits: SplitPlans,
    pub window_costs: WindowCosts,
    pub placements: Placements,
    pub handover: Handover,
    pub work: WorkTable,
    pub clock_timers: ClockTimers,
    /// Where the threads of this run belong.
    pub pool: Option<PoolQuery>,
    pub misses: Misses,
    pub costs: CostMeter,
    pub new_policy: NewPolicy,
    pub memory: MemoryBudget,
    /// What the results hold that sinks have not committed.
    uncommitted: Mutex<MemoryAccount>,
    /// The first cycle of this run.
    pub first_cycle: u64,
    topology: Arc<Topology>,
    failure: FirstFailure,
    /// In another process than the first, the connection to the first.
    uplink: OnceLock<Arc<dyn Uplink>>,
}

fn refused(error: PoolError) -> Failure {
    Failure::Engine {
        part: format!("pool '{}'", error.pool),
        cause: Cause::operation(error.reason.clone()).with_source(error),
    }
}

impl RunState {
    /// For a run with this many workers in this process.
    pub fn new(
        clock: Arc<dyn Clock>,
        limits: &Limits,
        workers: usize,
        topology: &Arc<Topology>,
        first_cycle: u64,
        stoppers: Vec<Stopper>,
    ) -> Self {
        RunState {
            clock,
            counters: Counters::default(),
            credit: Credit::new(limits),
            progress: Progress::new(topology.plan.sinks.len(), first_cycle),
            wake_ups: WakeUps::new(topology.layout.first_worker(), workers),
            threads: WorkingThreads::default(),
            snapshots: SnapshotRequests::default(),
            splits: SplitPlans::new(topology),
            window_costs: WindowCosts::new(topology),
            placements: Placements::new(topology),
            handover: Handover::new(topology.plan.operators.len(), topology.workers),
            work: WorkTable::new(topology),
            clock_timers: ClockTimers::new(topology),
            pool: None,
            misses: Misses::default(),
            costs: CostMeter::new(&topology.plan),
            new_policy: NewPolicy::default(),
            memory: limits.memory.clone(),
            uncommitted: Mutex::new(limits.memory.account()),
            first_cycle,
            topology: Arc::clone(topology),
            failure: FirstFailure::new(stoppers),
            uplink: OnceLock::new(),
        }
    }

    pub fn topology(&self) -> &Arc<Topology> {
        &self.topology
    }

    // Failure.

    /// Stops the query. The first failure is the one that is reported.
    pub fn fail(&self, failure: Failure) {
        self.failure.set(failure);
        self.wake_ups.wake_all();
        self.snapshots.wake();
    }

    /// Registers a function to be called when the query stops; calls it at once if it has stopped.
    pub fn add_stopper(&self, stopper: Stopper) {
        self.failure.add_stopper(stopper);
    }

    pub fn is_stopped(&self) -> bool {
        self.failure.is_set()
    }

    pub fn failure(&self) -> Option<Failure> {
        self.failure.get()
    }

    /// Waits for this many workers; false if the query stops first.
    pub fn wait_until_ready(&self, workers: usize) -> bool {
        self.wake_ups.wait_until_ready(workers, || self.is_stopped())
    }

    // The pool.

    /// Makes the calling thread a member of the pool, if there is one.
    pub fn join_pool(&self, role: Role) -> Result<Option<Member>, Failure> {
        self.pool.as_ref().map(|pool| pool.join(role)).transpose().map_err(refused)
    }

    /// Makes another thread a member of the pool, if there is one.
    pub fn take_into_pool(&self, thread: i32) -> Result<Option<TakenIn>, Failure> {
        self.pool.as_ref().map(|pool| pool.take_in(thread)).transpose().map_err(refused)
    }

    // The path of a cycle.

    /// Whether one more cycle may be closed. At the limit on memory, none is as long as results wait for a sink: that they
    /// are committed is what makes room.
    pub fn has_credit(&self) -> bool {
        let uncommitted = self.counters.get(Counter::UncommittedBytes);
        let has_room = uncommitted == 0 || self.memory.left() > 0;
        has_room && self.credit.allows(self.progress.in_flight(), uncommitted)
    }

    /// A sink was given results of this many bytes.
    pub fn results_wait(&self, bytes: u64) {
        self.counters.add(Counter::UncommittedBytes, bytes);
        self.account_for_results();
    }

    /// A sink has committed results of this many bytes.
    pub fn results_committed(&self, bytes: u64) {
        self.counters.subtract(Counter::UncommittedBytes, bytes);
        self.account_for_results();
    }

    fn account_for_results(&self) {
        let mut account = self.uncommitted.lock();
        // Read under the lock, so that an older figure does not replace a newer one.
        account.set(self.counters.get(Counter::UncommittedBytes));
    }

    /// How long an event waits for others although the workers are idle.
    pub fn idle_pause(&self) -> Duration {
        self.credit.idle_pause(self.progress.in_flight())
    }

    /// The changes that take effect at the next cut.
    pub fn proposed_splits(&self) -> Vec<SplitChange> {
        self.splits.take_proposals(&self.topology)
    }

    /// The split plans of a cycle that is being cut.
    pub fn splits_at_cut(&self, cut: &Cut) -> CycleSplitPlans {
        let (splits, changed) = self.splits.at_cut(cut.cycle, &cut.splits, &self.topology);
        // Measurements of another plan say nothing about this one.
        changed.into_iter().for_each(|edge| self.work.forget_splits(edge));
        splits
    }

    /// Where partitions are in a cycle that is being cut.
    pub fn placements_at_cut(&self, cut: &Cut) -> CyclePlacements {
        let (placements, moved) = self.placements.at_cut(cut.cycle, self.clock.now_ns(), &self.topology);
        self.counters.add(Counter::PartitionMoves, moved);
        placements
    }

    /// A sink has received a cycle's results.
    pub fn cycle_handed(&self, sink: usize, cycle: u64) {
        self.progress.handed(sink, cycle, self.clock.now_ns());
        self.wake_ups.wake(0);
    }

    /// A sink has committed all cycles up to this one.
    pub fn cycles_committed(&self, sink: usize, last_cycle: u64) {
        let committed = self.progress.committed(sink, last_cycle, self.clock.now_ns(), &self.counters);
        if committed.cycles > 0 {
            self.costs.note(&committed, &self.counters);
        }
        if let Some(late) = committed.late {
            self.misses.note(late, self.pool.as_ref());
        }
        self.wake_ups.wake(0);
    }

    /// An operator on a worker must be called in the first cycle that is closed at this time or later.
    pub fn set_clock_timer(&self, operator: usize, worker: u32, timer_ns: Option<u64>) {
        if self.clock_timers.set(operator, worker, timer_ns) {
            self.wake_ups.wake(0);
        }
    }

    /// When a cycle is to be closed for the operators, behind one that was closed at `closed_at_ns`: the cycle in flight is
    /// already for what was due until then.
    pub fn clock_timer_behind(&self, closed_at_ns: Option<u64>) -> Option<u64> {
        self.clock_timers.next_behind(closed_at_ns)
    }

    // Snapshots.

    /// A snapshot of all events taken in so far, which is complete after this many contributions. `None` if the query
    /// has ended, or stops first.
    pub fn take_snapshot(&self, parts: usize) -> Option<Snapshot> {
        let turn = self.snapshots.request(parts, || self.counters.get(Counter::EventsIn))?;
        self.wake_ups.wake(0);
        self.snapshots.wait(turn, || self.is_stopped())
    }

    /// One operator's partitions on one worker at the end of a cycle, for a snapshot.
    pub fn contribute(&self, cycle: u64, operator: &str, watermark: i64, partitions: BTreeMap<u32, Vec<u8>>) {
        match self.uplink.get() {
            Some(uplink) => uplink.contribute(cycle, operator, watermark, partitions),
            None => self.snapshots.contribute(cycle, operator, watermark, partitions),
        }
    }

    // Other processes.

    /// In another process than the first: sets the connection to the first.
    pub fn set_uplink(&self, uplink: Arc<dyn Uplink>) {
        // There is one for a run.
        let _ = self.uplink.set(uplink);
    }

    /// A worker has done something that process 0 may need to know.
    pub fn worker_stepped(&self) {
        if let Some(uplink) = self.uplink.get() {
            uplink.worker_stepped();
        }
    }
}

#[cfg(test)]
impl RunState {
    /// For a query without operators, in one of several processes.
    pub fn idle(layout: crate::topology::Layout) -> Arc<RunState> {
        use arrow_schema::Schema;
        let mut plan = tidemill_plan::Plan::new("idle");
        let input = plan.source("input", [Arc::new(Schema::empty())]);
        plan.sink("output", input);
        let topology = Arc::new(Topology::new(plan, layout).expect("the plan is right"));
        let clock = Arc::new(tidemill_core::SystemClock::new());
        Arc::new(RunState::new(clock, &Limits::default(), 1, &topology, 0, Vec::new()))
    }
}
