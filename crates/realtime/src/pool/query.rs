//! A query of a pool: its threads belong together, and go before those of queries with a longer deadline.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::identity::QueryIdentity;
use super::trace::WhatRan;
use super::{Member, Pool, PoolError, PoolSettings, PoolStatus, Role, TakenIn};

/// A query in a pool. Its threads join the pool through it.
///
/// Where the policy has priorities, queries of a pool run in the order of their deadlines: the pool takes one priority for each
/// deadline, from its own downwards, at most [`PoolSettings::LEVELS_MAX`]. Queries without a deadline go last.
///
/// ```
/// use std::time::Duration;
/// use tidemill_realtime::{Pool, PoolQuery, PoolSettings, Role};
///
/// let pool = Pool::start(PoolSettings::new("control"))?;
/// let alarms = PoolQuery::new(&pool, "alarms", Some(Duration::from_millis(20)));
/// let mut member = alarms.join(Role::Worker(0))?;
/// member.between_activations(|| false);
/// assert_eq!(alarms.what_ran(Duration::from_secs(1)).unwrap().others, []);
/// # drop(member);
/// # Ok::<(), tidemill_realtime::PoolError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PoolQuery {
    pool: Arc<Pool>,
    identity: Arc<QueryIdentity>,
}

impl PoolQuery {
    /// A query of this name, whose answers are due within this time.
    pub fn new(pool: &Arc<Pool>, name: impl Into<String>, deadline: Option<Duration>) -> Self {
        let identity = Arc::new(QueryIdentity { name: name.into(), deadline });
        PoolQuery { pool: Arc::clone(pool), identity }
    }

    /// Makes the calling thread a member of the pool, as a thread of this query. See [`Pool::join`].
    ///
    /// # Errors
    /// If the operating system refuses what the pool asks for.
    pub fn join(&self, role: Role) -> Result<Member, PoolError> {
        Member::join(Arc::clone(&self.pool.shared), role, Some(&self.identity))
    }

    /// Makes another thread of this process a member that reads a source or writes to a sink, by the number that the
    /// system has given it, also if it waits for something. The calling thread is that thread, or a thread of this
    /// query that has joined. Any other one is an ordinary thread afterwards.
    ///
    /// # Errors
    /// If there is no such thread, or the operating system refuses what the pool asks for.
    pub fn take_in(&self, thread: i32) -> Result<TakenIn, PoolError> {
        TakenIn::of(Arc::clone(&self.pool.shared), thread, &self.identity)
    }

    /// How its pool was set up.
    pub fn settings(&self) -> &PoolSettings {
        self.pool.settings()
    }

    /// What its pool has done so far.
    pub fn status(&self) -> PoolStatus {
        self.pool.status()
    }

    /// Counts answers that were late.
    pub fn count_misses(&self, answers: u64) {
        self.pool.shared.deadline_misses.fetch_add(answers, Ordering::Relaxed);
    }

    /// What ran within the time up to now; `None` if the trace is in use at this moment: nobody waits for it.
    pub fn what_ran(&self, window: Duration) -> Option<WhatRan> {
        let shared = &self.pool.shared;
        let trace = shared.trace.try_lock().ok()?;
        Some(trace.what_ran(&self.identity, shared.now_ns(), window))
    }
}
