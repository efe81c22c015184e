//! Asks who a client is.

use std::io::{Read, Write};
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use tidemill_service::User;

use crate::authentication::{Exchange, ScramError, Verifier};
use crate::postgres::wire::{RequestError, Writer, chosen_mechanism, read_password};
use crate::report::{
    INVALID_AUTHORIZATION, INVALID_PASSWORD, PROTOCOL_VIOLATION, Report, TOO_MANY_CONNECTIONS,
};
use crate::sessions::identity::Identity;
use crate::sessions::server_state::ServerState;

const MECHANISM: &str = "SCRAM-SHA-256";
/// How often a late answer looks whether the server is shutting down.
const LOOK: Duration = Duration::from_millis(20);
/// How long a client waits while others at its address give wrong passwords.
const TURN_WAIT: Duration = Duration::from_secs(8);

/// Why there is no session.
pub(crate) enum NoLogin {
    /// The client is told.
    Refused(Report),
    Request(RequestError),
    /// The client has gone, mostly to ask its user for the password.
    Gone,
}

impl<E: Into<RequestError>> From<E> for NoLogin {
    fn from(error: E) -> NoLogin {
        NoLogin::Request(error.into())
    }
}

/// Finds out who a client is, who says to be `name`.
pub(crate) fn log_in<S: Write>(
    stream: &mut impl Read,
    writer: &mut Writer<S>,
    name: &str,
    address: IpAddr,
    shared: &ServerState,
) -> Result<Identity, NoLogin> {
    if !shared.runtime.has_users() {
        return if shared.asks_nobody {
            Ok(Identity::Anybody)
        } else {
            Err(NoLogin::Refused(without_users()))
        };
    }
    if name.is_empty() {
        let report = Report::fatal(INVALID_AUTHORIZATION, "the client does not say which user it is");
        return Err(NoLogin::Refused(report.with_hint("name one, as in psql -U name")));
    }
    if !waits_for_turn(shared, address, name) {
        let report =
            Report::fatal(TOO_MANY_CONNECTIONS, format!("too many wrong passwords came from {address}"));
        return Err(NoLogin::Refused(report.with_hint("try again in some seconds")));
    }
    let user = shared.runtime.user(name);
    let verifier = match &user {
        Some(user) => user.verifier.parse().map_err(|_| damaged(user))?,
        None => Verifier::of_nobody(name, &shared.secret())?,
    };
    match exchange(stream, writer, verifier)? {
        // A user that is not there has no password, whatever was proved.
        Ok(last) if user.is_some() => {
            writer.sasl_final(&last)?;
            Ok(Identity::User(name.to_owned()))
        }
        Err(ScramError::Malformed(why)) => {
            let message = format!("the login does not follow {MECHANISM}: {why}");
            Err(NoLogin::Refused(Report::fatal(PROTOCOL_VIOLATION, message)))
        }
        Ok(_) | Err(ScramError::WrongPassword) => {
            tracing::warn!(user = name, %address, "a login has failed");
            answer_late(shared, shared.attempts.failed(address, name, Instant::now()));
            let message = format!("password authentication failed for user '{name}'");
            Err(NoLogin::Refused(Report::fatal(INVALID_PASSWORD, message)))
        }
    }
}

/// Waits until a password is looked at, as somebody else may be guessing from the same address; whether that came in time.
fn waits_for_turn(shared: &ServerState, address: IpAddr, name: &str) -> bool {
    let until = Instant::now() + TURN_WAIT;
    while !shared.attempts.admits(address, name, Instant::now()) {
        if Instant::now() >= until || shared.connections.is_stopping() {
            return false;
        }
        thread::sleep(LOOK);
    }
    true
}

fn without_users() -> Report {
    let message = "there are no users, so the server serves only this machine";
    let report = Report::fatal(INVALID_AUTHORIZATION, message);
    report.with_hint(
        "start the server with --listen 127.0.0.1:5433, and CREATE USER name PASSWORD '...' ROLE owner",
    )
}

fn damaged(user: &User) -> NoLogin {
    let message = format!("the password of user '{}' cannot be checked", user.name);
    let hint = format!("an owner can set a new one: ALTER USER {} PASSWORD '...'", user.name);
    NoLogin::Refused(Report::fatal(INVALID_PASSWORD, message).with_hint(hint))
}

/// The messages of the exchange; the inner result says whether the password was proved.
fn exchange<S: Write>(
    stream: &mut impl Read,
    writer: &mut Writer<S>,
    verifier: Verifier,
) -> Result<Result<String, ScramError>, NoLogin> {
    writer.sasl_mechanisms(&[MECHANISM])?;
    writer.flush()?;
    let body = read_password(stream)?.ok_or(NoLogin::Gone)?;
    let (mechanism, first) = chosen_mechanism(&body)?;
    if mechanism != MECHANISM {
        return Ok(Err(ScramError::Malformed("the client has chosen another mechanism")));
    }
    let exchange = match Exchange::begin(&first, verifier)? {
        Ok(exchange) => exchange,
        Err(error) => return Ok(Err(error)),
    };
    writer.sasl_continue(exchange.first_answer())?;
    writer.flush()?;
    let last = read_password(stream)?.ok_or(NoLogin::Gone)?;
    Ok(exchange.finish(&last))
}

fn answer_late(shared: &ServerState, delay: Duration) {
    let start = Instant::now();
    while start.elapsed() < delay && !shared.connections.is_stopping() {
        thread::sleep(LOOK.min(delay));
    }
}
