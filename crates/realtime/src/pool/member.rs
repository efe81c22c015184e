//! A thread's membership of a pool.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::identity::QueryIdentity;
use super::{Membership, PoolError, PoolState, Role, Thread, WhenEmpty, lock};
use crate::threads::{self, Scheduling};

/// The membership of the thread that joined. While it lasts, the thread has the pool's policy and cores; its processor time is
/// charged to the pool's budget.
#[derive(Debug)]
pub struct Member {
    shared: Arc<PoolState>,
    /// `None` if it could not be promoted.
    number: Option<u64>,
    thread: i32,
    role: Role,
    /// How many priorities it is below the pool's.
    level: Arc<AtomicU32>,
    /// The cores that it had before.
    cores: Option<Vec<usize>>,
    /// Its processor time when its last activation ended.
    cpu_ns: u64,
    /// It leaves on the thread that joined.
    thread_bound: PhantomData<*const ()>,
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
        let thread = threads::thread_id();
        let mut member = Member {
            shared,
            number: None,
            thread,
            role,
            level: Arc::default(),
            cores: None,
            cpu_ns: 0,
            thread_bound: PhantomData,
        };
        member.cpu_ns = member.cpu_time_ns();
        member.set_cores()?;
        member.promote(query)?;
        Ok(member)
    }

    fn set_cores(&mut self) -> Result<(), PoolError> {
        let cores = self.shared.settings.cores_of(self.role);
        if cores.is_empty() {
            return Ok(());
        }
        self.cores = threads::cores_of(self.thread).ok();
        let names: Vec<String> = cores.iter().map(usize::to_string).collect();
        let what = format!("its threads cannot run on core {} alone", names.join(", "));
        self.shared.had(threads::set_cores(self.thread, &cores), &what, "name cores that the process may use")
    }

    /// Last of all, so that nothing before it runs at the pool's priority; and before it takes the lock.
    fn promote(&mut self, query: Option<&Arc<QueryIdentity>>) -> Result<(), PoolError> {
        let shared = Arc::clone(&self.shared);
        let (thread, role) = (self.thread, self.role);
        let promoted = threads::set_scheduling(thread, shared.settings.scheduling(role, 0));
        if promoted.is_ok() {
            let mut state = lock(&shared.state);
            let member = state.next_member;
            self.number = Some(member);
            state.next_member += 1;
            let (level, cpu_ns) = (Arc::clone(&self.level), self.cpu_ns);
            state.members.push(Thread { member, thread, role, query: query.cloned(), level, cpu_ns });
            shared.members.store(state.members.len() as u64, Ordering::Relaxed);
            shared.order(&state);
            if shared.is_empty.load(Ordering::SeqCst) {
                let _ = threads::set_scheduling(thread, shared.scheduling(role, 0));
            }
            shared.used.notify_all();
            drop(state);
            if let Ok(mut trace) = shared.trace.try_lock() {
                trace.joined(member, query, thread, (shared.now_ns(), cpu_ns));
            }
        }
        let what = format!("its threads cannot be scheduled as '{}'", shared.settings.policy_name());
        let remedy = "grant CAP_SYS_NICE (setcap cap_sys_nice=ep) or a real-time limit (ulimit -r)";
        shared.had(promoted, &what, remedy)
    }

    /// Call this between activations: before work, and after it. It counts how long the last one took, wakes what enforces the
    /// budget, and, where the pool pauses, waits until the budget is refilled or `stop` says that there is nothing to do any more.
    pub fn between_activations(&mut self, stop: impl Fn() -> bool) {
        self.count_activation();
        if self.shared.is_idle.load(Ordering::SeqCst) {
            // With the lock, so that it does wait already.
            self.with_state(|_| self.shared.used.notify_all());
        }
        if self.shared.settings.when_empty == WhenEmpty::Pause && self.shared.is_empty.load(Ordering::SeqCst)
        {
            self.wait_for_budget(stop);
        }
    }

    fn count_activation(&mut self) {
        let shared = &self.shared;
        let cpu_ns = self.cpu_time_ns();
        let used_ns = cpu_ns.saturating_sub(self.cpu_ns);
        self.cpu_ns = cpu_ns;
        shared.used_ns.fetch_add(used_ns, Ordering::Relaxed);
        shared.activation_ns_max.fetch_max(used_ns, Ordering::Relaxed);
        if let (Some(number), Ok(mut trace)) = (self.number, shared.trace.try_lock()) {
            let queued_ns = trace.activation_ended(number, shared.now_ns(), cpu_ns);
            shared.queued_ns.fetch_add(queued_ns, Ordering::Relaxed);
        }
    }

    /// Uses the pool's state at the pool's own priority: at a lower one, a query with a shorter deadline could keep this thread
    /// from giving the lock back, and the budget would not be enforced.
    fn with_state(&self, body: impl FnOnce(&mut Membership)) {
        let shared = &self.shared;
        let is_lower = self.level.load(Ordering::SeqCst) > 0;
        if is_lower && !shared.is_empty.load(Ordering::SeqCst) {
            let _ = threads::set_scheduling(self.thread, shared.settings.scheduling(self.role, 0));
        }
        body(&mut lock(&shared.state));
        if !is_lower {
            return;
        }
        // Without the lock; what another thread changes meanwhile is done again.
        let now = || shared.scheduling(self.role, self.level.load(Ordering::SeqCst));
        let mut given = now();
        while threads::set_scheduling(self.thread, given).is_ok() && given != now() {
            given = now();
        }
    }

    fn wait_for_budget(&self, stop: impl Fn() -> bool) {
        let shared = &self.shared;
        let mut waiting = lock(&shared.waiting);
        while shared.is_empty.load(Ordering::SeqCst) && !shared.ended.load(Ordering::SeqCst) && !stop() {
            let waited = shared.refilled.wait_timeout(waiting, STOP_LOOK);
            waiting = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    fn cpu_time_ns(&self) -> u64 {
        threads::cpu_time_ns(self.thread).unwrap_or(0)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.count_activation();
            if let Ok(mut trace) = self.shared.trace.try_lock() {
                trace.left(number);
            }
            // From here on, what enforces the budget leaves it alone.
            self.with_state(|state| {
                state.members.retain(|thread| thread.member != number);
                self.shared.members.store(state.members.len() as u64, Ordering::Relaxed);
                self.shared.order(state);
            });
        }
        // To be ordinary needs no privilege, so this does not fail.
        let _ = threads::set_scheduling(self.thread, Scheduling::Ordinary);
        if let Some(cores) = &self.cores {
            let _ = threads::set_cores(self.thread, cores);
        }
    }
}

/// Touches the pages of the stack that will be used, so that they are there afterwards.
#[inline(never)]
fn touch_stack() {
    let pages = [1_u8; STACK_BYTES];
    std::hint::black_box(&pages);
}
