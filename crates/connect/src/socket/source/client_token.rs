//! The token of a sender: the first line of what it sends.

use std::time::{Duration, Instant};
use std::{fmt, io};

use super::connection::Socket;
use crate::tls::HANDSHAKE_TIMEOUT;
use crate::tokens::{TokenOwner, Tokens};

/// The longest first line.
const LINE_BYTES_MAX: usize = 4096;
/// A read waits for at least so long; zero would mean for ever.
const WAIT_MIN: Duration = Duration::from_millis(1);

/// The token of a sender, and its name.
#[derive(Default)]
pub(super) struct KnownToken {
    pub(super) token: Vec<u8>,
    pub(super) name: String,
}

impl fmt::Debug for KnownToken {
    /// Without the token.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("KnownToken").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Reads the first line of a connection, which must be somebody's token. The error says why it is not.
pub(super) fn check_token(
    mut socket: Socket,
    tokens: &Tokens,
    idle_timeout: Option<Duration>,
) -> Result<(Socket, KnownToken), String> {
    if matches!(tokens, Tokens::NotNeeded) {
        return Ok((socket, KnownToken::default()));
    }
    let until = Instant::now() + HANDSHAKE_TIMEOUT;
    let mut line = Vec::new();
    // Byte by byte: what comes behind the line belongs to the rows.
    let mut byte = [0];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("no token came within {} s", HANDSHAKE_TIMEOUT.as_secs()));
        }
        socket.prepare(Some(left.max(WAIT_MIN))).map_err(|error| error.to_string())?;
        match socket.read(&mut byte) {
            Ok(0) => return Err("it ended before a token came".to_owned()),
            Ok(_) if byte == *b"\n" => break,
            Ok(_) if line.len() == LINE_BYTES_MAX => return Err(wrong()),
            Ok(_) => line.push(byte[0]),
            Err(error) if is_wait(&error) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    let token = token_of(&line).to_vec();
    match tokens.owner_of(Some(&token)) {
        TokenOwner::Somebody(name) => {
            let prepared = socket.prepare(idle_timeout).map_err(|error| error.to_string());
            prepared.map(|()| (socket, KnownToken { token, name }))
        }
        TokenOwner::NotHere(name) => Err(format!("the token of '{name}' is not for this source")),
        TokenOwner::Nobody => Err(wrong()),
    }
}

/// The token of a line.
pub(super) fn token_of(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// What has a name and the name of who sent it.
pub(super) fn named(place: &str, name: &str) -> String {
    if name.is_empty() { place.to_owned() } else { format!("{place} ({name})") }
}

fn wrong() -> String {
    "its first line is not a token that is known here; send one as the first line".to_owned()
}

fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}
