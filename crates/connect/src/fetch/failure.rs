//! How a request ended without a file.

use std::io;
use std::time::Duration;

use hyper::{Response, StatusCode};
use tidemill_core::Cause;

use crate::http_client::{reason_of, retry_after};

/// How a request ended if it gave no file.
#[derive(Debug)]
pub(super) enum Failure {
    /// Trying again may help; the server may say when.
    Lost { reason: String, wait: Option<Duration> },
    /// Trying again would not help.
    Final(Cause),
}

impl From<Cause> for Failure {
    fn from(cause: Cause) -> Failure {
        Failure::Final(cause)
    }
}

/// A failure after which trying again may help.
pub(super) fn lost(reason: impl Into<String>) -> Failure {
    Failure::Lost { reason: reason.into(), wait: None }
}

/// A connection or an answer broke off.
pub(super) fn broken(error: &hyper::Error) -> Failure {
    let source = std::error::Error::source(error);
    let of_io = source.and_then(|source| source.downcast_ref::<io::Error>());
    if error.is_incomplete_message()
        || of_io.is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof)
    {
        lost("the connection ended in the middle of the answer")
    } else {
        lost(reason_of(error))
    }
}

/// What an answer means that brings no file.
pub(super) fn refused<B>(shown: &str, response: &Response<B>) -> Failure {
    let status = response.status();
    let told = format!("the server answers {status}");
    let stop = |why: &str| Failure::Final(Cause::user(format!("{shown}: {told}; {why}")));
    match status.as_u16() {
        404 | 410 => stop("there is no such file: check the URL"),
        401 | 403 | 407 => stop("check the token in headers = '...', and its rights"),
        408 | 429 | 500..=599 => Failure::Lost { reason: told, wait: retry_after(response) },
        _ => stop("it gives no file: check the URL, and try it with another program"),
    }
}

/// Whether an answer names another place.
pub(super) fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}
