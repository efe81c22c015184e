//! Locks and threads.

use std::io;
use std::sync::{Mutex, MutexGuard};
use std::thread::JoinHandle;

use tidemill_core::error::Cause;

use crate::error::FlowError;

/// Locks even if another thread has panicked: the data guarded by locks here is consistent at every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Starts a thread with a name.
pub(crate) fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, FlowError> {
    std::thread::Builder::new().name(name).spawn(body).map_err(no_thread)
}

fn no_thread(error: io::Error) -> FlowError {
    let text = format!("cannot start a thread: {error}; raise the limit of threads (ulimit -u)");
    FlowError::NotStarted(Cause::resource(text).with_source(error))
}
