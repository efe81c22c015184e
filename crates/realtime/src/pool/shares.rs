//! How queries share a budget that the kernel enforces: each worker of each query has a server of its own, and all of them
//! together never have more than the budget.

use std::io::{Error, Result};
use std::sync::Arc;
use std::time::Duration;

use super::Thread;
use super::identity::QueryIdentity;
use super::role::Role;
use crate::analysis::DeferrableServer;
use crate::threads::{self, Scheduling};

/// The shortest period of a budget, and the least budget: timers are not precise enough for less.
pub(super) const PERIOD_NS_MIN: u64 = 1_000_000;
pub(super) const CAPACITY_NS_MIN: u64 = 100_000;

/// How often a new member asks the kernel for its share, which one that has left may keep until the end of its period.
const LOOK: Duration = Duration::from_millis(1);

/// What a query has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub workers: usize,
    pub queries: usize,
    pub deadline: Option<Duration>,
}

impl Share {
    /// The server of each of its workers: an equal part of the budget, in periods as long as the deadline, if that is shorter than
    /// the budget's and the server does not become too small. The kernel serves the one first whose period ends first.
    pub fn of(self, budget: DeferrableServer) -> DeferrableServer {
        let DeferrableServer { capacity_ns, period_ns } = budget;
        let share_ns = capacity_ns / (self.workers as u64).saturating_mul(self.queries as u64).max(1);
        let part = |of_ns: u64, time_ns: u64, whole_ns: u64| {
            let part_ns = u128::from(of_ns) * u128::from(time_ns) / u128::from(whole_ns.max(1));
            u64::try_from(part_ns).unwrap_or(u64::MAX)
        };
        let shortest_ns = part(CAPACITY_NS_MIN, period_ns, share_ns).saturating_add(1).max(PERIOD_NS_MIN);
        let deadline_ns =
            self.deadline.map_or(u64::MAX, |deadline| deadline.as_nanos().try_into().unwrap_or(u64::MAX));
        let own_ns = deadline_ns.max(shortest_ns).min(period_ns);
        DeferrableServer { capacity_ns: part(share_ns, own_ns, period_ns), period_ns: own_ns }
    }
}

/// Gives each worker its server. If there is one query more than before, all others have less before the last of the members, the
/// new one, has anything.
pub(super) fn give(members: &mut [Thread], workers: usize, budget: DeferrableServer) -> Result<()> {
    let queries = count(members);
    let last = members.len().saturating_sub(1);
    for (number, thread) in members.iter_mut().enumerate() {
        if thread.role == Role::Receiver {
            continue;
        }
        let deadline = thread.query.as_ref().and_then(|query| query.deadline);
        let server = Share { workers, queries, deadline }.of(budget);
        if thread.server == Some(server) {
            continue;
        }
        let DeferrableServer { capacity_ns: runtime_ns, period_ns } = server;
        let scheduling = Scheduling::Deadline { runtime_ns, period_ns };
        let given = if number == last && thread.server.is_none() {
            until_free(|| threads::set_scheduling(thread.thread, scheduling), budget.period_ns)
        } else {
            threads::set_scheduling(thread.thread, scheduling)
        };
        match given {
            Ok(()) => thread.server = Some(server),
            // It keeps the smaller share, until queries come or go again.
            Err(error) if thread.server.is_some() && is_busy(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// How many queries have workers here. Workers of no query are one query together.
fn count(members: &[Thread]) -> usize {
    let mut queries: Vec<Option<*const QueryIdentity>> = members
        .iter()
        .filter(|thread| thread.role != Role::Receiver)
        .map(|thread| thread.query.as_ref().map(Arc::as_ptr))
        .collect();
    queries.sort_unstable();
    queries.dedup();
    queries.len()
}

/// Whether the kernel refuses a thread because others have the share of the processors that it would need.
pub(super) fn is_busy(error: &Error) -> bool {
    error.kind() == std::io::ErrorKind::ResourceBusy
}

/// Asks again while the kernel says that others have it, for at most two periods.
fn until_free(ask: impl Fn() -> Result<()>, period_ns: u64) -> Result<()> {
    let tries = 2 * period_ns / LOOK.as_nanos() as u64;
    for _ in 0..tries {
        match ask() {
            Err(error) if is_busy(&error) => std::thread::sleep(LOOK),
            asked => return asked,
        }
    }
    ask()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const BUDGET: DeferrableServer = DeferrableServer { capacity_ns: 40 * MS, period_ns: 100 * MS };

    fn share(queries: usize, deadline_ms: Option<u64>) -> DeferrableServer {
        Share { workers: 2, queries, deadline: deadline_ms.map(Duration::from_millis) }.of(BUDGET)
    }

    #[test]
    fn periods_follow_deadlines() {
        let server = |capacity_ns, period_ns| DeferrableServer { capacity_ns, period_ns };
        assert_eq!(share(1, None), server(20 * MS, 100 * MS));
        assert_eq!(share(2, Some(250)), server(10 * MS, 100 * MS));
        assert_eq!(share(2, Some(60)), server(6 * MS, 60 * MS));
        // No share is smaller than the timers are precise.
        assert_eq!(share(2, Some(0)).period_ns, MS + 1);
        assert_eq!(share(100, Some(1)).period_ns, 50 * MS + 1);
        assert_eq!(share(1000, Some(1)), server(MS / 50, 100 * MS));
    }

    #[test]
    fn all_shares_together_are_not_more_than_the_budget() {
        let deadlines = [None, Some(0), Some(1), Some(3), Some(7), Some(31), Some(99), Some(1000)];
        for queries in 1..=deadlines.len() {
            let parts = deadlines[..queries].iter().map(|deadline| {
                let DeferrableServer { capacity_ns, period_ns } = share(queries, *deadline);
                // Of both workers.
                2.0 * capacity_ns as f64 / period_ns as f64
            });
            let all: f64 = parts.sum();
            assert!((0.39..=0.4 + 1e-12).contains(&all), "{queries}: {all}");
        }
    }
}
