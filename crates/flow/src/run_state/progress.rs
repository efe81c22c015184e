//! How far the cycles are: closed, handed to the sinks, committed; and how long they took.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tidemill_core::Cut;
use tidemill_core::counters::{Counter, Counters};
use tidemill_core::latency::ResponseTimes;
use tidemill_core::sink::Arrivals;

use crate::run_state::largest_mean::LargestMean;
use crate::run_state::misses::DeadlineMiss;

pub(crate) struct Progress {
    /// Response times include only events that arrived after this moment. Events that an earlier run took in, and this
    /// one answers, had to wait for a start.
    pub counted_from_ns: u64,
    /// Answers that took longer are counted as late.
    pub deadline_ns: Option<u64>,
    /// For each sink, the first cycle that was not handed to it, and the first that it has not committed.
    handed: Vec<AtomicU64>,
    committed: Vec<AtomicU64>,
    /// For each sink, when it last committed, or was handed a cycle when it had committed all before.
    moved_ns: Vec<AtomicU64>,
    completion: Mutex<Completion>,
}

/// How many cycles are closed that a sink has not committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    /// The sink that is furthest.
    pub of_first: u64,
    /// The sink that is furthest behind.
    pub of_last: u64,
}

/// Cycles that all sinks have committed at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Committed {
    /// How many, the last of them, and their events.
    pub cycles: u64,
    pub cycle: u64,
    pub events: u64,
    /// How many are still in flight.
    pub in_flight: u64,
    /// The cycle with the latest answer, if answers were late.
    pub late: Option<DeadlineMiss>,
}

impl Committed {
    fn add(&mut self, pending: Option<&(u64, u64, Arc<Arrivals>)>) {
        if let Some((cycle, _, arrivals)) = pending {
            self.cycles += 1;
            self.cycle = *cycle;
            self.events += u64::from(arrivals.events);
        }
    }
}

/// How far a sink is.
pub(crate) struct SinkProgress {
    /// How many cycles of this run it has committed.
    pub committed: u64,
    /// How many it was handed and has not committed.
    pub waiting: u64,
    /// If some wait: when it last committed, or was handed the first of them.
    pub idle_since_ns: Option<u64>,
}

/// Cycles in flight, and the response times of the completed ones.
#[derive(Default)]
struct Completion {
    /// How many cycles this run has closed.
    closed: u64,
    /// The cut of the last closed cycle.
    last: Option<Arc<Cut>>,
    /// Number, closing time, arrivals.
    pending: VecDeque<(u64, u64, Arc<Arrivals>)>,
    per_event: ResponseTimes,
    per_cycle: ResponseTimes,
    largest_mean: LargestMean,
}

impl Progress {
    pub fn new(sinks: usize, first_cycle: u64) -> Progress {
        let first = || (0..sinks).map(|_| AtomicU64::new(first_cycle)).collect();
        Progress {
            counted_from_ns: 0,
            deadline_ns: None,
            handed: first(),
            committed: first(),
            moved_ns: (0..sinks).map(|_| AtomicU64::new(0)).collect(),
            completion: Mutex::default(),
        }
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
    pub fn closed(&self, cut: &Arc<Cut>, arrivals: &Arc<Arrivals>) {
        let entry = (cut.cycle, cut.closed_at_ns, Arc::clone(arrivals));
        let mut completion = self.completion.lock();
        completion.pending.push_back(entry);
        completion.closed += 1;
        completion.last = Some(Arc::clone(cut));
    }

    /// How many cycles are closed and not committed.
    pub fn in_flight(&self) -> InFlight {
        let completion = self.completion.lock();
        let committed = self.committed.iter().map(|count| count.load(Ordering::Acquire)).max().unwrap_or(0);
        let done = completion.pending.partition_point(|(cycle, ..)| *cycle < committed) as u64;
        let of_last = completion.pending.len() as u64;
        InFlight { of_first: of_last - done, of_last }
    }

    /// The cut of the last closed cycle.
    pub fn last_cut(&self) -> Option<Arc<Cut>> {
        self.completion.lock().last.clone()
    }

    /// When the oldest event arrived whose cycle is closed and not committed; `None` if there is no such event.
    pub fn oldest_ns(&self) -> Option<u64> {
        let completion = self.completion.lock();
        completion.pending.iter().find_map(|(_, _, arrivals)| arrivals.chunks.first().map(|chunk| chunk.1))
    }

    /// For each sink, how many cycles of this run it has committed, and how many it was handed and has not committed. Numbers
    /// of cycles may be left out, so these are counted.
    pub fn of_sinks(&self) -> Vec<SinkProgress> {
        let completion = self.completion.lock();
        let counts = |((handed, committed), moved_ns): ((&AtomicU64, &AtomicU64), &AtomicU64)| {
            let (handed, committed) = (handed.load(Ordering::Acquire), committed.load(Ordering::Acquire));
            let cycles = completion.pending.iter().map(|(cycle, ..)| *cycle);
            let open = cycles.clone().filter(|cycle| *cycle >= committed).count() as u64;
            let waiting = cycles.filter(|cycle| (committed..handed).contains(cycle)).count() as u64;
            let idle_since_ns = (waiting > 0).then(|| moved_ns.load(Ordering::Relaxed));
            SinkProgress { committed: completion.closed - open, waiting, idle_since_ns }
        };
        self.handed.iter().zip(&self.committed).zip(&self.moved_ns).map(counts).collect()
    }

    /// A sink has received a cycle's results.
    pub fn handed(&self, sink: usize, cycle: u64, now_ns: u64) {
        let before = self.handed[sink].swap(cycle + 1, Ordering::AcqRel);
        if before <= self.committed[sink].load(Ordering::Acquire) {
            self.moved_ns[sink].store(now_ns, Ordering::Relaxed);
        }
    }

    /// A sink has committed all cycles up to this one. Returns those that all sinks have committed by that.
    pub fn committed(&self, sink: usize, last_cycle: u64, now_ns: u64, counters: &Counters) -> Committed {
        self.committed[sink].store(last_cycle + 1, Ordering::Release);
        self.moved_ns[sink].store(now_ns, Ordering::Relaxed);
        let mut completion = self.completion.lock();
        // Read under the lock: of two sinks that commit at once, the second one sees both.
        let committed = self.committed_cycles();
        let (mut latest, mut done): (Option<DeadlineMiss>, _) = (None, Committed::default());
        while completion.pending.front().is_some_and(|(cycle, ..)| *cycle < committed) {
            done.add(completion.pending.front());
            let missed =
                completion.complete_first(now_ns, (self.counted_from_ns, self.deadline_ns), counters);
            let Some(missed) = missed else { continue };
            let late = missed.late + latest.as_ref().map_or(0, |latest| latest.late);
            let is_later = latest.as_ref().is_none_or(|latest| latest.latency < missed.latency);
            latest = if is_later { Some(missed) } else { latest };
            latest.iter_mut().for_each(|latest| latest.late = late);
        }
        Committed { late: latest, in_flight: completion.pending.len() as u64, ..done }
    }

    /// The response times so far: per event, per cycle, and the largest mean of a thousand cycles.
    pub fn response_times(&self) -> (ResponseTimes, ResponseTimes, Option<Duration>) {
        let completion = self.completion.lock();
        (completion.per_event.clone(), completion.per_cycle.clone(), completion.largest_mean.largest())
    }
}

impl Completion {
    fn complete_first(
        &mut self,
        now_ns: u64,
        (counted_from_ns, deadline_ns): (u64, Option<u64>),
        counters: &Counters,
    ) -> Option<DeadlineMiss> {
        let (cycle, closed_at_ns, arrivals) = self.pending.pop_front()?;
        let (mut late, mut latest_ns) = (0, 0);
        for (arrived_ns, events) in
            arrivals.weighted().filter(|(arrived_ns, _)| *arrived_ns >= counted_from_ns)
        {
            let latency_ns = now_ns.saturating_sub(arrived_ns);
            self.per_event.record(latency_ns, events);
            if deadline_ns.is_some_and(|deadline_ns| latency_ns > deadline_ns) {
                late += events;
                latest_ns = latest_ns.max(latency_ns);
            }
        }
        if arrivals.events > 0 && closed_at_ns >= counted_from_ns {
            let time_ns = now_ns.saturating_sub(closed_at_ns);
            self.per_cycle.record(time_ns, 1);
            self.largest_mean.record(time_ns);
        }
        counters.add(Counter::CyclesCommitted, 1);
        counters.add(Counter::EventsCommitted, u64::from(arrivals.events));
        counters.add(Counter::DeadlineMisses, late);
        let latency = Duration::from_nanos(latest_ns);
        (late > 0).then_some(DeadlineMiss { cycle, late, latency, what_ran: None })
    }
}

fn least(counts: &[AtomicU64]) -> u64 {
    counts.iter().map(|count| count.load(Ordering::Acquire)).min().unwrap_or(0)
}
