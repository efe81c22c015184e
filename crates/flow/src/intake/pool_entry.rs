//! The way of threads that read a source into the pool of its query.

use std::sync::Arc;

use tidemill_core::{GroupMembership, SourceThreads, ThreadGroup};
use tidemill_realtime::{Member, Role};

use crate::run_state::RunState;

/// Lets the threads that read a source into the pool of its query: [`Gateway::pool_entry`](super::gateway::Gateway::pool_entry).
#[derive(Clone)]
pub struct PoolEntry(Arc<RunState>);

/// Threads that read a source are in the pool of its query until this is dropped, on the thread that polls it.
#[must_use]
pub struct SourceMembership {
    // Dropped first: only a member may let the others go.
    _threads: Option<GroupMembership>,
    _own: Option<Member>,
}

impl PoolEntry {
    pub(super) fn new(run_state: Arc<RunState>) -> PoolEntry {
        PoolEntry(run_state)
    }

    /// Makes the calling thread a member, if the query runs in a pool, until the membership is dropped. If that fails, the query
    /// does.
    pub fn join(&self) -> Option<Member> {
        let joined = self.0.join_pool(Role::Receiver);
        joined.unwrap_or_else(|failure| {
            self.0.fail(failure);
            None
        })
    }

    /// The same, together with the threads that the source has and will have. Call it on the thread that polls the source.
    pub fn join_with(self, threads: Option<SourceThreads>) -> SourceMembership {
        let own = self.join();
        let threads = threads.filter(|_| own.is_some());
        SourceMembership { _threads: threads.map(|threads| threads.belong_to(Arc::new(self))), _own: own }
    }
}

impl ThreadGroup for PoolEntry {
    fn take_in(&self, thread: i32) -> Box<dyn Send> {
        match self.0.take_into_pool(thread) {
            Ok(membership) => Box::new(membership),
            Err(failure) => {
                self.0.fail(failure);
                Box::new(())
            }
        }
    }
}
