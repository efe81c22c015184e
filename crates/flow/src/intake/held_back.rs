//! How long a source was held back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

/// How long a source has waited because there was no room for its rows. Clones count together.
///
/// ```
/// let held_back = tidemill_flow::HeldBack::default();
/// assert!(held_back.time().is_zero());
/// assert_eq!(held_back.while_waiting(|| 7), 7);
/// let waited = held_back.time();
/// assert_eq!(held_back.clone().time(), waited);
/// ```
#[derive(Clone, Debug, Default)]
pub struct HeldBack(Arc<Mutex<Waited>>);

#[derive(Debug, Default)]
struct Waited {
    time: Duration,
    /// When the wait began that is not over.
    since: Option<Instant>,
}

impl HeldBack {
    /// Counts how long this takes, also while it takes longer.
    pub fn while_waiting<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.lock().since = Some(Instant::now());
        let result = wait();
        let mut waited = self.lock();
        let since = waited.since.take();
        waited.time += since.map_or(Duration::ZERO, |since| since.elapsed());
        result
    }

    /// How long all waits have taken so far.
    pub fn time(&self) -> Duration {
        let waited = self.lock();
        waited.time + waited.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, Waited> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_wait_counts_before_it_is_over() {
        let held_back = HeldBack::default();
        let seen = held_back.clone();
        held_back.while_waiting(|| {
            while seen.time().is_zero() {
                thread::yield_now();
            }
        });
        let whole = held_back.time();
        assert!(!whole.is_zero());
        assert_eq!(held_back.time(), whole, "nothing waits any more");
    }
}
