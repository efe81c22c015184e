//! What a client is told when something is wrong, with the code for it.

use tidemill_engine::{Cause, Fault};
use tidemill_service::Error;
use tidemill_sql::{Problem, TextError};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    Notice,
    Warning,
    Error,
    /// The connection ends.
    Fatal,
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
        }
    }
}

/// What a client is told when something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub severity: Severity,
    /// A code of five letters, as PostgreSQL has it (SQLSTATE).
    pub code: &'static str,
    pub message: String,
    pub hint: Option<String>,
    /// The place in the text that the client sent: the number of a character, from 1.
    pub position: Option<usize>,
}

pub(crate) const SUCCESSFUL: &str = "00000";
pub(crate) const SYNTAX_ERROR: &str = "42601";
pub(crate) const UNDEFINED_FUNCTION: &str = "42883";
pub(crate) const NOT_SUPPORTED: &str = "0A000";
pub(crate) const INVALID_AUTHORIZATION: &str = "28000";
pub(crate) const INVALID_PASSWORD: &str = "28P01";
pub(crate) const INSUFFICIENT_PRIVILEGE: &str = "42501";
pub(crate) const PROTOCOL_VIOLATION: &str = "08P01";
pub(crate) const INVALID_VALUE: &str = "22P02";
pub(crate) const INVALID_PARAMETER_VALUE: &str = "22023";
pub(crate) const UNDEFINED_SETTING: &str = "42704";
pub(crate) const QUERY_CANCELED: &str = "57014";
pub(crate) const ADMIN_SHUTDOWN: &str = "57P01";
pub(crate) const TOO_MANY_CONNECTIONS: &str = "53300";
pub(crate) const IN_FAILED_TRANSACTION: &str = "25P02";
pub(crate) const IDLE_IN_TRANSACTION: &str = "25P03";
pub(crate) const ACTIVE_TRANSACTION: &str = "25001";
pub(crate) const NO_ACTIVE_TRANSACTION: &str = "25P01";
pub(crate) const INVALID_SAVEPOINT: &str = "3B001";
pub(crate) const INVALID_STATEMENT_NAME: &str = "26000";
pub(crate) const INVALID_CURSOR_NAME: &str = "34000";
pub(crate) const DUPLICATE_STATEMENT: &str = "42P05";
pub(crate) const DUPLICATE_CURSOR: &str = "42P03";
pub(crate) const BAD_COPY_FORMAT: &str = "22P04";
pub(crate) const OBJECT_NOT_READY: &str = "55000";
pub(crate) const UNDEFINED_COLUMN: &str = "42703";
pub(crate) const DUPLICATE_COLUMN: &str = "42701";
pub(crate) const WRONG_OBJECT_TYPE: &str = "42809";
pub(crate) const PROGRAM_LIMIT: &str = "54000";
pub(crate) const INSUFFICIENT_RESOURCES: &str = "53000";
pub(crate) const INTERNAL_ERROR: &str = "XX000";

impl Report {
    pub fn error(code: &'static str, message: impl Into<String>) -> Report {
        Report { severity: Severity::Error, code, message: message.into(), hint: None, position: None }
    }

    /// A bug of ours.
    pub fn bug(message: impl Into<String>) -> Report {
        Report::error(INTERNAL_ERROR, message)
    }

    pub fn fatal(code: &'static str, message: impl Into<String>) -> Report {
        Report { severity: Severity::Fatal, ..Report::error(code, message) }
    }

    pub fn notice(code: &'static str, message: impl Into<String>) -> Report {
        Report { severity: Severity::Notice, ..Report::error(code, message) }
    }

    pub fn warning(code: &'static str, message: impl Into<String>) -> Report {
        Report { severity: Severity::Warning, ..Report::error(code, message) }
    }

    /// The same for a text that the client has not written.
    pub fn without_place(self) -> Report {
        Report { position: None, ..self }
    }

    pub fn with_hint(self, hint: impl Into<String>) -> Report {
        Report { hint: Some(hint.into()), ..self }
    }

    /// The answer has no last row.
    pub fn of_changing_answer() -> Report {
        let message = "the answer changes as long as rows come in, so it has no last row";
        let hint = "keep it, and read it at any time: CREATE MATERIALIZED VIEW name AS SELECT ...; SELECT * FROM name. \
                    Or group by a window";
        Report::error(NOT_SUPPORTED, message).with_hint(hint)
    }

    /// An error found while a statement was read.
    pub fn of_reading(error: &TextError) -> Report {
        let report = Report::of_text(error);
        match error.problem {
            Problem::Other => Report { code: SYNTAX_ERROR, ..report },
            _ => report,
        }
    }

    fn of_text(error: &TextError) -> Report {
        let code = match error.problem {
            // Syntax error or access rule violation: no more is known.
            Problem::Other => "42000",
            Problem::UnknownRelation => "42P01",
            Problem::UnknownColumn => "42703",
            Problem::AmbiguousColumn => "42702",
            Problem::UnknownFunction => UNDEFINED_FUNCTION,
            Problem::Syntax => SYNTAX_ERROR,
            Problem::NoConstraint => "42P10",
            Problem::Exists => "42P07",
            Problem::ColumnExists => "42701",
            Problem::StillRead => "2BP01",
            Problem::NotSupported => NOT_SUPPORTED,
            // Snapshot too old.
            Problem::PastGone => "72000",
            Problem::NotYet => OBJECT_NOT_READY,
            Problem::Resource => INSUFFICIENT_RESOURCES,
            Problem::Bug => INTERNAL_ERROR,
        };
        let report = Report::error(code, error.message.clone());
        Report { hint: error.hint.clone(), position: Some(error.character()), ..report }
    }
}

impl From<Error> for Report {
    fn from(error: Error) -> Report {
        match error {
            Error::Statement(error) => Report::of_text(&error),
            Error::Query(cause) => cause.into(),
            Error::NotAllowed(cause) => Report::error(INSUFFICIENT_PRIVILEGE, cause.to_string()),
            Error::Refused(refused) => {
                Report { hint: refused.hint, ..Report::error(refused.code, refused.message) }
            }
        }
    }
}

impl From<TextError> for Report {
    fn from(error: TextError) -> Report {
        Report::of_text(&error)
    }
}

impl From<Cause> for Report {
    fn from(cause: Cause) -> Report {
        let code = match cause.fault {
            // Data exception.
            Fault::User => "22000",
            // System error: outside of the database.
            Fault::Operation => "58000",
            Fault::Resource => INSUFFICIENT_RESOURCES,
            Fault::Bug => INTERNAL_ERROR,
        };
        Report::error(code, cause.to_string())
    }
}
