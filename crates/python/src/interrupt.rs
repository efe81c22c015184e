//! Waits for the engine, and for Ctrl-C.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tidemill_service::Cancellation;

/// How often one who waits looks whether Ctrl-C was pressed.
const LOOK: Duration = Duration::from_millis(50);
/// The stack of the thread that works, as that of a main thread.
const STACK_BYTES: usize = 8 << 20;

/// Does some work while the interpreter is free. Ctrl-C cancels it: Python handles signals on its main thread only, and only when it is
/// asked to, so the work is done on another thread.
///
/// # Errors
/// What the handler of the signal raised, such as `KeyboardInterrupt`.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    cancellation: &Cancellation,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    py.detach(|| {
        thread::scope(|scope| {
            let (sender, results) = mpsc::sync_channel(1);
            let work = move || {
                // The one who waits is there until the scope ends.
                let _ = sender.send(work());
            };
            let thread = thread::Builder::new().name("tidemill python".to_owned()).stack_size(STACK_BYTES);
            let thread = thread.spawn_scoped(scope, work)?;
            let mut interrupted = None;
            let result = loop {
                match results.recv_timeout(LOOK) {
                    Ok(result) => break result,
                    Err(mpsc::RecvTimeoutError::Timeout) => {}
                    Err(mpsc::RecvTimeoutError::Disconnected) => {
                        // Or the scope would panic, too.
                        drop(thread.join());
                        return Err(PyRuntimeError::new_err("a thread of Tidemill panicked: this is a bug"));
                    }
                }
                if let Err(raised) = Python::attach(|py| py.check_signals()) {
                    interrupted = Some(raised);
                }
                // Whatever still works looks at it at different times; the second request ends a query at once.
                if interrupted.is_some() {
                    cancellation.request();
                }
            };
            interrupted.map_or(Ok(result), Err)
        })
    })
}
