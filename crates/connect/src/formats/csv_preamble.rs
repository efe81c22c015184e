//! What may come before the header of a CSV: a line that names the delimiter, titles, comments.

use super::CsvSettings;
use super::csv_records::{Step, next_record};

/// The line before a CSV that names its delimiter, as Excel writes and reads it: `sep=;`.
pub(crate) fn named_delimiter(line: &[u8]) -> Option<u8> {
    let line = line.trim_ascii();
    let line = line.strip_prefix(b"\"").and_then(|line| line.strip_suffix(b"\"")).unwrap_or(line);
    match line {
        [b's' | b'S', b'e' | b'E', b'p' | b'P', b'=', delimiter] if delimiter.is_ascii_punctuation() => {
            Some(*delimiter)
        }
        // A tab was trimmed.
        [b's' | b'S', b'e' | b'E', b'p' | b'P', b'='] => Some(b'\t'),
        _ => None,
    }
}

/// Whether a line before a header is a comment, even if it has as many fields as one. `#rust` may be a value.
pub(crate) fn is_comment(line: &[u8]) -> bool {
    line.starts_with(b"# ") || line.starts_with(b"##")
}

/// Leaves out what comes before the header.
#[derive(Clone, Debug)]
pub(super) struct Preamble {
    is_first: bool,
    lines_left: u64,
    /// The fields of a record of the table, if those before it are known by their number.
    table_fields: Option<usize>,
    has_header: bool,
    has_comments: bool,
}

/// What the beginning of a CSV is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// The table begins here.
    Table,
    /// This is left out, and the next line begins there.
    LeftOut { next: usize },
    /// As before, and the line names the delimiter.
    Delimiter { next: usize, delimiter: u8 },
    /// Its first line is not complete.
    Incomplete,
}

impl Preamble {
    pub(super) fn new(settings: &CsvSettings) -> Preamble {
        Preamble {
            is_first: settings.names_delimiter,
            lines_left: settings.skip,
            table_fields: settings.table_fields,
            has_header: settings.header == Some(true),
            has_comments: false,
        }
    }

    /// Reading begins in the middle.
    pub(super) fn end(&mut self) {
        (self.is_first, self.lines_left) = (false, 0);
    }

    /// What begins at this place before the header.
    #[inline]
    pub(super) fn look(&mut self, bytes: &[u8], at: usize, delimiter: u8, quote: u8) -> Beginning {
        if !self.is_first && self.lines_left == 0 {
            return Beginning::Table;
        }
        let Some(newline) = memchr::memchr(b'\n', &bytes[at..]) else { return Beginning::Incomplete };
        let (line, next) = (&bytes[at..at + newline], at + newline + 1);
        if std::mem::take(&mut self.is_first)
            && let Some(delimiter) = named_delimiter(line)
        {
            return Beginning::Delimiter { next, delimiter };
        }
        let is_left_out = self.lines_left > 0
            && match self.table_fields {
                None => true,
                Some(_) if line.trim_ascii().is_empty() => return Beginning::LeftOut { next },
                // No row comes before the header.
                Some(_) if self.has_header && is_comment(line) => true,
                Some(fields) => {
                    let step = next_record(bytes, at, delimiter, quote, |_, _| {});
                    !matches!(step, Step::Record { fields: found, .. } if found == fields)
                }
            };
        if !is_left_out {
            self.lines_left = 0;
            return Beginning::Table;
        }
        self.lines_left -= 1;
        self.has_comments |= line.starts_with(b"#");
        Beginning::LeftOut { next }
    }

    /// Whether a record that is none of the table is a comment: the CSV began with one.
    pub(super) fn is_comment(&self, record: &[u8]) -> bool {
        self.has_comments && record.starts_with(b"#")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_names_the_delimiter_is_one_as_excel_writes_it() {
        for (line, delimiter) in
            [("sep=;", b';'), ("SEP=|\r", b'|'), ("\"sep=,\"", b','), ("sep=\t", b'\t'), ("sep=\r", b'\t')]
        {
            assert_eq!(named_delimiter(line.as_bytes()), Some(delimiter), "{line:?}");
        }
        for line in ["sep", "sep=a", "sep=;x", "separator", "", "sep=;;"] {
            assert_eq!(named_delimiter(line.as_bytes()), None, "{line:?}");
        }
    }
}
