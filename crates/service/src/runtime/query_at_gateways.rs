//! A query that runs, or is stopped, at the gateways of a server.

use crate::catalog::record::StartedQuery;

/// A query at gateways, as the log of the server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueryAtGateways {
    pub query: StartedQuery,
    pub is_stopped: bool,
}

impl QueryAtGateways {
    pub fn running(query: StartedQuery) -> QueryAtGateways {
        QueryAtGateways { query, is_stopped: false }
    }
}
