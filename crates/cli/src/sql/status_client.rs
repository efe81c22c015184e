//! Asks a running server or pipeline for its status.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use tidemill_engine::Cause;

/// How long to wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// More than any status has.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The variable that has the password: other users of the machine see the arguments of a command.
const PASSWORD: &str = "TIDEMILL_PASSWORD";

/// Who asks, for a server that has users.
#[derive(Debug, clap::Args)]
pub(super) struct Login {
    /// The user, if the server has users; the password is in the environment variable TIDEMILL_PASSWORD
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

impl Login {
    /// The header of a request.
    fn header(&self) -> String {
        let Some(user) = &self.user else { return String::new() };
        let password = std::env::var(PASSWORD).unwrap_or_default();
        format!("Authorization: Basic {}\r\n", BASE64.encode(format!("{user}:{password}")))
    }
}

/// The status that is given at an address.
pub(super) fn ask(address: SocketAddr, login: &Login) -> Result<Value, Cause> {
    let answer = fetch(address, login).map_err(|error| {
        let hint = "is `tidemill serve` or `tidemill run --http` running, and is this its --http address?";
        Cause::operation(format!("no answer from {address}: {error}; {hint}")).with_source(error)
    })?;
    let other = || Cause::user(format!("what answers at {address} is not Tidemill; check --http"));
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(other)?;
    if head.split(' ').nth(1) == Some("401") {
        return Err(Cause::user(format!(
            "{address} asks for name and password; give --user NAME, and the password in the environment variable \
             {PASSWORD}"
        )));
    }
    if head.split(' ').nth(1) != Some("200") {
        return Err(other());
    }
    let status: Value = serde_json::from_str(body).map_err(|_| other())?;
    if status["queries"].is_array() { Ok(status) } else { Err(other()) }
}

fn fetch(address: SocketAddr, login: &Login) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let authorization = login.header();
    let request =
        format!("GET /api/status HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{authorization}\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    Ok(answer)
}
