//! One row as a JSON object that any database can hold.

use std::fmt::Write;

use arrow_array::RecordBatch;

use super::{NdjsonEncoder, TextEncoder};

/// A row as a JSON object, in ASCII and without characters of code 0.
pub(crate) fn row_json(row: &RecordBatch) -> String {
    let mut text = Vec::new();
    let written =
        NdjsonEncoder::of_any_value(row.schema_ref()).and_then(|mut encoder| encoder.rows(row, &mut text));
    match written {
        Ok(()) => ascii(&without_zeros(String::from_utf8_lossy(&text).trim_end())),
        Err(cause) => format!("{{\"error\": \"{}\"}}", ascii(&cause.to_string()).replace('"', "'")),
    }
}

/// JSON in which the escape of the character of code 0 is spelled out, because PostgreSQL cannot read any field of an
/// object that has one.
fn without_zeros(json: &str) -> String {
    let mut spelled = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        spelled.push_str(before);
        let (escape, after) = if let Some(after) = escape.strip_prefix("\\u0000") {
            ("\\\\u0000", after)
        } else {
            // The character after a backslash is ASCII.
            escape.split_at(escape.len().min(2))
        };
        spelled.push_str(escape);
        rest = after;
    }
    spelled + rest
}

/// The text with everything but printable ASCII written as JSON escapes.
pub(crate) fn ascii(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut units = [0; 2];
    for character in text.chars() {
        match character {
            ' '..='~' => escaped.push(character),
            other => {
                for unit in other.encode_utf16(&mut units) {
                    // Writing to a text cannot fail.
                    let _ = write!(escaped, "\\u{unit:04x}");
                }
            }
        }
    }
    escaped
}
