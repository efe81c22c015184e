//! A worker's own list of the cycles in flight: stages look up their cuts here by number.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use tidemill_core::Cut;
use tidemill_core::sink::Arrivals;

use crate::placement::placements::CyclePlacements;
use crate::run_state::splits::CycleSplitPlans;

/// A cycle as the stages need it.
#[derive(Clone)]
pub(crate) struct CycleInFlight {
    pub cut: Arc<Cut>,
    pub arrivals: Arc<Arrivals>,
    /// How each edge is split.
    pub splits: CycleSplitPlans,
    /// Where the partitions of each operator are.
    pub placements: CyclePlacements,
}

/// Shared by the source and all stages of one worker.
#[derive(Clone, Default)]
pub(crate) struct CyclesInFlight {
    in_flight: Rc<RefCell<VecDeque<CycleInFlight>>>,
}

impl CyclesInFlight {
    /// Posts a cycle, before its number can pass any frontier on this worker; removes those below `done`.
    pub fn add(&self, in_flight: CycleInFlight, done: u64) {
        let mut all = self.in_flight.borrow_mut();
        while all.front().is_some_and(|first| first.cut.cycle < done) {
            all.pop_front();
        }
        all.push_back(in_flight);
    }

    /// The first cycle in flight from this number on, for numbers may be left out.
    pub fn first_from(&self, cycle: u64) -> Option<CycleInFlight> {
        let all = self.in_flight.borrow();
        let index = all.partition_point(|in_flight| in_flight.cut.cycle < cycle);
        all.get(index).cloned()
    }
}
