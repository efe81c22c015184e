//! Where the parts of a query report failures that concern single rows, while the query continues.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::source::Faults;

/// Faults of one kind, counted together by all clones. They are a statistic and not part of the state: a replay counts
/// them again.
///
/// ```
/// let log = tidemill_core::FaultLog::default();
/// log.clone().add(|| "Divide by zero error; the row is a: 7, b: 0".to_owned());
/// assert_eq!(log.read().count, 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct FaultLog(Arc<Mutex<Faults>>);

impl FaultLog {
    /// Counts a fault. Only the first few are described, so the text is created only when it is needed.
    pub fn add(&self, text: impl FnOnce() -> String) {
        let mut faults = self.lock();
        if faults.samples.len() < Faults::SAMPLES_MAX { faults.add(text()) } else { faults.count += 1 }
    }

    /// Adds faults that were counted elsewhere, such as in another process of the query.
    ///
    /// ```
    /// use tidemill_core::{FaultLog, Faults};
    /// let (log, mut elsewhere) = (FaultLog::default(), Faults::default());
    /// elsewhere.add("row 7: division by zero");
    /// log.merge(elsewhere);
    /// assert_eq!((log.read().count, log.read().samples.len()), (1, 1));
    /// ```
    pub fn merge(&self, elsewhere: Faults) {
        self.lock().merge(elsewhere);
    }

    /// The faults so far.
    pub fn read(&self) -> Faults {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Faults> {
        self.0.lock()
    }
}
