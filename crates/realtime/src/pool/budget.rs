//! The deferrable server of a pool: a thread of a higher priority that reads how long the pool's threads have run, and
//! takes their priority away when the budget is used up, even in the middle of an activation.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Membership, Policy, PoolError, PoolState, Role, Thread, lock};
use crate::analysis::DeferrableServer;
use crate::threads::{self, Scheduling};

/// How soon it looks again at the earliest. A shorter time would cost more than it finds.
const LOOK_NS_MIN: u64 = 50_000;

/// How soon it looks again after a period in which nothing was used. Workers wake it before.
const IDLE_WAIT: Duration = Duration::from_secs(10);

/// The same if there are threads that read sources: they do not wake it, so it looks before they can have used up the budget. A
/// shorter time would cost too much while nothing happens.
const LOOK_FOR_READERS_NS_MIN: u64 = 1_000_000;

struct Enforcer {
    shared: Arc<PoolState>,
    budget: DeferrableServer,
    /// The start of the present period, from the start of the pool.
    period_start_ns: u64,
    /// When the budget was used up.
    emptied_ns: u64,
    /// What is left of the budget. Less than 0 if more was used before that was noticed; the next budget pays for it.
    left_ns: i64,
    /// Whether anything was used in this period.
    is_used: bool,
    /// How long it took to look at the members.
    look_ns: u64,
    /// How many of them can run at once.
    cores: u64,
}

/// While many threads wait for their connections, looking at them takes this part of a core at most. It then sees later that
/// the budget is used up.
const LOOK_SHARE: u64 = 20;

/// Starts the thread, and waits until it has its priority. It goes before the pool; an ordinary pool has an ordinary one.
pub(super) fn start(shared: &Arc<PoolState>) -> Result<JoinHandle<()>, PoolError> {
    let Some(budget) = shared.settings.enforced_budget() else {
        return Err(shared.no_thread(&std::io::Error::other("there is no budget to enforce")));
    };
    let (given, of_thread) = (Arc::clone(shared), Arc::clone(shared));
    let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
    let body = move || {
        let scheduling = match given.settings.policy {
            Policy::Fifo { priority } | Policy::RoundRobin { priority } => Scheduling::Fifo(priority + 1),
            Policy::Other | Policy::Deadline => Scheduling::Ordinary,
        };
        // Its pool has been tried out, so a refusal was an error already, or best effort.
        let _ = threads::set_scheduling(threads::thread_id(), scheduling);
        let _ = ready.send(());
        let left_ns = budget.capacity_ns as i64;
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let (period_start_ns, emptied_ns, is_used, look_ns) = (0, 0, false, 0);
        let shared = given;
        Enforcer { shared, budget, period_start_ns, emptied_ns, left_ns, is_used, look_ns, cores }.run();
    };
    let spawned = std::thread::Builder::new().name("pool-budget".into()).spawn(body);
    let spawned = spawned.map_err(|error| of_thread.no_thread(&error))?;
    // While it is ordinary, a member could keep it from running.
    let _ = is_ready.recv();
    Ok(spawned)
}

impl Enforcer {
    fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let mut state = lock(&shared.state);
        while !shared.ended.load(Ordering::SeqCst) {
            let look_from_ns = self.now_ns();
            let used_ns = charge(&mut state.members);
            let now_ns = self.now_ns();
            self.look_ns = now_ns - look_from_ns;
            if !shared.is_empty.load(Ordering::SeqCst) {
                self.left_ns = self.left_ns.saturating_sub(i64::try_from(used_ns).unwrap_or(i64::MAX));
                self.is_used |= used_ns > 0;
            }
            let mut is_idle = false;
            if now_ns >= self.period_end_ns() {
                is_idle = !self.is_used && !shared.is_empty.load(Ordering::SeqCst);
                self.refill(now_ns, &state);
            } else if self.left_ns <= 0 && !shared.is_empty.load(Ordering::SeqCst) {
                self.empty(&state);
            }
            state = self.wait(state, is_idle);
        }
        // Nobody waits for a budget that is refilled no more.
        self.set_empty(false, &state);
    }

    fn now_ns(&self) -> u64 {
        self.shared.now_ns()
    }

    fn period_end_ns(&self) -> u64 {
        self.period_start_ns.saturating_add(self.budget.period_ns)
    }

    /// Full again, less what was used too much. Periods keep their phase.
    fn refill(&mut self, now_ns: u64, state: &Membership) {
        let periods = (now_ns - self.period_start_ns) / self.budget.period_ns;
        self.period_start_ns += periods * self.budget.period_ns;
        let (capacity_ns, periods) =
            (self.budget.capacity_ns as i64, i64::try_from(periods).unwrap_or(i64::MAX));
        self.left_ns =
            self.left_ns.min(0).saturating_add(capacity_ns.saturating_mul(periods)).min(capacity_ns);
        self.is_used = false;
        if self.shared.is_empty.load(Ordering::SeqCst) && self.left_ns > 0 {
            self.set_empty(false, state);
            // Without it, a miss is explained less well.
            if let Ok(mut trace) = self.shared.trace.try_lock() {
                trace.had_no_budget(self.emptied_ns, now_ns);
            }
        }
    }

    fn empty(&mut self, state: &Membership) {
        self.emptied_ns = self.now_ns();
        self.set_empty(true, state);
        self.shared.emptied.fetch_add(1, Ordering::Relaxed);
        self.shared.overrun_ns_max.fetch_max(self.left_ns.unsigned_abs(), Ordering::Relaxed);
    }

    fn set_empty(&self, is_empty: bool, state: &Membership) {
        self.shared.is_empty.store(is_empty, Ordering::SeqCst);
        for thread in &state.members {
            // It could be given to it once, so it can again; it has not ended, for it leaves under the lock.
            let _ = threads::set_scheduling(
                thread.thread,
                self.shared.scheduling(thread.role, thread.level.load(Ordering::SeqCst)),
            );
        }
        // After the promotion: who holds this lock can run.
        let _waiting = lock(&self.shared.waiting);
        self.shared.refilled.notify_all();
    }

    /// Until the budget may be empty, or full again. After a period in which nothing was used, until something is.
    fn wait<'a>(&self, state: MutexGuard<'a, Membership>, is_idle: bool) -> MutexGuard<'a, Membership> {
        // Threads run beside each other, so the budget may be used faster than time passes.
        let threads = self.shared.settings.workers.max(state.members.len()) as u64;
        let (at_once, soonest_ns) = (threads.clamp(1, self.cores), self.look_ns.saturating_mul(LOOK_SHARE));
        let refill_ns = self.period_end_ns().saturating_sub(self.now_ns()).max(1);
        let wait_ns = if self.shared.is_empty.load(Ordering::SeqCst) {
            refill_ns
        } else {
            (self.left_ns.max(0) as u64 / at_once).max(LOOK_NS_MIN).max(soonest_ns).min(refill_ns)
        };
        let has_readers = state.members.iter().any(|thread| thread.role == Role::Receiver);
        let wait = match (is_idle, has_readers) {
            (true, true) => Duration::from_nanos(wait_ns.max(LOOK_FOR_READERS_NS_MIN)),
            (true, false) => IDLE_WAIT,
            (false, _) => Duration::from_nanos(wait_ns),
        };
        self.shared.is_idle.store(is_idle, Ordering::SeqCst);
        let waited = wait_on(&self.shared, state, wait);
        self.shared.is_idle.store(false, Ordering::SeqCst);
        waited
    }
}

fn wait_on<'a>(
    shared: &PoolState,
    state: MutexGuard<'a, Membership>,
    wait: Duration,
) -> MutexGuard<'a, Membership> {
    let waited = shared.used.wait_timeout(state, wait);
    waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0
}

/// How long the members have run since they were last asked.
fn charge(members: &mut [Thread]) -> u64 {
    let mut used_ns = 0_u64;
    for thread in members {
        // A member that could not be read has used nothing that could be charged.
        let cpu_ns = threads::cpu_time_ns(thread.thread).unwrap_or(thread.cpu_ns);
        used_ns = used_ns.saturating_add(cpu_ns.saturating_sub(thread.cpu_ns));
        thread.cpu_ns = cpu_ns;
    }
    used_ns
}
