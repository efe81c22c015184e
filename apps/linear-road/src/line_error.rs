//! What is wrong with a line of text: the field, its column and the reason.

use std::fmt;

/// Why a line was refused, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}{reason}", place = FieldLocation(self))]
pub struct LineError {
    /// The field's name in the specification; `None` if the line as a whole is wrong.
    pub field: Option<&'static str>,
    /// The field's first byte in the line, from 1.
    pub column: usize,
    /// What is wrong.
    pub reason: LineReason,
}

impl LineError {
    /// An error of the line as a whole.
    pub(crate) fn whole_line(reason: LineReason) -> LineError {
        LineError { field: None, column: 1, reason }
    }
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LineReason {
    /// The line is empty.
    EmptyLine,
    /// More or fewer fields than the format has.
    FieldCount {
        /// Fields in the line.
        found: usize,
        /// Fields in the format.
        expected: usize,
    },
    /// Nothing between two commas.
    EmptyField,
    /// Anything but an optional minus sign and digits; blanks count, too.
    NotAnInteger,
    /// A time with anything but digits and one decimal point.
    NotADecimal,
    /// A number outside the field's range.
    OutOfRange {
        /// The number; `i64::MIN` or `i64::MAX` if it is beyond them.
        value: i64,
        /// The smallest allowed number.
        min: i64,
        /// The largest allowed number.
        max: i64,
    },
    /// A type that the format does not have.
    UnknownType {
        /// The number found.
        value: i64,
    },
    /// The file ends within this line.
    Truncated,
    /// The line is longer than the limit.
    OverLong {
        /// The line's length in bytes.
        length_bytes: u64,
    },
    /// The line is older than one before it; valid input is ordered by time.
    TimeBackwards {
        /// The line's second.
        time: u16,
        /// The latest second before it.
        after: u16,
    },
}

impl LineReason {
    /// The reason without its numbers, for counting.
    pub fn label(&self) -> &'static str {
        match self {
            LineReason::EmptyLine => "empty line",
            LineReason::FieldCount { .. } => "wrong number of fields",
            LineReason::EmptyField => "empty field",
            LineReason::NotAnInteger => "not an integer",
            LineReason::NotADecimal => "not a decimal number",
            LineReason::OutOfRange { .. } => "out of range",
            LineReason::UnknownType { .. } => "unknown type",
            LineReason::Truncated => "truncated line",
            LineReason::OverLong { .. } => "over-long line",
            LineReason::TimeBackwards { .. } => "time goes backwards",
        }
    }
}

impl fmt::Display for LineReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = self.label();
        match *self {
            LineReason::FieldCount { found, expected } => {
                write!(formatter, "{label}: {found} instead of {expected}")
            }
            LineReason::OutOfRange { value, min, max } => {
                let more = if matches!(value, i64::MIN | i64::MAX) { " or beyond" } else { "" };
                write!(formatter, "{label}: {value}{more}, allowed is {min} to {max}")
            }
            LineReason::UnknownType { value } => write!(formatter, "{label} {value}"),
            LineReason::Truncated => write!(formatter, "{label}: the file ends in the middle of it"),
            LineReason::OverLong { length_bytes } => write!(formatter, "{label}: {length_bytes} bytes"),
            LineReason::TimeBackwards { time, after } => {
                write!(formatter, "{label}: {time} after {after}")
            }
            _ => formatter.write_str(label),
        }
    }
}

struct FieldLocation<'a>(&'a LineError);

impl fmt::Display for FieldLocation<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.field {
            Some(field) => write!(formatter, "{field} (character {}): ", self.0.column),
            None => Ok(()),
        }
    }
}
