//! Errors of Arrow that no input can cause.

use arrow_schema::ArrowError;
use tidemill_core::error::Cause;

/// An Arrow kernel rejected something that was checked before.
pub(crate) fn arrow_bug(place: &str) -> impl Fn(ArrowError) -> Cause {
    move |error| Cause::bug(format!("{place}: {error}")).with_source(error)
}
