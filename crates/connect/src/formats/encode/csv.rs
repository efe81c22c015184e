//! Comma-separated values.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::Cause;

use super::column_texts::{ColumnTexts, WithoutText};
use super::{TextEncoder, no_text};

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
/// Lists, structs and maps are one value, written as PostgreSQL writes it: `{1,2}`, `(1,"a b")`.
#[derive(Debug)]
pub struct CsvEncoder {
    names: Vec<String>,
    style: CsvStyle,
    value: String,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

impl CsvEncoder {
    /// An encoder for rows of this schema.
    pub fn new(schema: &SchemaRef, style: CsvStyle) -> Self {
        let names = schema.fields().iter().map(|field| field.name().clone()).collect();
        CsvEncoder { names, style, value: String::new() }
    }

    fn lines(&mut self, rows: &RecordBatch, text: &mut Vec<u8>) -> Result<(), Cause> {
        let columns = rows.columns().iter().zip(&self.names).map(|(column, name)| {
            ColumnTexts::new(column, WithoutText::Refused).map_err(|error| no_text("CSV", name, &error))
        });
        let columns = columns.collect::<Result<Vec<_>, Cause>>()?;
        for row in 0..rows.num_rows() {
            for (index, column) in columns.iter().enumerate() {
                if index > 0 {
                    text.push(self.style.delimiter);
                }
                if !column.is_null(row) {
                    self.value.clear();
                    column
                        .write(row, &mut self.value)
                        .map_err(|error| no_text("CSV", &self.names[index], &error))?;
                    push_value(self.value.as_bytes(), self.style.delimiter, text);
                }
            }
            text.push(b'\n');
        }
        Ok(())
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
