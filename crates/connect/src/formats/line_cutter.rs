//! Cuts text that comes in pieces into its lines.

use tidemill_core::BadRecords;
use tidemill_core::error::Cause;

use super::{RECORD_LIMIT_BYTES, Waiting};

/// The lines of one input after the other.
#[derive(Debug)]
pub(super) struct LineCutter {
    /// A line that has begun.
    begun: Vec<u8>,
    /// Whether the line that has begun is too long to be kept.
    is_too_long: bool,
    next_number: u64,
}

/// A line without its end, or why it is none.
pub(super) type Cut<'a> = Result<&'a str, BadLine<'a>>;

/// Bytes that are not a line.
pub(super) struct BadLine<'a> {
    pub(super) reason: String,
    /// Its bytes, or the first of them.
    pub(super) bytes: &'a [u8],
}

impl LineCutter {
    pub(super) fn new() -> LineCutter {
        LineCutter { begun: Vec::new(), is_too_long: false, next_number: 1 }
    }

    /// A new input begins, or the current one continues elsewhere, with the line of this number.
    pub(super) fn resume_at(&mut self, line: u64) {
        self.begun.clear();
        self.is_too_long = false;
        self.next_number = line;
    }

    /// What waits for more bytes; `None` within a line that is being discarded.
    pub(super) fn waiting(&self) -> Option<Waiting> {
        let (bytes, line) = (self.begun.len() as u64, self.next_number);
        (!self.is_too_long).then_some(Waiting { bytes, line })
    }

    /// Passes on the lines that are complete with these bytes, each with its number.
    pub(super) fn cut(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(u64, Cut<'_>) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let line = &rest[..end];
            rest = &rest[end + 1..];
            if self.begun.is_empty() && !self.is_too_long && line.len() <= RECORD_LIMIT_BYTES {
                let number = self.number();
                take(number, text_of(line))?;
            } else {
                self.extend(line);
                self.end_line(&mut take)?;
            }
        }
        self.extend(rest);
        Ok(())
    }

    /// The input has ended: passes on a last line that has no end.
    pub(super) fn finish(
        &mut self,
        mut take: impl FnMut(u64, Cut<'_>) -> Result<(), Cause>,
    ) -> Result<(), Cause> {
        if self.begun.is_empty() && !self.is_too_long { Ok(()) } else { self.end_line(&mut take) }
    }

    /// Takes a piece of a line; drops it if the line is too long.
    fn extend(&mut self, bytes: &[u8]) {
        if self.is_too_long {
            return;
        }
        self.is_too_long = self.begun.len() + bytes.len() > RECORD_LIMIT_BYTES;
        if self.is_too_long {
            // Somebody may want to see what it began with.

            let missing = (BadRecords::RECORD_BYTES_MAX + 1).saturating_sub(self.begun.len());
            self.begun.extend_from_slice(&bytes[..bytes.len().min(missing)]);
            self.begun.truncate(BadRecords::RECORD_BYTES_MAX + 1);
            self.begun.shrink_to_fit();
        } else {
            self.begun.extend_from_slice(bytes)
        }
    }

    /// Completes the line that has begun.
    fn end_line(&mut self, take: &mut impl FnMut(u64, Cut<'_>) -> Result<(), Cause>) -> Result<(), Cause> {
        let number = self.number();
        let taken = if std::mem::take(&mut self.is_too_long) {
            let reason = format!("more than {RECORD_LIMIT_BYTES} bytes");
            take(number, Err(BadLine { reason, bytes: &self.begun }))
        } else {
            take(number, text_of(&self.begun))
        };
        self.begun.clear();
        taken
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }
}

fn text_of(line: &[u8]) -> Cut<'_> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let reason = || "bytes that are not UTF-8".to_owned();
    std::str::from_utf8(line).map_err(|_| BadLine { reason: reason(), bytes: line })
}
