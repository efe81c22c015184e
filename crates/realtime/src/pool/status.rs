//! What a pool has done.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Policy, PoolSettings, PoolState, lock};

/// What a pool has done, counted from its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolStatus {
    /// The threads that belong to it now.
    pub members: usize,
    /// The processor time of its threads.
    pub used: Duration,
    /// The longest activation of one of its workers: processor time from one moment at which it could have stopped to the next.
    pub longest_activation: Duration,
    /// How long its threads were ready, and something else had their processors; all threads together.
    pub queued: Duration,
    /// Answers of its queries that were late.
    pub deadline_misses: u64,
    /// How often the budget was used up.
    pub emptied: u64,
    /// How much more than the budget was used at most before that was noticed.
    pub overrun: Duration,
    /// Whether the budget is empty now.
    pub is_empty: bool,
    /// What the pool asked for and did not get.
    pub missing: Vec<String>,
}

/// Reads what a pool has done, from any thread, while it runs and after.
#[derive(Clone, Debug)]
pub struct PoolObserver(Arc<PoolState>);

impl PoolObserver {
    pub(super) fn new(shared: Arc<PoolState>) -> Self {
        PoolObserver(shared)
    }

    /// What the pool has done so far.
    pub fn status(&self) -> PoolStatus {
        self.0.status()
    }
}

impl PoolState {
    pub(super) fn status(&self) -> PoolStatus {
        // What the threads have used that read sources and write to sinks. If the trace is in use, it is counted next time.
        if let Ok(mut trace) = self.trace.try_lock() {
            self.count(trace.note_receivers(self.now_ns()));
        }
        let time =
            |counter: &std::sync::atomic::AtomicU64| Duration::from_nanos(counter.load(Ordering::Relaxed));
        PoolStatus {
            members: self.members.load(Ordering::Relaxed) as usize,
            used: time(&self.used_ns),
            longest_activation: time(&self.activation_ns_max),
            queued: time(&self.queued_ns),
            deadline_misses: self.deadline_misses.load(Ordering::Relaxed),
            emptied: self.emptied.load(Ordering::Relaxed),
            overrun: time(&self.overrun_ns_max),
            is_empty: self.is_empty.load(Ordering::SeqCst),
            missing: lock(&self.missing).clone(),
        }
    }
}

impl PoolSettings {
    /// The policy as a user writes it.
    pub fn policy_name(&self) -> &'static str {
        match self.policy {
            Policy::Other => "other",
            Policy::Fifo { .. } => "fifo",
            Policy::RoundRobin { .. } => "rr",
            Policy::Deadline => "deadline",
        }
    }
}
