//! Threads.

use std::io;
use std::thread::JoinHandle;

use tidemill_core::error::Cause;
use tracing::Span;

use crate::error::FlowError;

/// Starts a thread with a name. What it logs belongs to the query that starts it.
pub(crate) fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, FlowError> {
    let span = Span::current();
    std::thread::Builder::new().name(name).spawn(move || span.in_scope(body)).map_err(no_thread)
}

fn no_thread(error: io::Error) -> FlowError {
    let text = format!("cannot start a thread: {error}; raise the limit of threads (ulimit -u)");
    FlowError::NotStarted(Cause::resource(text).with_source(error))
}
