//! Why an operation at the server failed, and whether trying again may help.

use std::error::Error as _;

use tidemill_core::{Cause, RefusedRow};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// How a step ended if it did not succeed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection, the server or the transaction was lost. Whether the transaction went through must be looked up.
    Lost(String),
    /// The server refuses values of some row, for example because of a constraint. The other rows may be fine.
    Refused(String),
    /// Trying again would not help.
    Final(Cause),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let Some(database) = error.as_db_error() else {
            return Failure::Lost(text_of(&error));
        };
        let class = database.code().code().get(..2).unwrap_or_default();
        // Connection, transaction rolled back, resources, the operator's doing, the server's system.
        let may_pass = ["08", "40", "53", "57", "58"].contains(&class)
            || *database.code() == SqlState::LOCK_NOT_AVAILABLE;
        let text = text_of(&error);
        match may_pass {
            true => Failure::Lost(text),
            false if is_about_a_row(database.code().code()) => Failure::Refused(text),
            false => Failure::Final(refused(&text, None)),
        }
    }
}

impl Failure {
    /// The message to the user if it is not tried again.
    pub fn into_cause(self, server: &str) -> Cause {
        match self {
            Failure::Final(cause) => cause,
            Failure::Refused(text) => refused(&text, None),
            Failure::Lost(reason) => Cause::operation(format!("PostgreSQL at {server}: {reason}")),
        }
    }
}

/// The error of a sink that does not keep refused rows; with the row, if it is known.
pub(super) fn refused(text: &str, row: Option<RefusedRow>) -> Cause {
    let cause = Cause::user(format!("PostgreSQL refuses the rows: {text}"));
    match row {
        Some(row) => cause.with_source(row),
        None => cause,
    }
}

/// Whether the values of a row are refused, and not the statement or the table. Errors raised by a trigger of the table
/// count, too.
fn is_about_a_row(code: &str) -> bool {
    // Bytes that do not fit the format of COPY are our mistake.
    const OURS: [&str; 2] = ["22P03", "22P04"];
    // Values, constraints, views with a check; a row that is too large for an index; RAISE EXCEPTION.
    let is_value = ["22", "23", "44"].iter().any(|class| code.starts_with(class));
    (is_value && !OURS.contains(&code)) || code == "54000" || code == "P0001"
}

/// Why the sink cannot start.
pub(super) fn open_failure(error: &Error, server: &str) -> Cause {
    let text = text_of(error);
    let Some(code) = error.code() else {
        return match error.source().is_some_and(|source| source.is::<std::io::Error>()) {
            true => {
                Cause::operation(format!("PostgreSQL at {server} cannot be reached: {text}; is it running?"))
            }
            false => Cause::user(format!("PostgreSQL at {server} cannot be used: {text}")),
        };
    };
    let remedy = match code.code() {
        "28P01" | "28000" => "; check user and password, and the server's pg_hba.conf",
        "3D000" => "; create the database, or name another one",
        "42P01" => "; create the table, or let it be created with create = true",
        "42501" => "; grant it, or connect as another user",
        "42P10" => "; the table needs a primary key or a unique index of exactly the key's columns",
        code if ["53", "57"].iter().any(|class| code.starts_with(class)) => {
            return Cause::operation(format!("PostgreSQL at {server}: {text}"));
        }
        _ => "",
    };
    Cause::user(format!("PostgreSQL at {server}: {text}{remedy}"))
}

/// The error with its reason and detail. Neither the server nor the client puts the password in it.
fn text_of(error: &Error) -> String {
    match error.as_db_error() {
        Some(database) => match database.detail() {
            Some(detail) => format!("{} ({detail})", database.message()),
            None => database.message().to_owned(),
        },
        None => match error.source() {
            Some(source) if !error.to_string().contains(&source.to_string()) => format!("{error}: {source}"),
            _ => error.to_string(),
        },
    }
}
