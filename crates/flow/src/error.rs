//! Why a query does not start, or stops.

use thiserror::Error;
use tidemill_core::error::Cause;
use tidemill_core::{OperatorError, SinkError};
use tidemill_plan::PlanError;

/// Why a query stopped.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Failure {
    /// An operator failed.
    #[error(transparent)]
    Operator(#[from] OperatorError),
    /// A sink failed.
    #[error(transparent)]
    Sink(#[from] SinkError),
    /// A part of the engine failed: a route, the cut log, a worker.
    #[error("{part}: {cause}")]
    Engine {
        /// Which part.
        part: String,
        /// Why.
        #[source]
        cause: Cause,
    },
    /// The run was told to stop at once.
    #[error("the run was aborted")]
    Aborted,
}

/// A query did not start, or stopped before its end.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FlowError {
    /// The plan cannot run.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The settings are invalid.
    #[error("{0}")]
    Settings(String),
    /// The query stopped before its end.
    #[error(transparent)]
    Failed(#[from] Failure),
}
