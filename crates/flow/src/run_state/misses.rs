//! Answers that came after their deadline, and what ran instead.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidemill_realtime::{PoolQuery, WhatRan};

/// Answers of one cycle that came after their deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlineMiss {
    /// The cycle.
    pub cycle: u64,
    /// How many of its answers were late.
    pub late: u64,
    /// How long the latest of them took, from its arrival to its commit.
    pub latency: Duration,
    /// What ran in that time; `None` if the query has no pool, or if another miss was explained just before.
    pub what_ran: Option<WhatRan>,
}

/// The last of them.
#[derive(Default)]
pub(crate) struct Misses(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    last: VecDeque<DeadlineMiss>,
    explained: Option<Instant>,
}

/// How many are kept.
const KEPT_MAX: usize = 16;

/// How often one is explained: that takes time, of which a query that is late has none to spare.
const EXPLAINED_EVERY: Duration = Duration::from_millis(100);

impl Misses {
    /// Called by the thread that has committed the answers, at once.
    pub fn note(&self, miss: DeadlineMiss, pool: Option<&PoolQuery>) {
        let mut noted = self.0.lock();
        let is_due = noted.explained.is_none_or(|last| last.elapsed() >= EXPLAINED_EVERY);
        let what_ran = pool.filter(|_| is_due).and_then(|pool| pool.what_ran(miss.latency));
        if what_ran.is_some() {
            noted.explained = Some(Instant::now());
        }
        if let Some(pool) = pool {
            pool.count_misses(miss.late);
        }
        if noted.last.len() == KEPT_MAX {
            noted.last.pop_front();
        }
        noted.last.push_back(DeadlineMiss { what_ran, ..miss });
    }

    pub fn last(&self) -> Vec<DeadlineMiss> {
        self.0.lock().last.iter().cloned().collect()
    }
}
