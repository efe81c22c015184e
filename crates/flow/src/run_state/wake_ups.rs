//! The worker threads of this process: wakes them, and waits until they are ready.

use std::sync::OnceLock;
use std::thread::Thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

pub(crate) struct WakeUps {
    /// The number of this process's first worker.
    first_worker: usize,
    workers: Vec<OnceLock<Thread>>,
    /// How many workers, in all processes, have built their part of the dataflow.
    workers_ready: Mutex<usize>,
    ready_changed: Condvar,
}

impl WakeUps {
    /// For the workers of this process.
    pub fn new(first_worker: usize, workers: usize) -> WakeUps {
        WakeUps {
            first_worker,
            workers: (0..workers).map(|_| OnceLock::new()).collect(),
            workers_ready: Mutex::new(0),
            ready_changed: Condvar::new(),
        }
    }

    /// Registers the calling thread as this worker.
    pub fn register(&self, worker: usize) {
        // A worker is registered once, by itself.
        let _ = self.workers[worker - self.first_worker].set(std::thread::current());
    }

    /// Wakes one worker; `index` counts the workers of this process.
    pub fn wake(&self, index: usize) {
        if let Some(thread) = self.workers[index].get() {
            thread.unpark();
        }
    }

    /// Wakes all workers of this process.
    pub fn wake_all(&self) {
        self.workers.iter().filter_map(OnceLock::get).for_each(Thread::unpark);
    }

    /// This many more workers have built their part.
    pub fn are_ready(&self, workers: usize) {
        *self.workers_ready.lock() += workers;
        self.ready_changed.notify_all();
    }

    /// Waits for this many workers; false if the query stops first.
    pub fn wait_until_ready(&self, workers: usize, is_stopped: impl Fn() -> bool) -> bool {
        let mut ready = self.workers_ready.lock();
        while *ready < workers && !is_stopped() {
            self.ready_changed.wait_for(&mut ready, Duration::from_millis(100));
        }
        !is_stopped()
    }
}
