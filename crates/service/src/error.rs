//! Why a request was not carried out.

use tidemill_engine::Cause;
use tidemill_sql::TextError;

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A statement is wrong; the error has its place.
    #[error(transparent)]
    Statement(Box<TextError>),
    /// A query cannot be started, or has failed.
    #[error(transparent)]
    Query(#[from] Cause),
    /// The session may not do this; somebody with more rights may.
    #[error(transparent)]
    NotAllowed(Cause),
    /// A change of a table is refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Something was defined, but its query could not be started.
    #[error("'{name}' is defined, but it is not running: {why}")]
    NotRunning {
        /// What was defined.
        name: String,
        /// Why its query could not be started.
        why: Box<Error>,
    },
}

/// Why a change of a table is refused.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// A code of five letters, as PostgreSQL has it (SQLSTATE).
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Refused {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Refused {
        Refused { code, message: message.into(), hint: None }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Refused {
        Refused { hint: Some(hint.into()), ..self }
    }

    /// Refuses to answer a query whose answer has no last row.
    pub fn changing_answer() -> Refused {
        let message = "the answer changes as long as rows come in, so it has no last row";
        let hint = "keep it, and read it at any time: CREATE MATERIALIZED VIEW name AS SELECT ...; SELECT * FROM name. \
                    Or group by a window";
        Refused::new("0A000", message).with_hint(hint)
    }
}

impl From<Error> for Cause {
    fn from(error: Error) -> Self {
        match error {
            Error::Statement(error) => (*error).into(),
            Error::Query(cause) | Error::NotAllowed(cause) => cause,
            Error::Refused(refused) => Cause::user(refused.message),
            Error::NotRunning { name, why } => Cause::from(*why)
                .map_message(|why| format!("'{name}' is defined, but it is not running: {why}")),
        }
    }
}

impl From<TextError> for Error {
    fn from(error: TextError) -> Self {
        Error::Statement(Box::new(error))
    }
}
