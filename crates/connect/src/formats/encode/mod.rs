//! Rows as text, one file per output format. Text sinks (files, standard output, sockets) share these.

mod column_names;
mod column_texts;
mod csv;
mod display_width;
mod ndjson;
mod own;
mod row_json;
mod table;
mod unrepresentable;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use tidemill_core::Cause;

pub(crate) use column_names::must_differ;
pub use csv::{CsvEncoder, CsvStyle};
pub use display_width::display_width;
pub use ndjson::NdjsonEncoder;
pub use own::{EncoderFactory, OwnEncoding};
pub(crate) use row_json::{ascii, row_json};
pub use table::{TableEncoder, TableLayout, TableStyle};
pub(crate) use unrepresentable::unrepresentable;

/// Turns rows into text. It writes whole lines, so that texts can be concatenated and cut between two calls.
pub trait TextEncoder: Send {
    /// Appends the header: at the start of a file, and for each reader of a socket.
    fn header(&self, text: &mut Vec<u8>);

    /// Appends the rows, one or more lines each. On an error nothing is appended.
    ///
    /// # Errors
    /// If a value cannot be written in this format.
    fn rows(&mut self, rows: &RecordBatch, text: &mut Vec<u8>) -> Result<(), Cause>;
}

/// A text format.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_connect::formats::encode::TextFormat;
/// use tidemill_core::arrow::array::{Int64Array, RecordBatch, StringArray};
///
/// let rows = RecordBatch::try_from_iter([
///     ("campaign", Arc::new(StringArray::from(vec!["spring, late", "autumn"])) as _),
///     ("clicks", Arc::new(Int64Array::from(vec![Some(12), None])) as _),
/// ])?;
/// let text = |format: TextFormat| -> Result<String, Box<dyn std::error::Error>> {
///     let mut encoder = format.encoder(&rows.schema())?;
///     let mut text = Vec::new();
///     encoder.header(&mut text);
///     encoder.rows(&rows, &mut text)?;
///     Ok(String::from_utf8(text)?)
/// };
/// assert_eq!(text(TextFormat::csv())?, "campaign,clicks\n\"spring, late\",12\nautumn,\n");
/// assert_eq!(
///     text(TextFormat::Ndjson)?,
///     "{\"campaign\":\"spring, late\",\"clicks\":12}\n{\"campaign\":\"autumn\",\"clicks\":null}\n"
/// );
/// assert_eq!(
///     text(TextFormat::table())?,
///     " campaign     |   clicks\n--------------+----------\n spring, late |       12\n autumn       |     NULL\n"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// Comma-separated values (RFC 4180).
    Csv(CsvStyle),
    /// One JSON object per line.
    Ndjson,
    /// Aligned columns, for people.
    Table(TableStyle),
    /// A format of the program's own.
    Own(OwnEncoding),
}

impl TextFormat {
    /// CSV with commas and a header.
    pub fn csv() -> TextFormat {
        TextFormat::Csv(CsvStyle::default())
    }

    /// A table whose rows come gradually.
    pub fn table() -> TextFormat {
        TextFormat::Table(TableStyle::default())
    }

    /// An encoder for rows of this schema.
    ///
    /// # Errors
    /// [`Cause::user`] if the format cannot represent such rows.
    pub fn encoder(&self, schema: &SchemaRef) -> Result<Box<dyn TextEncoder>, Cause> {
        Ok(match self {
            TextFormat::Csv(style) => Box::new(CsvEncoder::new(schema, style.clone())),
            TextFormat::Ndjson => Box::new(NdjsonEncoder::new(schema)?),
            TextFormat::Table(style) => Box::new(TableEncoder::new(schema, style.clone())),
            TextFormat::Own(own) => return own.encoder(schema),
        })
    }
}

/// A column, or one of its values, that has no text form.
fn no_text(format: &str, column: &str, error: &ArrowError) -> Cause {
    Cause::user(format!("column '{column}' cannot be written as {format}: {error}; cast it to another type"))
}
