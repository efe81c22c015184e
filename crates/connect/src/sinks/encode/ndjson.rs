//! One JSON object per line.

use std::collections::HashSet;

use arrow_array::RecordBatch;
use arrow_json::WriterBuilder;
use arrow_json::writer::LineDelimited;
use arrow_schema::SchemaRef;
use tidemill_core::Cause;

use super::TextEncoder;

/// Writes each row as a JSON object on a line of its own, with all its columns: NULL is `null`, and so are
/// NaN and the infinities, which JSON cannot say. Timestamps are ISO 8601 (`2026-11-20T19:00:00`), binary
/// values hexadecimal. A time that is in no calendar (beyond the year 262,000, so never in nanoseconds)
/// becomes the text `ERROR: ...`.
#[derive(Debug)]
pub struct NdjsonEncoder(());

impl NdjsonEncoder {
    /// An encoder for rows of this schema.
    ///
    /// # Errors
    /// [`Cause::User`] if two columns have the same name: most readers would keep only one of them.
    pub fn new(schema: &SchemaRef) -> Result<Self, Cause> {
        let mut names = HashSet::new();
        match schema.fields().iter().find(|field| !names.insert(field.name())) {
            None => Ok(NdjsonEncoder(())),
            Some(field) => Err(Cause::User(format!(
                "two columns are named '{0}', which JSON cannot say; rename one: SELECT ... AS another_name",
                field.name()
            ))),
        }
    }
}

impl TextEncoder for NdjsonEncoder {
    fn header(&self, _text: &mut Vec<u8>) {}

    fn rows(&mut self, rows: &RecordBatch, text: &mut Vec<u8>) -> Result<(), Cause> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let start = text.len();
        let mut writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(&mut *text);
        let written = writer.write(rows).and_then(|()| writer.finish());
        written.map_err(|error| {
            text.truncate(start);
            Cause::User(format!("rows cannot be written as JSON: {error}; cast the column to another type"))
        })
    }
}
