//! How many threads of a run still work.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// The threads of a run in this process that process cycles: its workers, and those of its sinks.
#[derive(Clone, Default)]
pub(crate) struct WorkingThreads(Arc<Count>);

#[derive(Default)]
struct Count {
    threads: Mutex<usize>,
    changed: Condvar,
}

/// A thread counts until this is dropped.
pub(crate) struct Working(WorkingThreads);

impl WorkingThreads {
    /// One more will work. To be called before it starts, so that nobody takes the run for ended before.
    pub fn begin(&self) -> Working {
        *self.0.threads.lock() += 1;
        Working(self.clone())
    }

    /// Waits until none works any more, at most for some time; returns whether none does.
    pub fn wait_for_end(&self, time_max: Duration) -> bool {
        let mut threads = self.0.threads.lock();
        self.0.changed.wait_while_for(&mut threads, |threads| *threads > 0, time_max);
        *threads == 0
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let count = &(self.0).0;
        *count.threads.lock() -= 1;
        count.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_there_once_each_thread_has_ended() {
        let threads = WorkingThreads::default();
        assert!(threads.wait_for_end(Duration::ZERO), "none has begun");
        let (first, second) = (threads.begin(), threads.begin());
        drop(first);
        assert!(!threads.wait_for_end(Duration::from_millis(1)));
        let ending = std::thread::spawn(move || drop(second));
        assert!(threads.wait_for_end(Duration::from_secs(60)));
        assert!(ending.join().is_ok());
    }
}
