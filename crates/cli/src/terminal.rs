//! Output for people: progress and errors on standard error, results on standard output. Neither fails if nobody reads
//! any more (`| head -1`).

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
    write(format!("{text}\n").as_bytes()).map(|_| ())
}

/// Text on standard output. Returns whether somebody still reads.
pub(crate) fn write(text: &[u8]) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        other => other.map(|()| true).context("cannot write to standard output"),
    }
}

/// The lines and columns of the terminal that standard output leads to; `None` if it leads elsewhere, or nobody knows.
#[cfg(feature = "sql")]
pub(crate) fn size() -> Option<(usize, usize)> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let (lines, columns) = console::Term::stdout().size_checked()?;
    (lines > 0 && columns > 0).then_some((lines.into(), columns.into()))
}

/// Whether rows on standard output and a status line would overwrite each other.
#[cfg(feature = "sql")]
pub(crate) fn shares_terminal() -> bool {
    io::stdout().is_terminal() && io::stderr().is_terminal()
}
