//! The token of a sender: the first line of what it sends.

use std::io;
use std::time::{Duration, Instant};

use super::connection::Socket;
use crate::tls::HANDSHAKE_TIMEOUT;
use crate::tokens::Tokens;

/// The longest first line.
const LINE_BYTES_MAX: usize = 4096;
/// A read waits for at least so long; zero would mean for ever.
const WAIT_MIN: Duration = Duration::from_millis(1);

/// Reads the first line of a connection, which must be somebody's token. The error says why it is not.
pub(super) fn check_token(
    mut socket: Socket,
    tokens: &Tokens,
    idle_timeout: Option<Duration>,
) -> Result<Socket, String> {
    if matches!(tokens, Tokens::NotNeeded) {
        return Ok(socket);
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
    match is_known(tokens, &line) {
        true => socket.prepare(idle_timeout).map(|()| socket).map_err(|error| error.to_string()),
        false => Err(wrong()),
    }
}

/// Whether a line is somebody's token.
pub(super) fn is_known(tokens: &Tokens, line: &[u8]) -> bool {
    tokens.name_of(Some(line.strip_suffix(b"\r").unwrap_or(line))).is_some()
}

fn wrong() -> String {
    "its first line is not a token that is known here; send one as the first line".to_owned()
}

fn is_wait(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}
