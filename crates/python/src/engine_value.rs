//! Values of the engine in Python objects.

use std::{mem, process};

use pyo3::prelude::*;
use tidemill_engine::Cause;

/// A value of the engine that a Python object has. It is dropped while the interpreter is free: threads of the engine may wait for the
/// interpreter, and the value for these threads.
///
/// A process that was forked has none of the threads. There the value can be neither used nor dropped.
pub(crate) struct EngineValue<T: Send> {
    /// `None`: it was dropped.
    value: Option<T>,
    process: u32,
}

impl<T: Send> EngineValue<T> {
    pub fn new(value: T) -> EngineValue<T> {
        EngineValue { value: Some(value), process: process::id() }
    }

    /// Returns the value.
    ///
    /// # Errors
    /// If the process was forked since.
    pub fn get(&self) -> Result<&T, Cause> {
        match &self.value {
            Some(value) if self.process == process::id() => Ok(value),
            _ => Err(Cause::user(
                "a database does not survive fork(): its threads are in the parent process only; connect in each \
                 process, or start processes by 'spawn' (multiprocessing)",
            )),
        }
    }
}

impl<T: Send> Drop for EngineValue<T> {
    fn drop(&mut self) {
        let mut value = self.value.take();
        if self.process != process::id() {
            return mem::forget(value);
        }
        // If the interpreter is ending, nobody holds it.
        Python::try_attach(|py| py.detach(|| drop(value.take())));
    }
}
