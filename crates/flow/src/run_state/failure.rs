//! The failure that stops a run, and who must be told about it.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tidemill_core::error::chain;
use tracing::{debug, error};

use crate::error::Failure;

/// Ends the wait of a sink, or of another process.
pub(crate) type Stopper = Box<dyn Fn() + Send + Sync>;

/// The first failure of a run, if there was one.
pub(crate) struct FirstFailure {
    stopped: AtomicBool,
    failure: Mutex<Option<Failure>>,
    stoppers: Mutex<Vec<Stopper>>,
}

impl FirstFailure {
    pub fn new(stoppers: Vec<Stopper>) -> FirstFailure {
        FirstFailure {
            stopped: AtomicBool::new(false),
            failure: Mutex::new(None),
            stoppers: Mutex::new(stoppers),
        }
    }

    /// Keeps the failure if it is the first one, and calls the stoppers.
    pub fn set(&self, failure: Failure) {
        let mut first = self.failure.lock();
        if first.is_none() {
            match &failure {
                // Also what ends a run that has ended by itself.
                Failure::Aborted => debug!("the query was asked to stop at once"),
                _ => error!(causes = ?chain(&failure), "the query failed: {failure}"),
            }
        }
        first.get_or_insert(failure);
        drop(first);
        self.stopped.store(true, Ordering::SeqCst);
        self.stoppers.lock().iter().for_each(|stopper| stopper());
    }

    /// Registers a function to be called when the run stops; calls it at once if it has stopped.
    pub fn add_stopper(&self, stopper: Stopper) {
        let mut stoppers = self.stoppers.lock();
        if self.is_set() {
            stopper();
        }
        stoppers.push(stopper);
    }

    pub fn is_set(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    pub fn get(&self) -> Option<Failure> {
        self.failure.lock().clone()
    }
}
