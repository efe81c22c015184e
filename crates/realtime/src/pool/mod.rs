//! Pools: threads with a policy, cores and a budget.
#![expect(
    clippy::disallowed_types,
    reason = "parking_lot has one table of waiting threads: an ordinary one, preempted there, could delay ours"
)]

mod budget;
mod enrolment;
mod identity;
mod levels;
mod member;
mod query;
mod role;
mod settings;
mod shares;
mod status;
mod trace;
mod with;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Instant;

use thiserror::Error;

use crate::analysis::DeferrableServer;
use crate::threads::{self, Scheduling};
use identity::QueryIdentity;
use levels::level_of;
pub use member::{Member, TakenIn};
pub use query::PoolQuery;
pub use role::Role;
pub use settings::{Affinity, Policy, PoolSettings, WhenEmpty};
pub use status::{PoolObserver, PoolStatus};
pub use trace::WhatRan;
use trace::{Noted, Trace};

/// A pool cannot get what it asks for. The message says what is missing, and what to do.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("pool '{pool}': {reason}")]
pub struct PoolError {
    /// The pool's name.
    pub pool: String,
    /// What is missing and why, and the remedy.
    pub reason: String,
}

/// A set of threads with a scheduling policy, cores and a CPU budget. Threads [join](Pool::join) it when they have been
/// started and prepared, and are ordinary again when they leave.
///
/// ```
/// use tidemill_realtime::{Policy, Pool, PoolSettings, Role};
///
/// // Ordinary threads need no privilege. Policy::Fifo { priority: 26 } needs CAP_SYS_NICE or a limit of RLIMIT_RTPRIO.
/// let pool = Pool::start(PoolSettings { policy: Policy::Other, ..PoolSettings::new("control") })?;
/// let member = pool.join(Role::Worker(0))?;
/// assert_eq!(pool.status().members, 1);
/// drop(member);
/// assert_eq!(pool.status().members, 0);
/// # Ok::<(), tidemill_realtime::PoolError>(())
/// ```
#[derive(Debug)]
pub struct Pool {
    shared: Arc<PoolState>,
    /// Enforces the budget, if there is one.
    enforcer: Mutex<Option<JoinHandle<()>>>,
}

/// What the pool's threads share with the one that enforces its budget.
#[derive(Debug)]
struct PoolState {
    settings: PoolSettings,
    /// Taken by members while they have the pool's priority, and by the enforcer: a thread of a lower priority that held it could
    /// be kept from running by the pool, and the budget would not be enforced.
    state: Mutex<Membership>,
    /// Wakes the enforcer.
    used: Condvar,
    /// Members that wait for the budget.
    waiting: Mutex<()>,
    refilled: Condvar,
    /// What could not be had.
    missing: Mutex<Vec<String>>,
    members: AtomicU64,
    next_member: AtomicU64,
    ended: AtomicBool,
    /// Whether the budget is empty.
    is_empty: AtomicBool,
    /// Whether threads that run only when nothing else wants to may come back from that.
    may_idle: AtomicBool,
    /// Whether the enforcer waits for a member to do something.
    is_idle: AtomicBool,
    used_ns: AtomicU64,
    emptied: AtomicU64,
    overrun_ns_max: AtomicU64,
    activation_ns_max: AtomicU64,
    queued_ns: AtomicU64,
    deadline_misses: AtomicU64,
    /// Its lock is tried, and waited for only by threads that come or go, while they are ordinary.
    trace: Mutex<Trace>,
    started: Instant,
}

#[derive(Debug, Default)]
struct Membership {
    members: Vec<Thread>,
}

/// A member, as the enforcer sees it.
#[derive(Debug)]
struct Thread {
    member: u64,
    thread: i32,
    role: Role,
    query: Option<Arc<QueryIdentity>>,
    /// How many priorities it is below the pool's.
    level: Arc<AtomicU32>,
    /// What the kernel has given it, where the kernel enforces the budget.
    server: Option<DeferrableServer>,
    /// Its processor time when it was last read.
    cpu_ns: u64,
}

impl Pool {
    /// Starts a pool without members. What it asks for is tried out with a thread of its own, so that a missing privilege is
    /// reported here.
    ///
    /// # Errors
    /// If the settings contradict each other, or the operating system refuses what they ask for and `best_effort` is not set.
    pub fn start(settings: PoolSettings) -> Result<Arc<Pool>, PoolError> {
        settings.check()?;
        let trace = Mutex::new(Trace::of_cores(&settings.cores));
        let shared = Arc::new(PoolState {
            settings,
            trace,
            queued_ns: AtomicU64::new(0),
            deadline_misses: AtomicU64::new(0),
            state: Mutex::default(),
            used: Condvar::new(),
            waiting: Mutex::default(),
            missing: Mutex::default(),
            members: AtomicU64::new(0),
            next_member: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            refilled: Condvar::new(),
            is_empty: AtomicBool::new(false),
            may_idle: AtomicBool::new(true),
            is_idle: AtomicBool::new(false),
            used_ns: AtomicU64::new(0),
            emptied: AtomicU64::new(0),
            overrun_ns_max: AtomicU64::new(0),
            activation_ns_max: AtomicU64::new(0),
            started: Instant::now(),
        });
        shared.check_throttling()?;
        if shared.settings.lock_memory {
            let locked = threads::lock_memory();
            shared.had(locked, "memory cannot be locked", "raise the limit of locked memory (ulimit -l)")?;
        }
        shared.try_out()?;
        let enforcer = match shared.settings.enforced_budget() {
            Some(_) => Some(budget::start(&shared)?),
            None => None,
        };
        Ok(Arc::new(Pool { shared, enforcer: Mutex::new(enforcer) }))
    }

    /// Makes the calling thread a member that belongs to no [query](PoolQuery): it gets the pool's policy and cores until the membership is dropped, on the same thread.
    /// Prepare everything before: a member should neither start threads nor allocate much.
    ///
    /// # Errors
    /// If the operating system refuses what the pool asks for.
    pub fn join(self: &Arc<Self>, role: Role) -> Result<Member, PoolError> {
        Member::join(Arc::clone(&self.shared), role, None)
    }

    /// How it was set up.
    pub fn settings(&self) -> &PoolSettings {
        &self.shared.settings
    }

    /// Reads what it has done, also when it has ended.
    pub fn observer(&self) -> PoolObserver {
        PoolObserver::new(Arc::clone(&self.shared))
    }

    /// What it has done so far.
    pub fn status(&self) -> PoolStatus {
        self.shared.status()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        {
            let _state = lock(&self.shared.state);
            self.shared.ended.store(true, Ordering::SeqCst);
            self.shared.used.notify_all();
        }
        let enforcer = self.enforcer.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(enforcer) = enforcer.take() {
            let _ = enforcer.join();
        }
    }
}

/// Locks even if another thread has panicked: what is locked here is consistent at every step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl PoolState {
    /// A result of the operating system: an error, or, with best effort, something that is missing.
    fn had(&self, result: std::io::Result<()>, what: &str, remedy: &str) -> Result<(), PoolError> {
        let Err(error) = result else { return Ok(()) };
        let reason = format!("{what}: {error}; {remedy}");
        if !self.settings.best_effort {
            let reason = format!("{reason}, or set best_effort = true to run without it");
            return Err(PoolError { pool: self.settings.name.clone(), reason });
        }
        let mut missing = lock(&self.missing);
        if !missing.contains(&reason) {
            missing.push(reason);
        }
        Ok(())
    }

    /// The kernel keeps a part of the processors for ordinary threads, which is what saves a machine from a loop at real-time
    /// priority. A budget above its share could not be used.
    fn check_throttling(&self) -> Result<(), PoolError> {
        let (Some(budget), Some((runtime, period))) = (self.settings.budget, threads::throttled_share())
        else {
            return Ok(());
        };
        let wanted = u128::from(budget.capacity_ns) * u128::from(period);
        let left = u128::from(runtime) * u128::from(budget.period_ns) * self.settings.workers as u128;
        if self.settings.policy == Policy::Other || wanted <= left {
            return Ok(());
        }
        let refused = Err(std::io::Error::other(format!(
            "the kernel leaves {runtime} of {period} us of a core to real-time threads"
        )));
        self.had(
            refused,
            "the budget is more than its threads may use",
            "lower the budget, or raise sched_rt_runtime_us",
        )
    }

    /// Whether a thread may have what each member would have.
    fn try_out(self: &Arc<Self>) -> Result<(), PoolError> {
        let shared = Arc::clone(self);
        let body = move || -> Result<(), PoolError> {
            for worker in 0..shared.settings.workers {
                drop(Member::join(Arc::clone(&shared), Role::Worker(worker), None)?);
            }
            drop(Member::join(Arc::clone(&shared), Role::Receiver, None)?);
            // Last of all, because this thread may not come back from that.
            shared.try_to_idle();
            Ok(())
        };
        let trial = std::thread::Builder::new().name("pool-trial".into()).spawn(body);
        let trial = trial.map_err(|error| self.no_thread(&error))?;
        let tried = trial.join();
        // A trial is not work of the pool.
        *lock(&self.trace) = Trace::of_cores(&self.settings.cores);
        for counted in [&self.used_ns, &self.queued_ns, &self.activation_ns_max] {
            counted.store(0, Ordering::Relaxed);
        }
        tried.unwrap_or_else(|_| Err(self.no_thread(&std::io::Error::other("it panicked"))))
    }

    /// A thread that has given way to all others may need a privilege to come back. Without it, threads do not give way so far.
    fn try_to_idle(&self) {
        let (thread, settings) = (threads::thread_id(), &self.settings);
        let gives_way = settings.policy == Policy::Other || settings.when_empty == WhenEmpty::Pause;
        if !gives_way || settings.enforced_budget().is_none() {
            return;
        }
        let idled = threads::set_scheduling(thread, Scheduling::Idle);
        let Err(error) = idled.and_then(|()| threads::set_scheduling(thread, Scheduling::Ordinary)) else {
            return;
        };
        self.may_idle.store(false, Ordering::SeqCst);
        lock(&self.missing).push(format!(
            "while the budget is empty, its threads do not give way to all others, because they could not come \
             back: {error}; grant CAP_SYS_NICE (setcap cap_sys_nice=ep) or a limit of nice values (ulimit -e 20)"
        ));
    }

    fn no_thread(&self, error: &std::io::Error) -> PoolError {
        let reason = format!("cannot start a thread: {error}; raise the limit of threads (ulimit -u)");
        PoolError { pool: self.settings.name.clone(), reason }
    }

    fn count(&self, noted: Noted) {
        self.used_ns.fetch_add(noted.used_ns, Ordering::Relaxed);
        self.queued_ns.fetch_add(noted.queued_ns, Ordering::Relaxed);
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Adds a member; what the others have changes accordingly.
    fn add(&self, state: &mut Membership, new: Thread) -> std::io::Result<()> {
        let (thread, role) = (new.thread, new.role);
        state.members.push(new);
        if let Err(error) = self.order(state) {
            state.members.pop();
            let _ = self.order(state);
            return Err(error);
        }
        self.members.store(state.members.len() as u64, Ordering::Relaxed);
        if self.is_empty.load(Ordering::SeqCst) {
            let _ = threads::set_scheduling(thread, self.scheduling(role, 0));
        }
        self.used.notify_all();
        Ok(())
    }

    /// The queries have changed: each member gets its place in the order of their deadlines, or its share of the budget. Only
    /// a share may be refused.
    fn order(&self, state: &mut Membership) -> std::io::Result<()> {
        if let (Policy::Deadline, Some(budget)) = (self.settings.policy, self.settings.budget) {
            return shares::give(&mut state.members, self.settings.workers, budget);
        }
        let mut deadlines: Vec<_> =
            state.members.iter().filter_map(|thread| Some(thread.query.as_ref()?.deadline)).collect();
        // Many threads of few queries.
        deadlines.sort_unstable();
        deadlines.dedup();
        for thread in &state.members {
            let Some(query) = &thread.query else { continue };
            let level = level_of(query.deadline, deadlines.iter().copied(), self.settings.levels());
            if thread.level.swap(level, Ordering::SeqCst) != level {
                // It could be given to it once, so it can again; it has not ended, for it leaves under the lock.
                let _ = threads::set_scheduling(thread.thread, self.scheduling(thread.role, level));
            }
        }
        Ok(())
    }

    /// How a member is scheduled while the budget lasts, or while it is empty.
    fn scheduling(&self, role: Role, level: u32) -> Scheduling {
        if self.is_empty.load(Ordering::SeqCst) {
            return match self.settings.when_empty {
                WhenEmpty::Ordinary if self.settings.policy != Policy::Other => Scheduling::Ordinary,
                _ if self.may_idle.load(Ordering::SeqCst) => Scheduling::Idle,
                _ => Scheduling::Ordinary,
            };
        }
        self.settings.scheduling(role, level)
    }
}
