//! The enrolment of a thread in a pool: the thread has the pool's policy and cores as long as this lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::identity::QueryIdentity;
use super::{Membership, Policy, PoolError, PoolState, Role, Thread, lock, shares};
use crate::threads::{self, Scheduling};

/// It begins and ends on the thread itself, or on another member's.
#[derive(Debug)]
pub(super) struct Enrolment {
    pub shared: Arc<PoolState>,
    /// `None` if it could not be promoted.
    pub number: Option<u64>,
    thread: i32,
    pub role: Role,
    /// How many priorities it is below the pool's.
    level: Arc<AtomicU32>,
    /// The cores that it had before.
    cores: Option<Vec<usize>>,
}

impl Enrolment {
    pub fn begin(
        shared: Arc<PoolState>,
        thread: i32,
        role: Role,
        query: Option<&Arc<QueryIdentity>>,
    ) -> Result<Enrolment, PoolError> {
        let mut enrolment =
            Enrolment { shared, number: None, thread, role, level: Arc::default(), cores: None };
        enrolment.set_cores()?;
        enrolment.promote(query)?;
        Ok(enrolment)
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

    /// Last of all, so that nothing before it runs at the pool's priority; and before it is seen by what enforces the budget.
    fn promote(&mut self, query: Option<&Arc<QueryIdentity>>) -> Result<(), PoolError> {
        let shared = Arc::clone(&self.shared);
        let (thread, role) = (self.thread, self.role);
        let member = shared.next_member.fetch_add(1, Ordering::Relaxed);
        lock(&shared.trace).joined(member, query, (thread, role), shared.now_ns());
        let promoted = threads::set_scheduling(thread, shared.settings.scheduling(role, 0)).and_then(|()| {
            let (level, cpu_ns) = (Arc::clone(&self.level), self.cpu_time_ns());
            let added_thread =
                Thread { member, thread, role, query: query.cloned(), level, server: None, cpu_ns };
            let mut added = Ok(());
            self.with_state(|state| added = shared.add(state, added_thread));
            added
        });
        match promoted {
            Ok(()) => self.number = Some(member),
            Err(_) => drop(lock(&shared.trace).left(member, shared.now_ns())),
        }
        let what = format!("its threads cannot be scheduled as '{}'", shared.settings.policy_name());
        let remedy = if promoted.as_ref().is_err_and(shares::is_busy) {
            "to the kernel's count, other deadline threads have all that it may give: end them (chrt -p shows the \
             policy of a thread), or lower the budget; if there are none, this kernel has lost count, which a restart \
             of the machine mends"
        } else {
            "grant CAP_SYS_NICE (setcap cap_sys_nice=ep) or a real-time limit (ulimit -r)"
        };
        shared.had(promoted, &what, remedy)
    }

    /// Uses the pool's state at the pool's own priority: at a lower one, a query with a shorter deadline could keep this thread
    /// from giving the lock back, and the budget would not be enforced.
    pub fn with_state(&self, body: impl FnOnce(&mut Membership)) {
        let shared = &self.shared;
        if threads::thread_id() != self.thread {
            return shared.with_state_of_another(body);
        }
        let is_lower = self.level.load(Ordering::SeqCst) > 0;
        if is_lower && !shared.is_empty.load(Ordering::SeqCst) {
            let _ = threads::set_scheduling(self.thread, shared.settings.scheduling(self.role, 0));
        }
        body(&mut lock(&shared.state));
        if is_lower {
            shared.give_back(self.thread, self.role, &self.level);
        }
    }

    pub fn cpu_time_ns(&self) -> u64 {
        threads::cpu_time_ns(self.thread).unwrap_or(0)
    }
}

impl PoolState {
    /// For an enrolment that is not the calling thread's: that has the pool's priority meanwhile, and then its own again.
    fn with_state_of_another(&self, body: impl FnOnce(&mut Membership)) {
        let caller = threads::thread_id();
        let raised = self.settings.scheduling(Role::Receiver, 0);
        let is_raised =
            !self.is_empty.load(Ordering::SeqCst) && threads::set_scheduling(caller, raised).is_ok();
        let own = {
            let mut state = lock(&self.state);
            body(&mut state);
            let own = state.members.iter().find(|thread| thread.thread == caller);
            own.map(|thread| (thread.role, Arc::clone(&thread.level)))
        };
        match own {
            _ if !is_raised => {}
            Some((role, level)) => self.give_back(caller, role, &level),
            None => drop(threads::set_scheduling(caller, Scheduling::Ordinary)),
        }
    }

    /// A member is scheduled by its own level again. Without the lock; what another thread changes meanwhile is done again.
    fn give_back(&self, thread: i32, role: Role, level: &AtomicU32) {
        let now = || self.scheduling(role, level.load(Ordering::SeqCst));
        let mut given = now();
        while threads::set_scheduling(thread, given).is_ok() && given != now() {
            given = now();
        }
    }
}

impl Drop for Enrolment {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            if self.shared.settings.policy == Policy::Deadline {
                // Others get its share, so it must not have it any more.
                let _ = threads::set_scheduling(self.thread, Scheduling::Ordinary);
            }
            // From here on, what enforces the budget leaves it alone.
            self.with_state(|state| {
                state.members.retain(|thread| thread.member != number);
                self.shared.members.store(state.members.len() as u64, Ordering::Relaxed);
                // What is refused here was not asked for: others keep what they have.
                let _ = self.shared.order(state);
            });
        }
        // To be ordinary needs no privilege, so this does not fail.
        let _ = threads::set_scheduling(self.thread, Scheduling::Ordinary);
        if let Some(cores) = &self.cores {
            let _ = threads::set_cores(self.thread, cores);
        }
        if let Some(number) = self.number {
            let left = lock(&self.shared.trace).left(number, self.shared.now_ns());
            self.shared.count(left);
        }
    }
}
