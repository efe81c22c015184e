//! Errors, classified by whose fault they are.

use thiserror::Error;

/// Why something failed, and whose fault it is.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Cause {
    /// The user's fault: an input, a query or a setting that cannot be served. The text says what to change.
    #[error("{0}")]
    User(String),
    /// An operation on something outside failed (disk, network). Trying again may help.
    #[error("{0}")]
    Operation(String),
    /// A resource limit was reached. The text says which one, and how to raise it.
    #[error("limit reached: {0}")]
    Resource(String),
    /// A bug of ours, or of a user's operator.
    #[error("this is a bug: {0}")]
    Bug(String),
}

impl From<std::io::Error> for Cause {
    fn from(error: std::io::Error) -> Self {
        Cause::Operation(error.to_string())
    }
}

/// An operator failed: which, where and when.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("operator '{operator}', partition {partition}, cycle {cycle}: {cause}")]
pub struct OperatorError {
    /// The operator's name in the plan.
    pub operator: String,
    /// The logical partition.
    pub partition: u32,
    /// The cycle.
    pub cycle: u64,
    /// Which events of the cycle caused the rows that the partition was given in it: their positions within the cycle,
    /// ascending, the first [`OperatorError::EVENTS_MAX`] of them. Empty if it was given none.
    pub events: Vec<u32>,
    /// The cause.
    pub cause: Cause,
}

impl OperatorError {
    /// Only the first this many events are reported.
    pub const EVENTS_MAX: usize = 1000;
}

/// A sink failed: which and when.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("sink '{sink}', cycle {cycle}: {cause}")]
pub struct SinkError {
    /// The sink's name in the plan.
    pub sink: String,
    /// The first cycle that was not committed.
    pub cycle: u64,
    /// The cause.
    pub cause: Cause,
}
