//! Errors as programs see them: PostgreSQL's code (SQLSTATE), the message, a hint and the place.

use tidemill_engine::Fault;
use tidemill_sql::Problem;

use crate::Error;

impl Error {
    /// Returns PostgreSQL's code for it, the SQLSTATE, which has five characters.
    ///
    /// ```
    /// use tidemill_service::{Runtime, Session};
    /// use tidemill_sql::{Planner, parse};
    /// let mut session = Session::new(&Runtime::new(Planner::new()));
    /// let Err(error) = session.execute(&parse("SELECT * FROM nowhere", "example").unwrap()[0]) else { panic!() };
    /// assert_eq!((error.sqlstate(), error.position()), ("42P01", Some(15)));
    /// ```
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Error::Statement(error) => of_problem(error.problem),
            Error::Query(cause) => of_fault(cause.fault),
            Error::NotAllowed(_) => "42501",
            Error::Refused(refused) => refused.code,
            Error::NotRunning { why, .. } => why.sqlstate(),
        }
    }

    /// Returns what is wrong, in a sentence without the text of the statement.
    pub fn message(&self) -> String {
        match self {
            Error::Statement(error) => error.message.clone(),
            Error::NotRunning { name, why } => {
                format!("'{name}' is defined, but it is not running: {}", why.message())
            }
            Error::Query(_) | Error::NotAllowed(_) | Error::Refused(_) => self.to_string(),
        }
    }

    /// Returns what to do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Error::Statement(error) => error.hint.as_deref(),
            Error::Refused(refused) => refused.hint.as_deref(),
            Error::NotRunning { why, .. } => {
                why.hint().or(Some("START it once the cause is fixed, or DROP it"))
            }
            Error::Query(_) | Error::NotAllowed(_) => None,
        }
    }

    /// Returns the place in the text: the number of a character, from 1.
    pub fn position(&self) -> Option<usize> {
        match self {
            Error::Statement(error) => Some(error.character()),
            Error::NotRunning { why, .. } => why.position(),
            Error::Query(_) | Error::NotAllowed(_) | Error::Refused(_) => None,
        }
    }
}

/// Returns the code of an error in a text.
pub fn of_problem(problem: Problem) -> &'static str {
    match problem {
        // Syntax error or access rule violation: no more is known.
        Problem::Other => "42000",
        Problem::UnknownRelation => "42P01",
        Problem::UnknownColumn => "42703",
        Problem::AmbiguousColumn => "42702",
        Problem::UnknownFunction => "42883",
        Problem::Syntax => "42601",
        Problem::NoConstraint => "42P10",
        Problem::Exists => "42P07",
        Problem::ColumnExists => "42701",
        Problem::StillRead => "2BP01",
        Problem::NotSupported => "0A000",
        // Snapshot too old.
        Problem::PastGone => "72000",
        Problem::NotYet => "55000",
        Problem::Resource => "53000",
        Problem::Bug => "XX000",
    }
}

/// Returns the code of a failure, by whose fault it is.
pub fn of_fault(fault: Fault) -> &'static str {
    match fault {
        // Data exception.
        Fault::User => "22000",
        // System error: outside of the database.
        Fault::Operation => "58000",
        Fault::Resource => "53000",
        Fault::Bug => "XX000",
    }
}
