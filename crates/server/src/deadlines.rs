//! Cancels statements that take too long.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tidemill_service::Cancellation;

use crate::connections::end_at_once;

/// How long the thread stays when there is no statement any more.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// Cancels statements that take too long, on a thread of its own that is there while there are such statements.
#[derive(Default)]
pub(crate) struct Deadlines {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// What is cancelled when. The number tells those of the same moment apart.
    due: BTreeMap<(Instant, u64), Cancellation>,
    last: u64,
    has_thread: bool,
}

/// The deadline of a statement, until it is dropped.
pub(crate) struct Deadline {
    deadlines: Arc<Deadlines>,
    key: (Instant, u64),
}

impl Deadlines {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels what a session waits for, if it still does after this time.
    pub fn begin(self: &Arc<Self>, time: Duration, cancellation: Cancellation) -> std::io::Result<Deadline> {
        let mut state = self.lock();
        if !state.has_thread {
            let deadlines = Arc::clone(self);
            thread::Builder::new().name("deadlines".into()).spawn(move || deadlines.watch())?;
            state.has_thread = true;
        }
        state.last += 1;
        let key = (Instant::now() + time, state.last);
        state.due.insert(key, cancellation);
        self.changed.notify_all();
        Ok(Deadline { deadlines: Arc::clone(self), key })
    }

    fn watch(&self) {
        let mut state = self.lock();
        while let Some(((at, _), _)) = state.due.first_key_value() {
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                if let Some((_, cancellation)) = state.due.pop_first() {
                    end_at_once(&cancellation);
                }
                continue;
            }
            // Those that are dropped tell nobody.
            let wait = left.min(LOOK_MAX);
            let waited = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
        }
        state.has_thread = false;
    }
}

impl Deadline {
    /// Whether it is over.
    pub fn is_past(&self) -> bool {
        !self.deadlines.lock().due.contains_key(&self.key)
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.deadlines.lock().due.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_still_waited_for_is_cancelled() {
        let deadlines = Arc::new(Deadlines::default());
        let (late, quick, long) = (Cancellation::default(), Cancellation::default(), Cancellation::default());
        for _ in 0..2 {
            let before = late.requests();
            let kept = deadlines.begin(Duration::from_secs(3600), long.clone()).unwrap();
            drop(deadlines.begin(Duration::from_millis(5), quick.clone()).unwrap());
            let past = deadlines.begin(Duration::from_millis(10), late.clone()).unwrap();
            while !past.is_past() {
                thread::sleep(Duration::from_millis(1));
            }
            assert!(late.requests() > before);
            assert!(!kept.is_past());
        }
        assert_eq!((quick.requests(), long.requests()), (0, 0));
    }
}
