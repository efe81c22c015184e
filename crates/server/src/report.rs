//! What a client is told when something is wrong, with the code for it.

use tidemill_engine::Cause;
use tidemill_service::{Error, Refused, sqlstate};
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
        Refused::changing_answer().into()
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
        let code = sqlstate::of_problem(error.problem);
        let report = Report::error(code, error.message.clone());
        Report { hint: error.hint.clone(), position: Some(error.character()), ..report }
    }
}

impl From<Error> for Report {
    fn from(error: Error) -> Report {
        let report = Report::error(error.sqlstate(), error.message());
        Report { hint: error.hint().map(str::to_owned), position: error.position(), ..report }
    }
}

impl From<Refused> for Report {
    fn from(refused: Refused) -> Report {
        Error::from(refused).into()
    }
}

impl From<TextError> for Report {
    fn from(error: TextError) -> Report {
        Report::of_text(&error)
    }
}

impl From<Cause> for Report {
    fn from(cause: Cause) -> Report {
        Report::error(sqlstate::of_fault(cause.fault), cause.to_string())
    }
}
