//! A worker's own list of the cycles in flight: stages look up their cuts here by number.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use tidemill_core::Cut;
use tidemill_core::sink::Arrivals;

use crate::run_state::splits::Splits;

/// A cycle as the stages need it.
#[derive(Clone)]
pub(crate) struct Posted {
    pub cut: Arc<Cut>,
    pub arrivals: Arc<Arrivals>,
    /// How each edge is split.
    pub splits: Splits,
}

/// Shared by the source and all stages of one worker.
#[derive(Clone, Default)]
pub(crate) struct Board {
    posted: Rc<RefCell<VecDeque<Posted>>>,
}

impl Board {
    /// Posts a cycle, before its number can pass any frontier on this worker; removes those below `done`.
    pub fn post(&self, posted: Posted, done: u64) {
        let mut all = self.posted.borrow_mut();
        while all.front().is_some_and(|first| first.cut.cycle < done) {
            all.pop_front();
        }
        all.push_back(posted);
    }

    /// A posted cycle that has not been removed.
    pub fn get(&self, cycle: u64) -> Option<Posted> {
        let all = self.posted.borrow();
        let first = all.front()?.cut.cycle;
        all.get(usize::try_from(cycle.checked_sub(first)?).ok()?).cloned()
    }
}
