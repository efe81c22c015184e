//! The times of the clock at which operators must be called, by operator and worker. They are known once a cycle was
//! processed, so a cycle that is in flight may still change them.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::topology::Topology;

/// No timer.
const NEVER: u64 = u64::MAX;

pub(crate) struct ClockTimers {
    /// For each operator that has such timers: its number, and the next one of each worker.
    operators: Vec<(usize, Vec<AtomicU64>)>,
}

impl ClockTimers {
    /// For the operators of a plan on all workers, also those of other processes.
    pub fn new(topology: &Topology) -> ClockTimers {
        let operators = topology.plan.operators.iter().enumerate();
        let operators = operators.filter(|(_, operator)| operator.has_clock_timers);
        let of_workers = || (0..topology.workers).map(|_| AtomicU64::new(NEVER)).collect();
        ClockTimers { operators: operators.map(|(operator, _)| (operator, of_workers())).collect() }
    }

    /// Sets the next timer of an operator on a worker. Returns whether it is another one than before.
    pub fn set(&self, operator: usize, worker: u32, timer_ns: Option<u64>) -> bool {
        let known = self.operators.iter().find(|(known, _)| *known == operator);
        let slot = known.and_then(|(_, workers)| workers.get(worker as usize));
        let timer_ns = timer_ns.unwrap_or(NEVER);
        slot.is_some_and(|slot| slot.swap(timer_ns, Ordering::AcqRel) != timer_ns)
    }

    /// The next one behind a time, of all.
    pub fn next_behind(&self, time_ns: Option<u64>) -> Option<u64> {
        let all = self.operators.iter().flat_map(|(_, workers)| workers);
        let timers = all.map(|slot| slot.load(Ordering::Acquire)).filter(|timer_ns| *timer_ns != NEVER);
        timers.filter(|timer_ns| time_ns.is_none_or(|time_ns| *timer_ns > time_ns)).min()
    }

    /// Those of some workers, to be sent to the first process.
    pub fn of_workers(&self, workers: std::ops::Range<u32>) -> Vec<u64> {
        let own = |workers: &std::ops::Range<u32>| workers.start as usize..workers.end as usize;
        let slots = self.operators.iter().flat_map(|(_, slots)| slots.get(own(&workers)).unwrap_or_default());
        slots.map(|slot| slot.load(Ordering::Acquire)).collect()
    }

    /// Takes over what [`of_workers`](ClockTimers::of_workers) of another process has given; `false` if it does not fit.
    pub fn take_over(&self, workers: std::ops::Range<u32>, timers: &[u64]) -> bool {
        if timers.len() != self.operators.len() * workers.len() {
            return false;
        }
        let places =
            self.operators.iter().flat_map(|(_, slots)| workers.clone().map(move |worker| (slots, worker)));
        for ((slots, worker), timer_ns) in places.zip(timers) {
            slots[worker as usize].store(*timer_ns, Ordering::Release);
        }
        true
    }
}
