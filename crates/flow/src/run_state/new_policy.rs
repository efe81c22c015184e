//! The rule by which cycles close from now on, on its way to the one who closes them.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tidemill_plan::CyclePolicy;

/// A rule that is not followed yet.
#[derive(Default)]
pub(crate) struct NewPolicy {
    is_there: AtomicBool,
    policy: Mutex<Option<CyclePolicy>>,
}

impl NewPolicy {
    pub fn set(&self, policy: CyclePolicy) {
        *self.policy.lock() = Some(policy);
        self.is_there.store(true, Ordering::Release);
    }

    /// Asked at each look for a cycle: without a new rule it takes no lock.
    pub fn take(&self) -> Option<CyclePolicy> {
        if !self.is_there.swap(false, Ordering::AcqRel) {
            return None;
        }
        self.policy.lock().take()
    }
}
