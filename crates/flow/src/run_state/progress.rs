//! How far the cycles are: closed, handed to the sinks, committed; and how long they took.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tidemill_core::Cut;
use tidemill_core::counters::{Counter, Counters};
use tidemill_core::latency::ResponseTimes;
use tidemill_core::sink::Arrivals;

use crate::sync::lock;

pub(crate) struct Progress {
    /// Response times include only events that arrived after this moment. Events that an earlier run took in, and this
    /// one answers, had to wait for a start.
    pub counted_from_ns: u64,
    /// For each sink, the first cycle that was not handed to it, and the first that it has not committed.
    handed: Vec<AtomicU64>,
    committed: Vec<AtomicU64>,
    completion: Mutex<Completion>,
}

/// Cycles in flight, and the response times of the completed ones.
#[derive(Default)]
struct Completion {
    /// Number, closing time, arrivals.
    pending: VecDeque<(u64, u64, Arc<Arrivals>)>,
    per_event: ResponseTimes,
    per_cycle: ResponseTimes,
}

impl Progress {
    pub fn new(sinks: usize, first_cycle: u64) -> Progress {
        let first = || (0..sinks).map(|_| AtomicU64::new(first_cycle)).collect();
        Progress { counted_from_ns: 0, handed: first(), committed: first(), completion: Mutex::default() }
    }

    /// Whether all cycles below this one were handed to all sinks.
    pub fn is_handed(&self, next_cycle: u64) -> bool {
        least(&self.handed) == next_cycle
    }

    /// The first cycle that some sink has not committed.
    pub fn committed_cycles(&self) -> u64 {
        least(&self.committed)
    }

    /// In another process than the first, which has the sinks: sets how far they are.
    pub fn set_committed(&self, cycle: u64) {
        self.committed.iter().for_each(|committed| committed.store(cycle, Ordering::Release));
    }

    /// A cycle is in flight.
    pub fn closed(&self, cut: &Cut, arrivals: &Arc<Arrivals>) {
        let entry = (cut.cycle, cut.closed_at_ns, Arc::clone(arrivals));
        lock(&self.completion).pending.push_back(entry);
    }

    /// A sink has received a cycle's results.
    pub fn handed(&self, sink: usize, cycle: u64) {
        self.handed[sink].store(cycle + 1, Ordering::Release);
    }

    /// A sink has committed all cycles up to this one.
    pub fn committed(&self, sink: usize, last_cycle: u64, now_ns: u64, counters: &Counters) {
        self.committed[sink].store(last_cycle + 1, Ordering::Release);
        let mut completion = lock(&self.completion);
        // Read under the lock: of two sinks that commit at once, the second one sees both.
        let committed = self.committed_cycles();
        while completion.pending.front().is_some_and(|(cycle, ..)| *cycle < committed) {
            completion.complete_first(now_ns, self.counted_from_ns, counters);
        }
    }

    /// The response times so far: per event and per cycle.
    pub fn response_times(&self) -> (ResponseTimes, ResponseTimes) {
        let completion = lock(&self.completion);
        (completion.per_event.clone(), completion.per_cycle.clone())
    }
}

impl Completion {
    fn complete_first(&mut self, now_ns: u64, counted_from_ns: u64, counters: &Counters) {
        let Some((_, closed_at_ns, arrivals)) = self.pending.pop_front() else { return };
        for (arrived_ns, events) in
            arrivals.weighted().filter(|(arrived_ns, _)| *arrived_ns >= counted_from_ns)
        {
            self.per_event.record(now_ns.saturating_sub(arrived_ns), events);
        }
        if arrivals.events > 0 && closed_at_ns >= counted_from_ns {
            self.per_cycle.record(now_ns.saturating_sub(closed_at_ns), 1);
        }
        counters.add(Counter::CyclesCommitted, 1);
        counters.add(Counter::EventsCommitted, u64::from(arrivals.events));
    }
}

fn least(counts: &[AtomicU64]) -> u64 {
    counts.iter().map(|count| count.load(Ordering::Acquire)).min().unwrap_or(0)
}
