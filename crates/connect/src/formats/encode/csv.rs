//! Comma-separated values.

use std::fmt::Write;

use arrow_array::{Array, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, SchemaRef};
use tidemill_core::Cause;

use super::{DISPLAY, TextEncoder, no_text};

/// How CSV is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvStyle {
    /// The separator between two values; one ASCII character other than `"`, `\r` and `\n`.
    pub delimiter: u8,
    /// Whether the column names come first.
    pub header: bool,
}

impl Default for CsvStyle {
    fn default() -> Self {
        CsvStyle { delimiter: b',', header: true }
    }
}

/// Writes CSV according to RFC 4180, with `\n` at the end of a line. NULL is nothing between two delimiters, an empty
/// text is `""`. So with only one column, NULL is an empty line: our reader, PostgreSQL and DuckDB read it as NULL.
/// Lists, structs and maps are one value, written as in a table.
#[derive(Debug)]
pub struct CsvEncoder {
    names: Vec<String>,
    style: CsvStyle,
    value: String,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// As in tables, but a value that cannot be written is an error and not a text.
pub(super) const STRICT: FormatOptions<'static> = DISPLAY.with_display_error(false);

impl CsvEncoder {
    /// An encoder for rows of this schema.
    pub fn new(schema: &SchemaRef, style: CsvStyle) -> Self {
        let names = schema.fields().iter().map(|field| field.name().clone()).collect();
        CsvEncoder { names, style, value: String::new() }
    }

    fn lines(&mut self, rows: &RecordBatch, text: &mut Vec<u8>) -> Result<(), Cause> {
        let formatters = rows.columns().iter().zip(&self.names).map(|(column, name)| {
            ArrayFormatter::try_new(column, &STRICT).map_err(|error| no_text("CSV", name, &error))
        });
        let formatters = formatters.collect::<Result<Vec<_>, Cause>>()?;
        let nulls: Vec<_> = rows.columns().iter().map(|column| column.logical_nulls()).collect();
        for row in 0..rows.num_rows() {
            for (index, formatter) in formatters.iter().enumerate() {
                if index > 0 {
                    text.push(self.style.delimiter);
                }
                if !nulls[index].as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    self.value.clear();
                    write!(self.value, "{}", formatter.value(row))
                        .map_err(|_| self.bad_value(formatter, index, row))?;
                    push_value(self.value.as_bytes(), self.style.delimiter, text);
                }
            }
            text.push(b'\n');
        }
        Ok(())
    }

    #[cold]
    fn bad_value(&self, formatter: &ArrayFormatter<'_>, column: usize, row: usize) -> Cause {
        let error = formatter.value(row).try_to_string().err();
        let error = error.unwrap_or_else(|| ArrowError::CastError("it has no text form".into()));
        no_text("CSV", &self.names[column], &error)
    }
}

impl TextEncoder for CsvEncoder {
    fn header(&self, text: &mut Vec<u8>) {
        if !self.style.header {
            return;
        }
        for (index, name) in self.names.iter().enumerate() {
            if index > 0 {
                text.push(self.style.delimiter);
            }
            push_value(name.as_bytes(), self.style.delimiter, text);
        }
        text.push(b'\n');
    }

    fn rows(&mut self, rows: &RecordBatch, text: &mut Vec<u8>) -> Result<(), Cause> {
        let start = text.len();
        self.lines(rows, text).inspect_err(|_| text.truncate(start))
    }
}

/// Appends a value that is not NULL, in quotes if necessary.
fn push_value(value: &[u8], delimiter: u8, text: &mut Vec<u8>) {
    let is_special = |byte: &u8| *byte == delimiter || matches!(byte, b'"' | b'\r' | b'\n');
    // At the start of a file it would be left out.
    let has_mark = value.starts_with(BYTE_ORDER_MARK);
    if !value.is_empty() && !has_mark && !value.iter().any(is_special) {
        return text.extend_from_slice(value);
    }
    text.push(b'"');
    for byte in value {
        if *byte == b'"' {
            text.push(b'"');
        }
        text.push(*byte);
    }
    text.push(b'"');
}
