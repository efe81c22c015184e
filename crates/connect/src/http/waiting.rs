//! Requests that wait for the query, and whose clients wait for an answer.

use tidemill_core::source::{Faults, Request};
use tokio::sync::oneshot;

use super::body::Body;
use crate::formats::line_protocol::Precision;

/// The format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyFormat {
    LineProtocol(Option<Precision>),
    /// The other format that the source takes: JSON lines, or one of the program's own.
    Records,
    /// JSON that was not written line by line: the objects are counted, not the lines.
    Objects,
}

/// A request whose rows the query is to take.
pub(super) struct PendingRequest {
    pub(super) body: Body,
    pub(super) kind: BodyFormat,
    /// The client and number, if it is numbered.
    pub(super) request: Option<Request>,
    /// When it came, in nanoseconds since 1970.
    pub(super) arrival_ns: i64,
    /// The name of the client in messages.
    pub(super) peer: String,
    pub(super) outcome: oneshot::Sender<Outcome>,
}

/// The outcome of a request.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) rows: usize,
    pub(super) faults: Faults,
    /// It was not accepted, because its client has sent a request with this larger number before.
    pub(super) refused_for: Option<u64>,
}
