//! Counts, samples and reports bad lines, while the good rest of a file continues.

use std::collections::BTreeMap;
use std::fmt;

use tidemill_connect::Line;

use crate::line_error::LineError;

/// How much of a line is shown, in bytes after escaping.
const EXCERPT_BYTES: usize = 80;
const SAMPLES_KEPT: usize = 10;

/// A bad line, as it is shown: `file:line: reason: excerpt`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {error}: {excerpt}")]
pub struct BadLine {
    /// The file's name.
    pub file: String,
    /// The line's number, from 1.
    pub line: u64,
    /// What is wrong.
    pub error: LineError,
    /// The beginning of the line, escaped, at most 80 bytes.
    pub excerpt: String,
}

impl BadLine {
    /// Describes a bad line.
    pub fn new(file: &str, line: &Line<'_>, error: LineError) -> BadLine {
        BadLine { file: file.to_owned(), line: line.number, error, excerpt: excerpt(line.bytes) }
    }
}

/// The bad lines of a run: counted by reason, the first ten kept as samples.
///
/// ```
/// use tidemill_connect::LineFile;
/// use tidemill_linear_road::{bad_lines::BadLines, text_read::parse_file_line, text_read::parse_history_row};
///
/// let mut bad_lines = BadLines::new();
/// let mut file = LineFile::from_reader("history.csv", &b"125,24,0,79\n125,70,0,79\n"[..])?;
/// while let Some(chunk) = file.next_chunk()? {
///     for line in chunk.lines() {
///         if let Err(error) = parse_file_line(&line, parse_history_row) {
///             bad_lines.record("history.csv", &line, error)?;
///         }
///     }
/// }
/// assert_eq!(bad_lines.total(), 1);
/// let sample = bad_lines.samples()[0].to_string();
/// assert_eq!(sample, "history.csv:2: Day (character 5): out of range: 70, allowed is 1 to 69: 125,70,0,79");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct BadLines {
    strict: bool,
    counts: BTreeMap<&'static str, u64>,
    samples: Vec<BadLine>,
}

impl BadLines {
    /// Counts and continues.
    pub fn new() -> BadLines {
        BadLines::default()
    }

    /// Treats the first bad line as an error.
    pub fn strict() -> BadLines {
        BadLines { strict: true, ..BadLines::default() }
    }

    /// Counts a bad line of `file`.
    ///
    /// # Errors
    /// In strict mode, the bad line itself.
    #[cold]
    pub fn record(&mut self, file: &str, line: &Line<'_>, error: LineError) -> Result<(), BadLine> {
        *self.counts.entry(error.reason.label()).or_default() += 1;
        if self.samples.len() < SAMPLES_KEPT {
            self.samples.push(BadLine::new(file, line, error));
        }
        if self.strict { Err(BadLine::new(file, line, error)) } else { Ok(()) }
    }

    /// How many lines were bad.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Reason and number of lines, in alphabetical order of the reasons.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.counts.iter().map(|(label, count)| (*label, *count))
    }

    /// The first bad lines.
    pub fn samples(&self) -> &[BadLine] {
        &self.samples
    }
}

/// The counts in one line and the samples below; nothing if no line was bad.
impl fmt::Display for BadLines {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.counts.is_empty() {
            return Ok(());
        }
        let counts: Vec<String> = self.counts().map(|(label, count)| format!("{count} {label}")).collect();
        let plural = if self.total() == 1 { "" } else { "s" };
        write!(formatter, "{} bad line{plural}: {}", self.total(), counts.join(", "))?;
        for sample in &self.samples {
            write!(formatter, "\n  {sample}")?;
        }
        let hidden = self.total() - self.samples.len() as u64;
        if hidden > 0 {
            write!(formatter, "\n  and {hidden} more")?;
        }
        Ok(())
    }
}

/// The beginning of a line in printable ASCII, at most 80 bytes, with `...` where it was cut.
pub(crate) fn excerpt(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut cut = 0;
    for byte in bytes {
        text.extend(std::ascii::escape_default(*byte).map(char::from));
        if text.len() > EXCERPT_BYTES {
            text.truncate(cut);
            text.push_str("...");
            break;
        }
        if text.len() <= EXCERPT_BYTES - 3 {
            cut = text.len();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::excerpt;

    #[test]
    fn excerpts_are_short_and_printable() {
        assert_eq!(excerpt(b"a\t\xff\x1b[2J"), "a\\t\\xff\\x1b[2J");
        assert_eq!(excerpt(&[b'x'; 80]), "x".repeat(80));
        assert_eq!(excerpt(&[b'x'; 81]), "x".repeat(77) + "...");
        for length in 0..100 {
            let text = excerpt(&vec![0xff; length]);
            assert!(text.len() <= 80 && text.ends_with("...") == (length > 20), "{length} {text}");
        }
    }
}
