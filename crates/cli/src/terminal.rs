//! Writing for people: progress and errors to standard error, results to standard output. Neither fails if
//! nobody reads on (`| head -1`).

use std::io::{self, IsTerminal, Write};

use anyhow::Context;

/// Whether a person watches standard error, so that a line may change.
pub(crate) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// A line on standard error.
pub(crate) fn tell(line: &str) {
    // There is nowhere left to complain.
    let _ = writeln!(io::stderr(), "{line}");
}

/// A result on standard output.
pub(crate) fn show(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}
