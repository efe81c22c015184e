//! Why an operation at the server failed, and whether trying again may help.

use std::error::Error as _;
use std::fmt::{self, Display, Formatter};

use tidemill_core::{Cause, RefusedRow};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

use crate::tls;

/// How a step ended if it did not succeed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection, the server or the transaction was lost. Whether the transaction went through must be looked up.
    Lost(Reason),
    /// The server refuses values of some row, for example because of a constraint. The other rows may be fine.
    Refused(Reason),
    /// Trying again would not help.
    Final(Cause),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let Some(database) = error.as_db_error() else {
            return Failure::Lost(Reason::from(error));
        };
        let code = database.code().clone();
        let may_pass = may_pass(code.code());
        let reason = Reason::from(error);
        if may_pass {
            Failure::Lost(reason)
        } else if is_about_a_row(code.code()) {
            Failure::Refused(reason)
        } else {
            Failure::Final(refused(reason, None))
        }
    }
}

/// Whether a failure of this code may pass by itself.
fn may_pass(code: &str) -> bool {
    // Connection, transaction rolled back, resources, the operator's doing, the server's system.
    let class = code.get(..2).unwrap_or_default();
    ["08", "40", "53", "57", "58"].contains(&class) || code == SqlState::LOCK_NOT_AVAILABLE.code()
}

impl Failure {
    /// The message to the user if it is not tried again.
    pub fn into_cause(self, server: &str) -> Cause {
        match self {
            Failure::Final(cause) => cause,
            Failure::Refused(reason) => refused(reason, None),
            Failure::Lost(reason) => {
                let cause = Cause::operation(format!("PostgreSQL at {server}: {reason}"));
                reason.explains(cause)
            }
        }
    }
}

/// Why a step failed, in words for people, with the error that says it.
#[derive(Debug)]
pub(super) struct Reason {
    text: String,
    error: Option<ServerError>,
}

impl Reason {
    /// The cause, which keeps the error.
    pub fn explains(self, cause: Cause) -> Cause {
        match self.error {
            Some(error) => cause.with_source(error),
            None => cause,
        }
    }
}

impl Display for Reason {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl From<Error> for Reason {
    /// The error with its reason and detail. Neither the server nor the client puts the password in it.
    fn from(error: Error) -> Reason {
        let text = match error.as_db_error() {
            Some(database) => match database.detail() {
                Some(detail) => format!("{} ({detail})", database.message()),
                None => database.message().to_owned(),
            },
            None if let Some(reason) = tls_failure(&error) => reason,
            None => match error.source() {
                Some(source) if !error.to_string().contains(&source.to_string()) => {
                    format!("{error}: {source}")
                }
                _ => error.to_string(),
            },
        };
        Reason { text, error: Some(ServerError(error)) }
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Reason {
        Reason { text, error: None }
    }
}

/// An error of the server or of the connection to it. Its text has what the message for people leaves out: the SQLSTATE,
/// and the table, column and constraint that the server names.
#[derive(Debug)]
struct ServerError(Error);

impl Display for ServerError {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let Some(database) = self.0.as_db_error() else { return Display::fmt(&self.0, formatter) };
        write!(formatter, "SQLSTATE {}", database.code().code())?;
        let named = [
            ("table", DbError::table),
            ("column", DbError::column),
            ("type", DbError::datatype),
            ("constraint", DbError::constraint),
            ("where", DbError::where_),
            ("hint", DbError::hint),
        ] as [(&str, fn(&DbError) -> Option<&str>); 6];
        for (what, of) in named {
            if let Some(text) = of(database) {
                write!(formatter, ", {what}: {}", text.replace('\n', " "))?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // "db error" says nothing.
        self.0.source()
    }
}

/// The error of a sink that does not keep refused rows; with the row, if it is known.
pub(super) fn refused(reason: Reason, row: Option<RefusedRow>) -> Cause {
    let cause = Cause::user(format!("PostgreSQL refuses the rows: {reason}"));
    match (row, reason.error) {
        (Some(row), Some(error)) => cause.with_source(row.refused_by(error)),
        (Some(row), None) => cause.with_source(row),
        (None, Some(error)) => cause.with_source(error),
        (None, None) => cause,
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

/// Why the sink cannot start. [`Failure::Lost`]: the server is away, or not ready yet.
pub(super) fn open_failure(error: Error, server: &str) -> Failure {
    let code = error.code().map(|code| code.code().to_owned());
    let source = error.source();
    let is_unreachable = source.is_some_and(|source| source.is::<std::io::Error>()) || error.is_closed();
    if let Some(cause) = source.and_then(|source| source.downcast_ref::<Cause>()) {
        let cause = cause.clone().map_message(|text| format!("PostgreSQL at {server}: {text}"));
        return Failure::Final(cause);
    }
    let is_of_tls = tls_failure(&error).is_some();
    let reason = Reason::from(error);
    let cause = match code.as_deref() {
        None if is_of_tls => Cause::user(format!("PostgreSQL at {server}: {reason}")),
        None if is_unreachable => {
            let text = format!("it cannot be reached: {reason}; is it running?");
            return Failure::Lost(Reason { text, ..reason });
        }
        None => Cause::user(format!("PostgreSQL at {server} cannot be used: {reason}")),
        Some(code) if may_pass(code) => return Failure::Lost(reason),
        Some(code) => Cause::user(format!("PostgreSQL at {server}: {reason}{}", remedy(code))),
    };
    Failure::Final(reason.explains(cause))
}

fn remedy(code: &str) -> &'static str {
    match code {
        "28P01" | "28000" => "; check user and password, and the server's pg_hba.conf",
        "3D000" => "; create the database, or choose another one",
        "42P01" => "; create the table, or set create = true to have it created",
        "42501" => "; grant the permission, or connect as another user",
        "42P10" => "; the table needs a primary key or a unique index on exactly the key's columns",
        _ => "",
    }
}

/// Why TLS failed, if it did.
fn tls_failure(error: &Error) -> Option<String> {
    let source = error.source()?;
    if source.to_string().contains("does not support TLS") {
        return Some(
            "the server does not offer TLS; switch it on (ssl = on), or write sslmode=prefer".to_owned(),
        );
    }
    tls::failure(source.downcast_ref()?)
}
