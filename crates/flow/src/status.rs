//! What a running query reports about itself.

use tidemill_core::counters::Counter;
use tidemill_core::latency::ResponseTimes;

use crate::run_state::RunState;
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
    /// Nanoseconds since the start of the run.
    pub elapsed_ns: u64,
    /// The work of each transform, then of each operator, in the plan's order.
    pub work: Vec<Work>,
    /// How each input of each operator is split, in the plan's order, and the work of its splitters.
    pub splits: Vec<SplitStatus>,
    /// The split plans that replaced others, oldest first; the last 256 of them.
    pub replans: Vec<Replan>,
}

/// The status at the end of a run.
pub type Summary = Status;

impl Status {
    pub(crate) fn new(run_state: &RunState, elapsed_ns: u64) -> Self {
        let values = Counter::ALL.iter().map(|counter| run_state.counters.get(*counter)).collect();
        let (per_event, per_cycle) = run_state.progress.response_times();
        Status {
            values,
            per_event,
            per_cycle,
            elapsed_ns,
            work: run_state.work.list(),
            splits: SplitStatus::list(run_state),
            replans: run_state.splits.changes(),
        }
    }

    /// A counter's value.
    pub fn get(&self, counter: Counter) -> u64 {
        self.values[counter as usize]
    }
}
