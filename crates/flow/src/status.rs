//! What a running query reports about itself.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::counters::Counter;
use tidemill_core::latency::ResponseTimes;
use tidemill_plan::Plan;
use tidemill_realtime::{PoolQuery, PoolStatus};

use crate::placement::placements::PartitionMove;
use crate::run_state::RunState;
use crate::run_state::cycle_costs::CycleCosts;
use crate::run_state::misses::DeadlineMiss;
use crate::run_state::splits::Replan;
use crate::run_state::work::Work;
use crate::split_status::SplitStatus;

/// Counters and response times at one moment, counted from the start of the run.
#[derive(Clone, Debug)]
pub struct Status {
    values: Vec<u64>,
    /// From arrival to commit, per event.
    pub per_event: ResponseTimes,
    /// From cut to commit, per cycle that had events.
    pub per_cycle: ResponseTimes,
    /// The largest mean of `per_cycle` over a thousand consecutive cycles that had events; `None` before there were so many.
    pub largest_mean_of_1000: Option<Duration>,
    /// Nanoseconds since the start of the run.
    pub elapsed_ns: u64,
    /// The work of each transform, then of each operator, in the plan's order.
    pub work: Vec<Work>,
    /// How each input of each operator is split, in the plan's order, and the work of its splitters.
    pub splits: Vec<SplitStatus>,
    /// The split plans that replaced others, oldest first; the last 256 of them. If there are more, those that changed only
    /// the size of the window are dropped first.
    pub replans: Vec<Replan>,
    /// The partitions that have moved between workers, oldest first; the last 256 of them.
    pub moves: Vec<PartitionMove>,
    /// How long the oldest event has waited whose cycle is closed and not committed; 0 if there is none.
    pub oldest_ns: u64,
    /// The event time up to which each source is complete at the last cut, in the plan's order. It is `i64::MIN` before
    /// the source's first event, and `i64::MAX` once it has ended. Empty before the first cut.
    pub watermarks: Vec<i64>,
    /// One past the last cycle that all sinks have committed.
    pub committed_end: u64,
    /// What the query's pool has done, since the pool started.
    pub pool: Option<PoolStatus>,
    /// The last answers that were late, oldest first; at most 16 cycles with some.
    pub misses: Vec<DeadlineMiss>,
    /// What cycles have cost, where that is measured.
    pub costs: CycleCosts,
    /// How far each sink is, in the plan's order.
    pub sinks: Vec<SinkStatus>,
    /// The number of workers in all processes.
    pub workers: u32,
}

/// How far a sink is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkStatus {
    /// Its name in the plan.
    pub name: String,
    /// How many cycles it has committed in this run.
    pub cycles_committed: u64,
    /// How many cycles it was handed and has not committed.
    pub cycles_waiting: u64,
    /// If cycles wait: how long ago it last committed some, or was handed the first of them, in nanoseconds; otherwise 0.
    pub idle_ns: u64,
}

/// Reads the status of a run from any thread, while it runs and after.
///
/// See [`Running::observer`](crate::Running::observer).
#[derive(Clone)]
pub struct Observer {
    pub(crate) run_state: Arc<RunState>,
    pub(crate) started_ns: u64,
}

impl Observer {
    /// Counters and response times so far.
    pub fn status(&self) -> Status {
        let now_ns = self.run_state.clock.now_ns();
        Status::new(&self.run_state, (self.started_ns, now_ns))
    }

    /// What runs.
    pub fn plan(&self) -> &Plan {
        &self.run_state.topology().plan
    }
}

/// The status at the end of a run.
pub type Summary = Status;

impl Status {
    fn new(run_state: &RunState, (started_ns, now_ns): (u64, u64)) -> Self {
        let values = Counter::ALL.iter().map(|counter| run_state.counters.get(*counter)).collect();
        let progress = &run_state.progress;
        let (per_event, per_cycle, largest_mean_of_1000) = progress.response_times();
        Status {
            values,
            per_event,
            per_cycle,
            largest_mean_of_1000,
            elapsed_ns: now_ns.saturating_sub(started_ns),
            work: run_state.work.list(now_ns),
            splits: SplitStatus::list(run_state),
            replans: run_state.splits.changes(),
            moves: run_state.placements.moved(),
            oldest_ns: progress.oldest_ns().map_or(0, |arrived_ns| now_ns.saturating_sub(arrived_ns)),
            watermarks: progress.last_cut().map_or(Vec::new(), |cut| cut.watermarks.clone()),
            committed_end: progress.committed_cycles(),
            pool: run_state.pool.as_ref().map(PoolQuery::status),
            misses: run_state.misses.last(),
            costs: run_state.costs.costs(),
            sinks: SinkStatus::list(run_state, now_ns),
            workers: run_state.topology().workers,
        }
    }

    /// A counter's value.
    pub fn get(&self, counter: Counter) -> u64 {
        self.values[counter as usize]
    }
}

impl SinkStatus {
    fn list(run_state: &RunState, now_ns: u64) -> Vec<SinkStatus> {
        let sinks = run_state.topology().plan.sinks.iter().zip(run_state.progress.of_sinks());
        let status = sinks.map(|(sink, progress)| SinkStatus {
            name: sink.name.clone(),
            cycles_committed: progress.committed,
            cycles_waiting: progress.waiting,
            idle_ns: progress.idle_since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns)),
        });
        status.collect()
    }
}
