//! Cancels statements that take too long.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tidemill_service::Cancellation;

use crate::sessions::connections::end_at_once;

/// How long the thread stays when there is no statement any more.
const LOOK_MAX: Duration = Duration::from_secs(1);

/// How often what is late is cancelled again: a query notices only what comes after it has begun.
const AGAIN: Duration = Duration::from_millis(50);

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
    /// What is past its deadline, and not over yet.
    past: BTreeMap<u64, Cancellation>,
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
        self.state.lock()
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
        while !(state.due.is_empty() && state.past.is_empty()) {
            let now = Instant::now();
            while let Some(entry) = state.due.first_entry().filter(|entry| entry.key().0 <= now) {
                let ((_, number), cancellation) = entry.remove_entry();
                state.past.insert(number, cancellation);
            }
            state.past.values().for_each(end_at_once);
            let next = state.due.first_key_value().map(|((at, _), _)| at.saturating_duration_since(now));
            let again = if state.past.is_empty() { LOOK_MAX } else { AGAIN };
            // Those that are dropped tell nobody.
            let wait = next.unwrap_or(LOOK_MAX).min(again);
            self.changed.wait_for(&mut state, wait);
        }
        state.has_thread = false;
    }
}

impl Deadline {
    /// Whether it is over.
    pub fn is_past(&self) -> bool {
        self.deadlines.lock().past.contains_key(&self.key.1)
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        let mut state = self.deadlines.lock();
        state.due.remove(&self.key);
        state.past.remove(&self.key.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_to_wait_after_its_deadline_is_cancelled_too() {
        let deadlines = Arc::new(Deadlines::default());
        let late = Cancellation::default();
        let deadline = deadlines.begin(Duration::from_millis(1), late.clone()).unwrap();
        while !deadline.is_past() {
            thread::sleep(Duration::from_millis(1));
        }
        for _ in 0..3 {
            let before = late.requests();
            while late.requests() == before {
                thread::sleep(Duration::from_millis(1));
            }
        }
        drop(deadline);
        let after = late.requests();
        thread::sleep(AGAIN * 3);
        assert_eq!(late.requests(), after);
    }

    #[test]
    fn only_what_is_still_waited_for_is_cancelled() {
        let deadlines = Arc::new(Deadlines::default());
        let (late, quick, long) = (Cancellation::default(), Cancellation::default(), Cancellation::default());
        for _ in 0..2 {
            let before = late.requests();
            let kept = deadlines.begin(Duration::from_secs(3600), long.clone()).unwrap();
            drop(deadlines.begin(Duration::from_secs(60), quick.clone()).unwrap());
            assert_eq!(deadlines.lock().due.len(), 1, "only what is kept");
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
