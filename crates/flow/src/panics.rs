//! Turns panics of users' code into errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tidemill_core::error::{Cause, Fault};

/// Calls `body`; a panic in it becomes a cause with its message.
///
/// # Errors
/// Those of `body`, and [`Cause::bug`] if it panics.
///
/// ```
/// let failed = tidemill_flow::guard::<()>(|| panic!("no such key"));
/// assert_eq!(failed.unwrap_err().to_string(), "this is a bug: no such key");
/// ```
pub fn guard<T>(body: impl FnOnce() -> Result<T, Cause>) -> Result<T, Cause> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(cause_of(&*panic)))
}

/// Calls `body`, which concatenates rows of one cycle and can fail only if they do not fit one batch.
pub(crate) fn guard_size<T>(body: impl FnOnce() -> T) -> Result<T, Cause> {
    guard(|| Ok(body())).map_err(|cause| match cause.fault {
        Fault::Bug => Cause::resource(format!("{}; use cycles with fewer events", cause.message)),
        _ => cause,
    })
}

/// The message of a panic.
pub(crate) fn cause_of(panic: &(dyn Any + Send)) -> Cause {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    Cause::bug(text.unwrap_or_else(|| "a panic without a message".into()))
}
