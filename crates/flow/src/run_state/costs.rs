//! What cycles cost: the processor time of the query's own threads from one commit to the next, and of each part of the plan.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tidemill_core::counters::{Counter, Counters};
use tidemill_core::{Clock, ThreadTime};
use tidemill_plan::Plan;
use tidemill_realtime::ThreadClock;
use tidemill_realtime::analysis::CostModel;

use crate::run_state::cycle_costs::{CostExceeded, CycleCosts, OneCycle};
use crate::run_state::progress::Committed;
use crate::run_state::work::Part;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct CostMeasurement {
    /// The most that a cycle may cost, if that is stated.
    pub stated: Option<CostModel>,
}

/// Measures, if that was asked for.
pub(crate) struct CostMeter {
    is_on: bool,
    /// What each transform, and then each operator, has cost since the last commit, on all workers.
    spent_ns: Vec<AtomicU64>,
    transforms: usize,
    measured: Mutex<Measured>,
}

#[derive(Default)]
struct Measured {
    threads: Vec<ThreadClock>,
    used: Duration,
    /// Whether nothing was in flight when the last cycle was committed.
    was_alone: bool,
    stated: Option<CostModel>,
    costs: CycleCosts,
}

impl CostMeter {
    pub fn new(plan: &Plan) -> CostMeter {
        let transforms = plan.transforms.iter().map(|transform| &transform.name);
        let names: Vec<String> =
            transforms.chain(plan.operators.iter().map(|operator| &operator.name)).cloned().collect();
        CostMeter {
            is_on: false,
            spent_ns: names.iter().map(|_| AtomicU64::new(0)).collect(),
            transforms: plan.transforms.len(),
            measured: Mutex::new(Measured { costs: CycleCosts::of(names), ..Measured::default() }),
        }
    }

    /// Measures from the start of the run on.
    pub fn measure(&mut self, measurement: Option<CostMeasurement>) {
        self.is_on = measurement.is_some();
        self.measured.lock().stated = measurement.and_then(|measurement| measurement.stated);
    }

    /// From now on, cycles may cost this.
    pub fn state(&self, stated: CostModel) {
        self.measured.lock().stated = Some(stated);
    }

    /// The calling thread works for the query, from now on.
    pub fn add_this_thread(&self) {
        if self.is_on {
            let mut measured = self.measured.lock();
            measured.threads.push(ThreadClock::of_this_thread());
            measured.used = measured.used();
        }
    }

    /// The calling thread begins with a part of the plan.
    pub fn begin(&self) -> Option<u64> {
        self.is_on.then(|| ThreadTime.now_ns())
    }

    /// The calling thread has done something for a part, which it [began](CostMeter::begin) then. The cycle is not committed
    /// before.
    pub fn add(&self, part: Part, begun_ns: Option<u64>) {
        let index = match part {
            Part::Transform(index) => index,
            Part::Operator(index) => self.transforms + index,
            Part::Split { .. } => return,
        };
        if let Some(begun_ns) = begun_ns {
            self.spent_ns[index].fetch_add(ThreadTime.now_ns().saturating_sub(begun_ns), Ordering::Relaxed);
        }
    }

    /// Cycles were committed just now.
    pub fn note(&self, committed: &Committed, counters: &Counters) {
        if !self.is_on {
            return;
        }
        let mut measured = self.measured.lock();
        let used = measured.used();
        let whole = used.saturating_sub(measured.used);
        let parts = self.spent_ns.iter().map(|spent| Duration::from_nanos(spent.swap(0, Ordering::Relaxed)));
        let one = OneCycle { events: committed.events, whole, parts: parts.collect() };
        let is_alone = committed.in_flight == 0;
        let counts = measured.was_alone && is_alone && committed.cycles == 1 && committed.events > 0;
        (measured.used, measured.was_alone) = (used, is_alone);
        if !counts {
            return;
        }
        let allowed = measured.stated.map(|stated| Duration::from_nanos(stated.of(one.events)));
        if let Some(stated) = allowed.filter(|allowed| whole > *allowed) {
            let exceeded = CostExceeded { cycle: committed.cycle, events: one.events, cost: whole, stated };
            measured.costs.exceeds(exceeded);
            counters.add(Counter::CostsExceeded, 1);
        }
        measured.costs.add(&one);
    }

    pub fn costs(&self) -> CycleCosts {
        self.measured.lock().costs.clone()
    }

    /// How many cycles were measured.
    pub fn cycles(&self) -> u64 {
        self.measured.lock().costs.cycles
    }
}

impl Measured {
    fn used(&mut self) -> Duration {
        self.threads.iter_mut().map(ThreadClock::read).sum()
    }
}
