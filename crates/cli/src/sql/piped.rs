//! Statements from a pipe, executed one by one as they arrive.

use std::io::{BufRead, ErrorKind, stdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use tidemill_sql::{MAX_SCRIPT_BYTES, is_complete};

use super::client_command::ClientCommand;
use super::script::ScriptText;

/// Lines that may wait.
const LINES_MAX: usize = 1024;
/// How soon Ctrl-C is noticed while nothing comes.
const LOOK: Duration = Duration::from_millis(20);
/// Up to this line, places are given by their number in the whole input.
const LINES_COUNTED_MAX: usize = 10_000;

/// The next item from a pipe.
#[derive(Debug)]
pub(crate) enum PipedInput {
    /// One or more whole statements, or a command.
    Text(ScriptText),
    Ended,
    Interrupted,
}

/// Standard input, divided at the ends of statements.
pub(crate) struct PipedStatements {
    lines: Receiver<std::io::Result<String>>,
    lines_read: usize,
}

impl PipedStatements {
    /// Reads standard input on a separate thread, because waiting for a line cannot be interrupted.
    pub fn open() -> anyhow::Result<PipedStatements> {
        let (sender, lines) = sync_channel(LINES_MAX);
        let read = move || {
            for line in stdin().lock().lines() {
                let failed = line.is_err();
                if sender.send(line).is_err() || failed {
                    return;
                }
            }
        };
        thread::Builder::new().name("standard input".into()).spawn(read).context("cannot start a thread")?;
        Ok(PipedStatements { lines, lines_read: 0 })
    }

    /// Waits for the next item, or until `interrupted`.
    pub fn next(&mut self, interrupted: impl Fn() -> bool) -> anyhow::Result<PipedInput> {
        let mut text = String::new();
        let first_line = self.lines_read;
        loop {
            let line = match self.lines.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Timeout) if interrupted() => return Ok(PipedInput::Interrupted),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) if text.trim().is_empty() => {
                    return Ok(PipedInput::Ended);
                }
                // The last statement needs no ; at its end.
                Err(RecvTimeoutError::Disconnected) => return Ok(PipedInput::Text(whole(&text, first_line))),
                Ok(line) => line.map_err(|error| self.unreadable(&error))?,
            };
            self.lines_read += 1;
            text.push_str(&line);
            text.push('\n');
            if is_whole(&text, &line) || text.len() > MAX_SCRIPT_BYTES {
                return Ok(PipedInput::Text(whole(&text, first_line)));
            }
        }
    }

    fn unreadable(&self, error: &std::io::Error) -> anyhow::Error {
        let line = self.lines_read + 1;
        super::user_error(match error.kind() {
            ErrorKind::InvalidData => format!("standard input, line {line}: this is not UTF-8 text"),
            _ => format!("standard input, line {line}: {error}"),
        })
    }
}

/// Whether a text ends with a statement or is a command; `line` is its last line.
fn is_whole(text: &str, line: &str) -> bool {
    (line.contains(';') && is_complete(text)) || ClientCommand::read(text).is_some()
}

/// The text with its place: empty lines stand for the lines before it, so that errors name the line of the whole input.
fn whole(text: &str, first_line: usize) -> ScriptText {
    let (name, before) = match first_line {
        line if line <= LINES_COUNTED_MAX => ("standard input".to_owned(), "\n".repeat(line)),
        line => (format!("standard input from line {}", line + 1), String::new()),
    };
    ScriptText { name, text: before + text, is_standard_input: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_whole_with_its_semicolon() {
        let whole = |text: &str| is_whole(text, text.lines().last().unwrap_or_default());
        assert!(whole("SELECT 1;"));
        assert!(!whole("SELECT 1"));
        assert!(!whole("SELECT ';"));
        assert!(!whole("SELECT 1; SELECT"));
        assert!(whole("\\q"));
        assert!(!whole("SELECT 1\n\\q"));
    }

    #[test]
    fn errors_name_the_line_of_the_whole_input() {
        let error = whole("SELECT 1;\nSELECT FROM;\n", 4).statements().unwrap_err().to_string();
        assert!(error.contains("standard input:6:"), "{error}");
        let error = whole("SELECT FROM;\n", 50_000).statements().unwrap_err().to_string();
        assert!(error.contains("standard input from line 50001:1:"), "{error}");
    }
}
