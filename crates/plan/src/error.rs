//! Why a plan cannot run.

use thiserror::Error;
use tidemill_split::SplitPlanError;

use crate::stream::Producer;

/// A plan that cannot run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PlanError {
    /// There is nothing to read, or nowhere to write.
    #[error("query '{0}' needs at least one source and one sink")]
    Empty(String),
    /// A reader names a stream that no one writes, or that is written only by a later part.
    #[error("'{reader}' reads stream {port} of {producer:?}; add that to the plan before its reader")]
    NoSuchStream {
        /// The operator or sink.
        reader: String,
        /// The producer it reads from.
        producer: Producer,
        /// Which stream.
        port: usize,
    },
    /// An operator names a column that its input does not have.
    #[error("operator '{operator}' reads column '{column}', but its input has only {available}")]
    NoSuchColumn {
        /// The operator.
        operator: String,
        /// The column.
        column: String,
        /// The columns that exist.
        available: String,
    },
    /// An operator or a sink has no inputs.
    #[error("operator '{0}' has no inputs; it needs at least 1, because its cycles arrive with its inputs")]
    NoInputs(String),
    /// Two operators have the same name.
    #[error("two operators are named '{0}'; snapshots are found by name, so names must differ")]
    SameName(String),
    /// An input cannot be split as planned.
    #[error("operator '{operator}', input {input}: {error}")]
    Split {
        /// The operator.
        operator: String,
        /// The number of the input.
        input: usize,
        /// What is wrong.
        error: SplitPlanError,
    },
    /// An operator is part of a stream process that does not exist.
    #[error("operator '{operator}' is part of stream process {process}, but the plan has only {processes}")]
    NoSuchStreamProcess {
        /// The operator.
        operator: String,
        /// The number of the stream process.
        process: usize,
        /// How many stream processes there are.
        processes: usize,
    },
    /// A stream process may only run in places that do not exist.
    #[error(
        "process '{process}' must run at {asked}, but the workers are 0 to {}; run with more workers, or let it prefer \
         the place instead of requiring it",
        .places.saturating_sub(1)
    )]
    NoPlace {
        /// The stream process.
        process: String,
        /// The permitted places.
        asked: String,
        /// How many places there are.
        places: usize,
    },
    /// An operator has no partitions.
    #[error("operator '{0}' has 0 partitions; it needs at least 1")]
    NoPartitions(String),
}
