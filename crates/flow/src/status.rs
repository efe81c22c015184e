//! What a running query tells about itself.

use tidemill_core::counters::{Counter, Counters};
use tidemill_core::latency::ResponseTimes;

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
}

/// The status at the end of a run.
pub type Summary = Status;

impl Status {
    pub(crate) fn new(counters: &Counters, times: (ResponseTimes, ResponseTimes), elapsed_ns: u64) -> Self {
        let values = Counter::ALL.iter().map(|counter| counters.get(*counter)).collect();
        Status { values, per_event: times.0, per_cycle: times.1, elapsed_ns }
    }

    /// A counter's value.
    pub fn get(&self, counter: Counter) -> u64 {
        self.values[counter as usize]
    }
}
