//! Work that goes first: periodic threads of a higher priority, and servers with a budget.

use super::fixed_point::ceil_times;

/// Recurring work that interrupts other work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interference {
    /// What it is called where a bound is explained.
    pub name: String,
    /// It is released at most once in this time...
    pub period_ns: u64,
    /// ...and then works for at most this long.
    pub cost_ns: u64,
    /// How much later than due it may be released, or, for a server, use its budget.
    pub jitter_ns: u64,
    /// How long after it is due it has ended at the latest, for bounds on several processors.
    pub deadline_ns: u64,
}

impl Interference {
    /// A thread that is released once in each period, exactly when it is due, and has ended before the next release.
    pub fn periodic(name: impl Into<String>, period_ns: u64, cost_ns: u64) -> Self {
        Interference { name: name.into(), period_ns, cost_ns, jitter_ns: 0, deadline_ns: period_ns }
    }

    /// The same, but released up to this much later than due.
    #[must_use]
    pub fn with_jitter(self, jitter_ns: u64) -> Self {
        Interference { jitter_ns, ..self }
    }

    /// The most that it works within a window of one processor: `ceil((w + J) / T) * C`.
    pub fn within(&self, window_ns: u64) -> u64 {
        ceil_times(window_ns.saturating_add(self.jitter_ns), self.period_ns, self.cost_ns)
    }

    /// The most that it works within a window of several processors, where what was released before the window may end
    /// within it: the bound of Bertogna and Cirinei (RTSS 2007) for a task that keeps its deadline.
    pub fn carried_within(&self, window_ns: u64) -> u64 {
        if self.cost_ns == 0 {
            return 0;
        }
        let slack_ns = self.deadline_ns.saturating_sub(self.cost_ns).max(self.jitter_ns);
        let reach_ns = window_ns.saturating_add(slack_ns);
        let whole = reach_ns / self.period_ns.max(1);
        let rest_ns = reach_ns - whole.saturating_mul(self.period_ns);
        whole.saturating_mul(self.cost_ns).saturating_add(rest_ns.min(self.cost_ns))
    }

    /// The part of a processor that it uses, in millionths, rounded up.
    pub(crate) fn utilisation_ppm(&self) -> u128 {
        (u128::from(self.cost_ns) * 1_000_000).div_ceil(u128::from(self.period_ns.max(1)))
    }
}

/// A CPU budget: full at the start of each period, kept within it while it is not used, lost at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeferrableServer {
    /// The processor time of a period.
    pub capacity_ns: u64,
    /// How often it is full again.
    pub period_ns: u64,
}

impl DeferrableServer {
    /// What the server does to work below it: `ceil((w + T - C) / T) * C` within a window `w`. The budget of one period may be
    /// used at its very end, and that of the next at its start, so this is more than a periodic thread's.
    pub fn interference(&self, name: impl Into<String>) -> Interference {
        let jitter_ns = self.period_ns.saturating_sub(self.capacity_ns);
        Interference::periodic(name, self.period_ns, self.capacity_ns).with_jitter(jitter_ns)
    }

    /// How long work under this budget may be held up. The budget may have been used before the work is released, and is
    /// used up again after each `C` of it: `ceil(demand / C)` times. Each time it is refilled after `T - C / k` at the
    /// latest, where `k` workers use it at once.
    pub(crate) fn held_up_ns(&self, demand_ns: u64, workers: u64) -> u64 {
        let empty_ns = self.period_ns.saturating_sub(self.capacity_ns / workers.max(1));
        ceil_times(demand_ns, self.capacity_ns, empty_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_may_come_back_to_back() {
        let server = DeferrableServer { capacity_ns: 20, period_ns: 100 };
        let below = server.interference("pool");
        // A periodic thread of the same size works 20 within 100; the server may work 20 before the refill and 20 after.
        assert_eq!(Interference::periodic("thread", 100, 20).within(100), 20);
        assert_eq!([20, 21, 100, 120, 121].map(|window| below.within(window)), [20, 40, 40, 40, 60]);
    }

    #[test]
    fn a_budget_holds_work_up_once_for_each_part_of_its_size() {
        let server = DeferrableServer { capacity_ns: 20, period_ns: 100 };
        assert_eq!([1, 20, 21, 60].map(|demand| server.held_up_ns(demand, 1)), [80, 80, 160, 240]);
        // Two workers use 20 of processor time in 10.
        assert_eq!(server.held_up_ns(20, 2), 90);
    }

    #[test]
    fn what_was_carried_in_counts_on_several_processors() {
        let task = Interference::periodic("task", 10, 4);
        // Released 6 before the window and not yet begun, then twice within it.
        assert_eq!([1, 4, 5, 14, 18].map(|window| task.carried_within(window)), [4, 4, 5, 8, 12]);
    }

    #[test]
    fn sums_that_are_too_large_stay_large() {
        let much = Interference::periodic("much", 1, u64::MAX);
        assert_eq!((much.within(u64::MAX), much.carried_within(u64::MAX)), (u64::MAX, u64::MAX));
    }
}
