//! Why a query does not start, or stops.

use thiserror::Error;
use tidemill_core::error::{Cause, Fault};
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
    /// Something that the query needs could not be had: a thread, a connection between its processes.
    #[error(transparent)]
    NotStarted(Cause),
    /// The query stopped before its end.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl Failure {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        self.cause().map_or(Fault::Operation, |cause| cause.fault)
    }

    fn cause(&self) -> Option<&Cause> {
        match self {
            Failure::Operator(error) => Some(&error.cause),
            Failure::Sink(error) => Some(&error.cause),
            Failure::Engine { cause, .. } => Some(cause),
            Failure::Aborted => None,
        }
    }

    /// What it says, without the words that introduce a fault of this kind: a cause puts them in front of all.
    fn without_introduction(&self) -> String {
        match self.cause() {
            Some(cause) => self.to_string().replacen(&cause.to_string(), &cause.message, 1),
            None => self.to_string(),
        }
    }
}

impl FlowError {
    /// Whose fault it is. Plans are made by a program, so a plan that cannot run is a bug of that program.
    pub fn fault(&self) -> Fault {
        match self {
            FlowError::Plan(_) => Fault::Bug,
            FlowError::Settings(_) => Fault::User,
            FlowError::NotStarted(cause) => cause.fault,
            FlowError::Failed(failure) => failure.fault(),
        }
    }
}

impl From<FlowError> for Cause {
    fn from(error: FlowError) -> Cause {
        match error {
            FlowError::NotStarted(cause) => cause,
            FlowError::Failed(failure) => {
                Cause::new(failure.fault(), failure.without_introduction()).with_source(failure)
            }
            _ => Cause::new(error.fault(), error.to_string()).with_source(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use tidemill_core::error::chain;

    use super::*;

    #[test]
    fn a_cause_of_a_failure_keeps_fault_text_and_chain() {
        let reset = std::io::Error::other("reset by peer");
        let cause = Cause::operation(format!("the sender is gone: {reset}")).with_source(reset);
        let failure = Failure::Sink(SinkError { sink: "out".into(), cycle: 7, cause });
        let cause = Cause::from(FlowError::from(failure));
        assert_eq!(cause, Cause::operation("sink 'out', cycle 7: the sender is gone: reset by peer"));
        assert_eq!(chain(&cause), ["sink 'out', cycle 7", "the sender is gone", "reset by peer"]);
    }

    #[test]
    fn a_limit_is_introduced_once() {
        let cause = Cause::resource("more than 5 rows");
        let failure = Failure::Engine { part: "source 'a'".into(), cause };
        assert_eq!(
            Cause::from(FlowError::from(failure)).to_string(),
            "limit reached: source 'a': more than 5 rows"
        );
    }

    #[test]
    fn a_wrong_setting_is_the_users_fault() {
        let cause = Cause::from(FlowError::Settings("0 workers; there must be 1 to 1024".into()));
        assert_eq!(cause, Cause::user("0 workers; there must be 1 to 1024"));
    }
}
