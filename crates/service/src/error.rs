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
}

impl From<Error> for Cause {
    fn from(error: Error) -> Self {
        match error {
            Error::Statement(error) => (*error).into(),
            Error::Query(cause) | Error::NotAllowed(cause) => cause,
        }
    }
}

impl From<TextError> for Error {
    fn from(error: TextError) -> Self {
        Error::Statement(Box::new(error))
    }
}
