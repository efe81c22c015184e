//! What processes a stream, and what is in its way there.

use super::fixed_point::{NoBound, least_fixed_point};
use super::{DeferrableServer, Interference};

/// Equal processors that process one stream, preemptively and by fixed priorities, with what they do first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processors {
    /// How many workers process the stream at once, each on a processor of its own.
    pub workers: u64,
    /// What interrupts them.
    pub higher: Vec<Interference>,
    /// What goes first within the same pool, and uses the same budget.
    pub pool_mates: Vec<Interference>,
    /// The budget of the pool.
    pub budget: Option<DeferrableServer>,
    /// How long something of a lower priority may be in the way, once: a section that is not interrupted, the time to wake up.
    pub blocking_ns: u64,
}

/// Work to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// All of it.
    pub total_ns: u64,
    /// The longest part of it that cannot be shared by several workers.
    pub path_ns: u64,
}

impl Processors {
    /// One processor, all of it.
    pub fn one() -> Self {
        Processors::equal(1)
    }

    /// This many equal processors, all of them.
    pub fn equal(workers: u64) -> Self {
        Processors {
            workers: workers.max(1),
            higher: Vec::new(),
            pool_mates: Vec::new(),
            budget: None,
            blocking_ns: 0,
        }
    }

    /// Below this work.
    #[must_use]
    pub fn below(mut self, higher: impl IntoIterator<Item = Interference>) -> Self {
        self.higher.extend(higher);
        self
    }

    /// Within this budget.
    #[must_use]
    pub fn within(self, budget: DeferrableServer) -> Self {
        Processors { budget: Some(budget), ..self }
    }

    /// How long a demand takes at most that grows with the time it takes: the least fixed point of
    ///
    /// `w = B + path + (total - path + interference(w)) / k + budget`
    ///
    /// With one worker this is the response-time analysis of Joseph and Pandya (1986) and Audsley (1993); with a budget, of
    /// Davis and Burns (RTSS 2005). With several it is Graham's bound (1969), with interference as by Bertogna and
    /// Cirinei (RTSS 2007) and Melani and others (ECRTS 2015): while the demand is not done, either all workers are busy, or
    /// its longest path advances.
    pub(crate) fn completion_ns(&self, from_ns: u64, demand: impl Fn(u64) -> Demand) -> Result<u64, NoBound> {
        least_fixed_point(from_ns, |window_ns| {
            let own = demand(window_ns);
            let mates_ns = self.sum_within(&self.pool_mates, window_ns);
            let higher_ns = self.sum_within(&self.higher, window_ns);
            let path_ns = if self.workers == 1 { own.total_ns } else { own.path_ns.min(own.total_ns) };
            let shared_ns = (own.total_ns - path_ns).saturating_add(mates_ns).saturating_add(higher_ns);
            let used_ns = own.total_ns.saturating_add(mates_ns);
            let held_up_ns = self.budget.map_or(0, |budget| budget.held_up_ns(used_ns, self.workers));
            [path_ns, shared_ns.div_ceil(self.workers), held_up_ns]
                .into_iter()
                .fold(self.blocking_ns, u64::saturating_add)
        })
    }

    /// What one of these takes within a window, over all processors.
    pub(crate) fn share_within(&self, interference: &Interference, window_ns: u64) -> u64 {
        match self.workers {
            1 => interference.within(window_ns),
            _ => interference.carried_within(window_ns),
        }
    }

    fn sum_within(&self, all: &[Interference], window_ns: u64) -> u64 {
        all.iter().map(|one| self.share_within(one, window_ns)).fold(0, u64::saturating_add)
    }
}
