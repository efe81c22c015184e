//! The work that delays the query of a sink: other queries of its pool, other pools, and its own budget.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidemill_engine::analysis::{DeferrableServer, Interference, Processors};
use tidemill_engine::{Policy, PoolSettings};

use super::time_contract::SinkContract;
use crate::pool_definition::PoolDefinition;

/// What competes with a query for the processors.
#[derive(Clone, Copy)]
pub(crate) struct CompetingWork<'a> {
    /// All other sinks of the catalogue, each with a query of its own.
    pub sinks: &'a [SinkContract],
    pub pools: &'a BTreeMap<String, Arc<PoolDefinition>>,
}

/// The processors for the analysis of a query, and what they do not say.
#[derive(Clone, Debug)]
pub(crate) struct HigherPriorityWork {
    pub processors: Processors,
    pub not_counted: Vec<String>,
}

impl<'a> CompetingWork<'a> {
    /// One of the pool's workers, because the keys of all rows may fall to one. Wherever workers may run, a worker that waits can
    /// only do so while each of its cores works for the pool, or for work of a higher priority.
    pub fn higher_priority_work(
        self,
        pool: Option<&PoolSettings>,
        deadline: Option<Duration>,
    ) -> HigherPriorityWork {
        let mut found = HigherPriorityWork { processors: Processors::one(), not_counted: Vec::new() };
        let Some(pool) = pool else { return found };
        let mates = self.of_pool(&pool.name);
        match pool.budget_of_worker(deadline, 1 + mates.len()) {
            Some(server) => found.is_served(server),
            None => found.has_mates(pool, deadline, &mates),
        }
        let deadlines = mates.iter().map(|mate| mate.contract.deadline()).chain([deadline]);
        let own = priority(pool) - pool.level(deadline, deadlines);
        for other in self.pools.values().map(|other| &other.settings).filter(|other| other.name != pool.name)
        {
            let goes_first = priority(other) > 0 && priority(other) >= own;
            // The kernel promises deadline threads their budgets beside each other.
            if goes_first && (pool.policy, other.policy) != (Policy::Deadline, Policy::Deadline) {
                self.add_pool(other, &mut found);
            }
        }
        found
    }

    /// The other sinks of a pool.
    fn of_pool(self, pool: &str) -> Vec<&'a SinkContract> {
        self.sinks.iter().filter(|sink| sink.contract.pool.as_deref() == Some(pool)).collect()
    }

    /// Another pool goes first.
    fn add_pool(self, other: &PoolSettings, found: &mut HigherPriorityWork) {
        let name = &other.name;
        let sinks = self.of_pool(name);
        let server = |deadline| other.budget_of_worker(deadline, sinks.len().max(1));
        match (other.budget, server(None)) {
            (None, _) => {
                found.not_counted.push(format!("pool '{name}', which has a higher priority and no budget"));
            }
            (Some(budget), None) => {
                found.processors.higher.push(budget.interference(format!("pool {name}")));
            }
            // Each worker of each query has a part of the budget.
            (Some(_), Some(whole)) if sinks.is_empty() => {
                found.processors.higher.push(of_workers(whole, other.workers, format!("pool {name}")));
            }
            (Some(_), Some(_)) => {
                let of_sink = |sink: &&SinkContract| {
                    let server = server(sink.contract.deadline())?;
                    Some(of_workers(server, other.workers, format!("{} in pool {name}", sink.name)))
                };
                found.processors.higher.extend(sinks.iter().filter_map(of_sink));
            }
        }
    }
}

impl HigherPriorityWork {
    /// The kernel serves a worker with a budget of its own, whatever others of the pool do.
    fn is_served(&mut self, server: DeferrableServer) {
        // It may serve a period late and the next one early.
        self.processors.blocking_ns = server.period_ns.saturating_sub(server.capacity_ns);
        self.processors.budget = Some(server);
        self.not_counted.push(
            "threads that read sources and write to sinks, which policy 'deadline' leaves ordinary"
                .to_owned(),
        );
        self.not_counted.push(
            "by how much the kernel serves deadline threads late on several cores, where it promises them their \
             budgets, but not within each period"
                .to_owned(),
        );
    }

    /// Others of the pool go before it, or use up the same budget.
    fn has_mates(&mut self, pool: &PoolSettings, deadline: Option<Duration>, mates: &[&SinkContract]) {
        self.processors.budget = pool.budget;
        if pool.budget.is_some() {
            self.not_counted
                .push("the time of threads that read sources, which use the same budget".to_owned());
        }
        // Queries of other sinks may run together, with the shortest of their deadlines.
        let is_first = pool.levels() > 1
            && deadline.is_some_and(|own| {
                mates.iter().all(|mate| mate.contract.deadline().is_none_or(|other| own < other))
            });
        // A budget is used by all of them, whoever goes first.
        let count = if is_first && pool.budget.is_none() { &[] } else { mates };
        for mate in count {
            match mate.as_pool_mate() {
                Some(work) => self.processors.pool_mates.push(work),
                None if mate.contract.is_analysed() => {
                    self.not_counted.push(format!(
                        "sink '{}' of the same pool, whose cost is not measured yet",
                        mate.name
                    ));
                }
                None => {
                    self.not_counted.push(format!(
                        "sink '{}' of the same pool, which does not state its cost",
                        mate.name
                    ));
                }
            }
        }
        if pool.policy == Policy::Other {
            let others = "all other threads of the machine: policy 'other' guarantees nothing";
            self.not_counted.push(others.to_owned());
        }
    }
}

/// What the workers of a query do to those below, each with a server.
fn of_workers(server: DeferrableServer, workers: usize, name: String) -> Interference {
    let one = server.interference(name);
    Interference { cost_ns: one.cost_ns.saturating_mul(workers as u64), ..one }
}

/// The priority that the kernel compares; deadline threads go before all.
fn priority(settings: &PoolSettings) -> u32 {
    match settings.policy {
        Policy::Other => 0,
        Policy::Fifo { priority } | Policy::RoundRobin { priority } => priority,
        Policy::Deadline => 100,
    }
}
