//! Threads.

use std::io;
use std::thread::JoinHandle;

use tidemill_core::error::Cause;

use crate::error::FlowError;

/// Starts a thread with a name.
pub(crate) fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, FlowError> {
    std::thread::Builder::new().name(name).spawn(body).map_err(no_thread)
}

fn no_thread(error: io::Error) -> FlowError {
    let text = format!("cannot start a thread: {error}; raise the limit of threads (ulimit -u)");
    FlowError::NotStarted(Cause::resource(text).with_source(error))
}
