//! Why a sink does not get on: its target is away, and it tries again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

/// Whether a sink is waiting for its target, and why. The sink writes it, and any thread reads it; clones refer to the same.
///
/// ```
/// use tidemill_core::SinkOutage;
/// let outage = SinkOutage::default();
/// assert_eq!(outage.read(), None);
/// outage.failed("connection refused");
/// assert_eq!(outage.read().map(|(_, reason)| reason).as_deref(), Some("connection refused"));
/// outage.over();
/// assert_eq!(outage.read(), None);
/// ```
#[derive(Clone, Debug, Default)]
pub struct SinkOutage(Arc<Mutex<Option<(Instant, String)>>>);

impl SinkOutage {
    /// Another attempt has failed for this reason.
    pub fn failed(&self, reason: &str) {
        let mut outage = self.lock();
        let since = outage.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        *outage = Some((since, reason.to_owned()));
    }

    /// The target has answered.
    pub fn over(&self) {
        *self.lock() = None;
    }

    /// For how long it has failed, and why; `None`: it does not.
    pub fn read(&self) -> Option<(Duration, String)> {
        self.lock().as_ref().map(|(since, reason)| (since.elapsed(), reason.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Instant, String)>> {
        self.0.lock()
    }
}
