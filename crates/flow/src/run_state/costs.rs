//! What cycles cost: the processor time of the query's own threads from one commit to the next.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use tidemill_core::counters::{Counter, Counters};
use tidemill_realtime::ThreadClock;

use crate::run_state::progress::Committed;
use crate::sync::lock;

/// What cycles have cost so far, in processor time of workers and threads of sinks. Only cycles count that were in flight alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CycleCosts {
    /// The most that a cycle has cost, by its events: one, two, up to four, up to eight, and so on.
    pub most: BTreeMap<u64, Duration>,
    /// The most for each event of a cycle, of all cycles.
    pub per_event: Duration,
    /// How many cycles have cost more than was stated.
    pub exceeded: u64,
    /// The cycle that has cost the most more.
    pub worst: Option<CostExceeded>,
}

/// A cycle that has cost more than was stated: whatever was admitted because of that may be late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostExceeded {
    /// The cycle.
    pub cycle: u64,
    /// Its events.
    pub events: u64,
    /// What it has cost.
    pub cost: Duration,
    /// What it was to cost at most.
    pub stated: Duration,
}

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct CostMeasurement {
    /// The most that an event may cost, if that is stated.
    pub stated: Option<Duration>,
}

/// Measures, if that was asked for.
#[derive(Default)]
pub(crate) struct CostMeter {
    pub measurement: Option<CostMeasurement>,
    measured: Mutex<Measured>,
}

#[derive(Default)]
struct Measured {
    threads: Vec<ThreadClock>,
    used: Duration,
    /// Whether nothing was in flight when the last cycle was committed.
    was_alone: bool,
    costs: CycleCosts,
}

impl CostMeter {
    /// The calling thread works for the query, from now on.
    pub fn add_this_thread(&self) {
        if self.measurement.is_some() {
            let mut measured = lock(&self.measured);
            measured.threads.push(ThreadClock::of_this_thread());
            measured.used = measured.used();
        }
    }

    /// Cycles were committed just now.
    pub fn note(&self, committed: &Committed, counters: &Counters) {
        let Some(CostMeasurement { stated }) = self.measurement else { return };
        let mut measured = lock(&self.measured);
        let used = measured.used();
        let cost = used.saturating_sub(measured.used);
        let is_alone = committed.in_flight == 0;
        let counts = measured.was_alone && is_alone && committed.cycles == 1 && committed.events > 0;
        (measured.used, measured.was_alone) = (used, is_alone);
        if counts && measured.costs.add(committed, cost, stated) {
            counters.add(Counter::CostsExceeded, 1);
        }
    }

    pub fn costs(&self) -> CycleCosts {
        lock(&self.measured).costs.clone()
    }
}

impl Measured {
    fn used(&mut self) -> Duration {
        self.threads.iter_mut().map(ThreadClock::read).sum()
    }
}

impl CycleCosts {
    /// Adds the cost of a cycle; whether it is more than was stated.
    fn add(&mut self, committed: &Committed, cost: Duration, stated: Option<Duration>) -> bool {
        let Committed { cycle, events, .. } = *committed;
        let most = self.most.entry(events.next_power_of_two()).or_default();
        *most = (*most).max(cost);
        let factor = u32::try_from(events).unwrap_or(u32::MAX);
        self.per_event = self.per_event.max(cost / factor);
        let Some(stated) = stated.map(|stated| stated.saturating_mul(factor)).filter(|stated| cost > *stated)
        else {
            return false;
        };
        self.exceeded += 1;
        let excess = |worst: &CostExceeded| worst.cost.saturating_sub(worst.stated);
        let exceeded = CostExceeded { cycle, events, cost, stated };
        if self.worst.as_ref().is_none_or(|worst| excess(worst) < excess(&exceeded)) {
            self.worst = Some(exceeded);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn committed(cycle: u64, events: u64) -> Committed {
        Committed { cycle, events, cycles: 1, ..Committed::default() }
    }

    #[test]
    fn costs_are_kept_by_size_and_compared_with_what_was_stated() {
        let (ms, mut costs) = (Duration::from_millis, CycleCosts::default());
        assert!(!costs.add(&committed(0, 1), ms(3), Some(ms(3))));
        assert!(!costs.add(&committed(1, 3), ms(4), None));
        assert!(costs.add(&committed(2, 4), ms(14), Some(ms(3))));
        assert!(costs.add(&committed(3, 1), ms(4), Some(ms(3))));
        assert_eq!(costs.most, BTreeMap::from([(1, ms(4)), (4, ms(14))]));
        assert_eq!((costs.per_event, costs.exceeded), (ms(4), 2));
        let worst = CostExceeded { cycle: 2, events: 4, cost: ms(14), stated: ms(12) };
        assert_eq!(costs.worst, Some(worst));
    }
}
