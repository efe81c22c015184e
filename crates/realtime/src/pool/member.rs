//! A thread's membership of a pool.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::enrolment::Enrolment;
use super::identity::QueryIdentity;
use super::{PoolError, PoolState, Role, WhenEmpty, lock};
use crate::threads;

/// The membership of the thread that joined. While it lasts, the thread has the pool's policy and cores; its processor time is
/// charged to the pool's budget.
#[derive(Debug)]
pub struct Member {
    enrolment: Enrolment,
    /// Its processor time when its last activation ended.
    cpu_ns: u64,
    /// It leaves on the thread that joined.
    thread_bound: PhantomData<*const ()>,
}

/// The membership of a thread that another member has [taken in](super::PoolQuery::take_in). It must be dropped before the
/// thread ends, on that thread or on a member's.
#[derive(Debug)]
pub struct TakenIn {
    _enrolment: Enrolment,
}

/// How much of its stack a thread touches before it is promoted.
const STACK_BYTES: usize = 128 << 10;

/// How often a member that waits for the budget asks whether it should stop.
const STOP_LOOK: Duration = Duration::from_millis(20);

impl Member {
    pub(super) fn join(
        shared: Arc<PoolState>,
        role: Role,
        query: Option<&Arc<QueryIdentity>>,
    ) -> Result<Member, PoolError> {
        touch_stack();
        let enrolment = Enrolment::begin(shared, threads::thread_id(), role, query)?;
        let cpu_ns = enrolment.cpu_time_ns();
        Ok(Member { enrolment, cpu_ns, thread_bound: PhantomData })
    }

    /// A worker calls this between activations: before work, and after it. It counts how long the last one took, wakes what
    /// enforces the budget, and, where the pool pauses, waits until the budget is refilled or `stop` says that there is nothing
    /// to do any more.
    pub fn between_activations(&mut self, stop: impl Fn() -> bool) {
        self.count_activation();
        let shared = &self.enrolment.shared;
        if shared.is_idle.load(Ordering::SeqCst) {
            // With the lock, so that it does wait already.
            self.enrolment.with_state(|_| shared.used.notify_all());
        }
        if shared.settings.when_empty == WhenEmpty::Pause && shared.is_empty.load(Ordering::SeqCst) {
            shared.wait_for_budget(stop);
        }
    }

    fn count_activation(&mut self) {
        let shared = &self.enrolment.shared;
        let cpu_ns = self.enrolment.cpu_time_ns();
        let used_ns = cpu_ns.saturating_sub(self.cpu_ns);
        self.cpu_ns = cpu_ns;
        shared.used_ns.fetch_add(used_ns, Ordering::Relaxed);
        shared.activation_ns_max.fetch_max(used_ns, Ordering::Relaxed);
        if let (Some(number), Ok(mut trace)) = (self.enrolment.number, shared.trace.try_lock()) {
            shared.count(trace.activation_ended(number, shared.now_ns(), cpu_ns));
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // Other threads have no activations: the trace counts what they use.
        if let Role::Worker(_) = self.enrolment.role {
            self.count_activation();
        }
    }
}

impl TakenIn {
    pub(super) fn of(
        shared: Arc<PoolState>,
        thread: i32,
        query: &Arc<QueryIdentity>,
    ) -> Result<TakenIn, PoolError> {
        if let Err(error) = threads::cpu_time_ns(thread) {
            let pool = shared.settings.name.clone();
            let reason = format!("thread {thread} is not one of this process, or has ended: {error}");
            return Err(PoolError { pool, reason });
        }
        if thread == threads::thread_id() {
            touch_stack();
        }
        Ok(TakenIn { _enrolment: Enrolment::begin(shared, thread, Role::Receiver, Some(query))? })
    }
}

impl PoolState {
    fn wait_for_budget(&self, stop: impl Fn() -> bool) {
        let mut waiting = lock(&self.waiting);
        while self.is_empty.load(Ordering::SeqCst) && !self.ended.load(Ordering::SeqCst) && !stop() {
            let waited = self.refilled.wait_timeout(waiting, STOP_LOOK);
            waiting = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }
}

/// Touches the pages of the stack that will be used, so that they are there afterwards.
#[inline(never)]
fn touch_stack() {
    let pages = [1_u8; STACK_BYTES];
    std::hint::black_box(&pages);
}
