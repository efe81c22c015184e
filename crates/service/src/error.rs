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
}

impl From<Error> for Cause {
    fn from(error: Error) -> Self {
        match error {
            Error::Statement(error) => (*error).into(),
            Error::Query(cause) | Error::NotAllowed(cause) => cause,
            Error::Refused(refused) => Cause::user(refused.message),
        }
    }
}

impl From<TextError> for Error {
    fn from(error: TextError) -> Self {
        Error::Statement(Box::new(error))
    }
}
