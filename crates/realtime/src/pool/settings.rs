//! How a pool is set up.

use std::collections::BTreeMap;
use std::time::Duration;

use super::PoolError;
use super::levels::level_of;
use super::role::Role;
use super::shares::{CAPACITY_NS_MIN, PERIOD_NS_MIN, Share};
use crate::analysis::DeferrableServer;
use crate::threads::Scheduling;

/// The policy by which the operating system schedules a pool's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// As all other threads. Needs no privilege, and promises nothing.
    Other,
    /// Before all threads of a lower priority, 1 to 99, until it waits.
    Fifo {
        /// From 1 to 99; larger goes first.
        priority: u32,
    },
    /// The same, in turns with threads of the same priority.
    RoundRobin {
        /// From 1 to 99; larger goes first.
        priority: u32,
    },
    /// The kernel's constant-bandwidth server: the pool's budget, divided evenly among the queries that run and their workers,
    /// enforced by the kernel. Other threads of the queries are ordinary.
    Deadline,
}

/// On which cores a pool's workers run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Affinity {
    /// Each worker on any of the pool's cores.
    #[default]
    Global,
    /// Each worker on one of them, in turns.
    Partitioned,
    /// As partitioned, but some workers have a set of cores of their own.
    Semi,
}

/// What happens to a pool whose budget is used up, until it is refilled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenEmpty {
    /// It runs as ordinary threads do; an ordinary pool runs when nobody else wants to.
    #[default]
    Ordinary,
    /// Its workers wait once they have finished what they have begun; until then they run when nobody else wants to.
    Pause,
}

/// How a pool is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// Its name, for messages.
    pub name: String,
    /// The worker threads of each of its queries.
    pub workers: usize,
    /// How the operating system schedules its threads.
    pub policy: Policy,
    /// The cores it may use; empty: all that the process may use.
    pub cores: Vec<usize>,
    /// How workers are bound to cores.
    pub affinity: Affinity,
    /// With [`Affinity::Semi`], the cores of workers that may use several.
    pub cores_of_worker: BTreeMap<usize, Vec<usize>>,
    /// The processor time of all its threads together.
    pub budget: Option<DeferrableServer>,
    /// What happens when the budget is empty.
    pub when_empty: WhenEmpty,
    /// Whether all memory of the process is kept in the machine's memory, from the start of the pool to the end of the
    /// process.
    pub lock_memory: bool,
    /// Whether the pool also runs if it cannot get what it asks for. Its status says what is missing.
    pub best_effort: bool,
}

/// The most workers and the largest number of a core.
const WORKERS_MAX: usize = 1024;

/// The longest period of a budget.
const PERIOD_NS_MAX: u64 = 10_000_000_000;

impl PoolSettings {
    /// One ordinary worker on any core.
    pub fn new(name: impl Into<String>) -> Self {
        PoolSettings {
            name: name.into(),
            workers: 1,
            policy: Policy::Other,
            cores: Vec::new(),
            affinity: Affinity::Global,
            cores_of_worker: BTreeMap::new(),
            budget: None,
            when_empty: WhenEmpty::Ordinary,
            lock_memory: false,
            best_effort: false,
        }
    }

    /// Refuses settings that contradict each other. It asks nothing of the operating system.
    ///
    /// # Errors
    /// The contradiction.
    pub fn check(&self) -> Result<(), PoolError> {
        let refuse = |reason: String| Err(PoolError { pool: self.name.clone(), reason });
        if self.workers == 0 || self.workers > WORKERS_MAX {
            return refuse(format!("{} workers; choose 1 to {WORKERS_MAX}", self.workers));
        }
        if let Policy::Fifo { priority } | Policy::RoundRobin { priority } = self.policy {
            // A budget is enforced by a thread that goes first.
            let most = if self.budget.is_some() { 98 } else { 99 };
            if !(1..=most).contains(&priority) {
                return refuse(format!("priority {priority}; choose 1 to {most}"));
            }
        }
        if let Some(DeferrableServer { capacity_ns, period_ns }) = self.budget {
            if !(PERIOD_NS_MIN..=PERIOD_NS_MAX).contains(&period_ns) {
                return refuse("the period of a budget must be from 1 ms to 10 s".into());
            }
            if capacity_ns < CAPACITY_NS_MIN || capacity_ns / self.workers as u64 > period_ns {
                return refuse(
                    "a budget must be at least 0.1 ms, and at most one period for each worker".into(),
                );
            }
        }
        let is_pinned = !self.cores.is_empty() || self.affinity != Affinity::Global;
        if self.policy == Policy::Deadline && self.budget.is_none() {
            return refuse("policy 'deadline' needs a budget and its period".into());
        }
        if self.policy == Policy::Deadline && is_pinned {
            return refuse(
                "policy 'deadline' cannot be bound to cores; remove cores and affinity, or use 'fifo'".into(),
            );
        }
        if self.affinity != Affinity::Global && self.cores.is_empty() {
            return refuse(
                "a pool whose workers are bound to cores must name them; add cores = '0,1'".into(),
            );
        }
        if let Some(worker) = self.cores_of_worker.keys().find(|worker| **worker >= self.workers) {
            return refuse(format!(
                "it has cores for worker {worker}, but its last worker is {}",
                self.workers - 1
            ));
        }
        if self.affinity != Affinity::Semi && !self.cores_of_worker.is_empty() {
            return refuse("workers have cores of their own only with affinity 'semi'".into());
        }
        Ok(())
    }

    /// The most priorities that a pool takes, from its own downwards, for queries with different deadlines.
    pub const LEVELS_MAX: u32 = 8;

    /// How many priorities its queries may have.
    pub fn levels(&self) -> u32 {
        match self.policy {
            Policy::Fifo { priority } | Policy::RoundRobin { priority } => priority.min(Self::LEVELS_MAX),
            Policy::Other | Policy::Deadline => 1,
        }
    }

    /// How many priorities below the pool's a query runs, where queries with these deadlines run in it.
    pub fn level(&self, own: Option<Duration>, all: impl Iterator<Item = Option<Duration>>) -> u32 {
        level_of(own, all, self.levels())
    }

    /// The budget, unless the kernel enforces it.
    pub(super) fn enforced_budget(&self) -> Option<DeferrableServer> {
        self.budget.filter(|_| self.policy != Policy::Deadline)
    }

    /// The budget of each worker of a query under [`Policy::Deadline`], where this many queries run in the pool: an equal share,
    /// in periods that are not longer than the query's deadline, if that is possible. `None` for other policies, whose
    /// queries have one budget together.
    pub fn budget_of_worker(&self, deadline: Option<Duration>, queries: usize) -> Option<DeferrableServer> {
        let budget = self.budget.filter(|_| self.policy == Policy::Deadline)?;
        Some(Share { workers: self.workers, queries, deadline }.of(budget))
    }

    /// How a member at this level is scheduled.
    pub(super) fn scheduling(&self, role: Role, level: u32) -> Scheduling {
        match (self.policy, role) {
            (Policy::Other, _) => Scheduling::Ordinary,
            (Policy::Fifo { priority }, _) => Scheduling::Fifo(priority - level),
            (Policy::RoundRobin { priority }, _) => Scheduling::RoundRobin(priority - level),
            // The kernel serves workers by their shares of the budget; there is none for other threads.
            (Policy::Deadline, _) => Scheduling::Ordinary,
        }
    }

    /// The cores of a member; empty: all.
    pub(super) fn cores_of(&self, role: Role) -> Vec<usize> {
        match role {
            Role::Worker(worker) if self.affinity != Affinity::Global => {
                let own = self.cores_of_worker.get(&worker).cloned();
                own.unwrap_or_else(|| vec![self.cores[worker % self.cores.len()]])
            }
            _ => self.cores.clone(),
        }
    }
}
