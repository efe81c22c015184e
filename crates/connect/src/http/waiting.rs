//! Requests that wait for the query, and their clients for an answer.

use tidemill_core::source::{Faults, Request};
use tokio::sync::oneshot;

use super::body::Body;
use crate::formats::line_protocol::Precision;

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    LineProtocol(Option<Precision>),
    Ndjson,
}

/// A request whose rows the query is to take.
pub(super) struct Posted {
    pub(super) body: Body,
    pub(super) kind: Kind,
    /// Who numbered it.
    pub(super) request: Option<Request>,
    /// When it came, in nanoseconds since 1970.
    pub(super) arrival_ns: i64,
    /// Stands for the client in messages.
    pub(super) peer: String,
    pub(super) outcome: oneshot::Sender<Outcome>,
}

/// What became of a request.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) rows: usize,
    pub(super) faults: Faults,
    /// It was not taken, because its client has sent a request with this larger number before.
    pub(super) refused_for: Option<u64>,
}
