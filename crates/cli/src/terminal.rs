//! Output for people: progress and errors on standard error, results on standard output. Neither fails if nobody reads
//! any more (`| head -1`).

use std::io::{self, IsTerminal, Write};

use anyhow::Context;
use indicatif::ProgressBar;
use parking_lot::Mutex;

/// The line on standard error that changes, if there is one.
static STATUS_LINE: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// From now on this line changes on standard error; `None`: none does.
#[cfg(feature = "sql")]
pub(crate) fn set_status_line(line: Option<ProgressBar>) {
    *STATUS_LINE.lock() = line;
}

/// Writes something to standard error that stays, above the line that changes.
pub(crate) fn above_status_line<T>(write: impl FnOnce() -> T) -> T {
    match STATUS_LINE.lock().as_ref() {
        Some(line) => line.suspend(write),
        None => write(),
    }
}

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
