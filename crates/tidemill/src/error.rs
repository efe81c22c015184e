//! Why a query does not run.

use thiserror::Error;
use tidemill_engine::{Cause, FlowError};

/// A query cannot start, or has stopped.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Error {
    /// The program describes a query that cannot run. The text names the place, the reason and the remedy.
    #[error("query '{query}': {reason}")]
    Query {
        /// The name of the query.
        query: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A source, a sink or a batch of rows failed.
    #[error(transparent)]
    Cause(#[from] Cause),
    /// The engine did not start the query, or has stopped it.
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// Rows that were pushed with a number are not taken in, because a later number of the same client was: they may have
    /// been before, or come too late.
    #[error(
        "request {sequence} of '{client}' is refused because its request {last} was already accepted; \
         continue with a higher number"
    )]
    Behind {
        /// The client.
        client: String,
        /// The number of the rows.
        sequence: u64,
        /// The last number of this client that was taken in.
        last: u64,
    },
    /// The source has ended, or the query has stopped, and accepts no more rows. [`Run::join`](crate::Run::join) says
    /// why.
    #[error("the source has ended or the query has stopped, and accepts no more rows")]
    Stopped,
}
