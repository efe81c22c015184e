//! The work of another process since its last report. Process 0 adds it to its own counts, so that the status covers
//! the whole run.

use std::sync::atomic::Ordering;

use tidemill_core::counters::Counter;
use tidemill_core::{Faults, Notices};

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
    /// What the plan's logs of faults have received. Each log keeps a few samples, so this is short.
    pub faults: Vec<Faults>,
    /// The plan's counts of rows that were left out.
    pub left_out: Vec<u64>,
    /// The times of the clock for which the operators on its workers wait. Unlike the rest, the times themselves.
    pub clock_timers: Vec<u64>,
}

impl Report {
    fn now(run_state: &RunState) -> Report {
        let (left_out, layout) = (&run_state.topology().plan.left_out, run_state.topology().layout);
        Report {
            held_bytes: run_state.credit.held_bytes(),
            counters: Counter::ALL.iter().map(|counter| run_state.counters.get(*counter)).collect(),
            work: run_state.work.values(),
            faults: left_out.faults.iter().map(|log| log.read()).collect(),
            left_out: left_out.rows.iter().map(|rows| rows.load(Ordering::Relaxed)).collect(),
            clock_timers: run_state.clock_timers.of_workers(layout.workers_of(layout.process as usize)),
        }
    }

    fn since(&self, before: &Report) -> Report {
        let difference = |(index, value): (usize, &u64), before: &[u64]| {
            value.wrapping_sub(before.get(index).copied().unwrap_or(0))
        };
        let all =
            |now: &[u64], before: &[u64]| now.iter().enumerate().map(|one| difference(one, before)).collect();
        let none = Faults::default();
        let new_faults = |(index, now): (usize, &Faults)| {
            let before = before.faults.get(index).unwrap_or(&none);
            let told = before.notices.count();
            Faults {
                count: now.count - before.count,
                samples: now.samples[before.samples.len()..].to_vec(),
                notices: Notices::of(now.notices.count() - told, now.notices.since(told).to_vec()),
                records: None,
            }
        };
        Report {
            held_bytes: self.held_bytes - before.held_bytes,
            counters: all(&self.counters, &before.counters),
            work: all(&self.work, &before.work),
            faults: self.faults.iter().enumerate().map(new_faults).collect(),
            left_out: all(&self.left_out, &before.left_out),
            clock_timers: self.clock_timers.clone(),
        }
    }

    /// Adds what a process has reported to process 0's own counts; `false` if it does not match them.
    pub fn add_to(&self, run_state: &RunState, process: usize) -> bool {
        let left_out = &run_state.topology().plan.left_out;
        let fits = self.counters.len() == Counter::ALL.len()
            && self.faults.len() == left_out.faults.len()
            && self.left_out.len() == left_out.rows.len();
        let workers = run_state.topology().layout.workers_of(process);
        if !fits
            || !run_state.clock_timers.take_over(workers, &self.clock_timers)
            || !run_state.work.add_values(&self.work)
        {
            return false;
        }
        for (counter, amount) in Counter::ALL.iter().zip(&self.counters) {
            run_state.counters.add(*counter, *amount);
        }
        for (log, faults) in left_out.faults.iter().zip(&self.faults).filter(|(_, faults)| !faults.is_empty())
        {
            log.merge(faults.clone());
        }
        for (rows, amount) in left_out.rows.iter().zip(&self.left_out) {
            rows.fetch_add(*amount, Ordering::Relaxed);
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
