//! The work of another process since its last report. Process 0 adds it to its own counts, so that the status covers
//! the whole run.

use tidemill_core::counters::Counter;

use crate::run_state::RunState;

/// Differences since the last report; counts wrap, so that a difference may be negative.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Bytes held for rows in transit.
    pub held_bytes: i64,
    /// The counters.
    pub counters: Vec<u64>,
    /// The work of all parts of the plan.
    pub work: Vec<u64>,
}

impl Report {
    fn now(run_state: &RunState) -> Report {
        Report {
            held_bytes: run_state.credit.held_bytes(),
            counters: Counter::ALL.iter().map(|counter| run_state.counters.get(*counter)).collect(),
            work: run_state.work.values(),
        }
    }

    fn since(&self, before: &Report) -> Report {
        let difference = |(index, value): (usize, &u64), before: &[u64]| {
            value.wrapping_sub(before.get(index).copied().unwrap_or(0))
        };
        let all =
            |now: &[u64], before: &[u64]| now.iter().enumerate().map(|one| difference(one, before)).collect();
        Report {
            held_bytes: self.held_bytes - before.held_bytes,
            counters: all(&self.counters, &before.counters),
            work: all(&self.work, &before.work),
        }
    }

    /// Adds it to process 0's own counts; `false` if it does not match them.
    pub fn add_to(&self, run_state: &RunState) -> bool {
        if self.counters.len() != Counter::ALL.len() || !run_state.work.add_values(&self.work) {
            return false;
        }
        for (counter, amount) in Counter::ALL.iter().zip(&self.counters) {
            run_state.counters.add(*counter, *amount);
        }
        run_state.credit.hold(self.held_bytes);
        true
    }
}

/// Stores what was reported.
#[derive(Default)]
pub(crate) struct Reporter(Report);

impl Reporter {
    /// The changes since the last call; `None`: nothing.
    pub fn next(&mut self, run_state: &RunState) -> Option<Report> {
        let now = Report::now(run_state);
        if self.0 == now {
            return None;
        }
        let report = now.since(&self.0);
        self.0 = now;
        Some(report)
    }
}
