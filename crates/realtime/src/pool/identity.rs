//! What a pool knows of a query.

use std::time::Duration;

/// A query: its threads share it.
#[derive(Debug)]
pub(super) struct QueryIdentity {
    pub name: String,
    pub deadline: Option<Duration>,
}
