//! Where the parts of a query tell of what they could not do for single rows, while the query goes on.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::source::Faults;

/// Faults of one kind, counted together by all of its clones. They are a statistic and no part of the state: a replay
/// counts again.
///
/// ```
/// let log = tidemill_core::FaultLog::default();
/// log.clone().add(|| "Divide by zero error; the row is a: 7, b: 0".to_owned());
/// assert_eq!(log.read().count, 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct FaultLog(Arc<Mutex<Faults>>);

impl FaultLog {
    /// Counts a fault. Only the first few are described, so the text is made when it is wanted.
    pub fn add(&self, text: impl FnOnce() -> String) {
        let mut faults = self.lock();
        match faults.samples.len() < Faults::SAMPLES_MAX {
            true => faults.add(text()),
            false => faults.count += 1,
        }
    }

    /// Those so far.
    pub fn read(&self) -> Faults {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Faults> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
