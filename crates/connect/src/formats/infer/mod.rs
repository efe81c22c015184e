//! Infers the columns of a file or a stream of text from its first records.
//!
//! A column has the first of these types that all values have: BOOLEAN (`true`, `false`), BIGINT, DOUBLE, DATE,
//! TIMESTAMP (in nanoseconds, without zone) and VARCHAR. JSON also has lists and structs, and numbers in lists are
//! DOUBLE. An integer that does not fit into a BIGINT makes its column VARCHAR, because a DOUBLE would not preserve it.

use arrow_schema::SchemaRef;
use tidemill_core::error::Cause;

use crate::formats::line_protocol::discover;
use crate::formats::text_lines::lines_schema;
use crate::formats::{CsvSettings, Format};

mod csv;
mod guess;
mod json;

/// The most records that are examined.
pub const RECORDS_MAX: usize = 10_000;

/// The most bytes that are examined.
pub const SAMPLE_BYTES: usize = 1024 * 1024;

/// The columns of text that begins with `sample`; `is_whole`: that is all of it. Sets the delimiter and header of `csv`
/// if they were left open. `place` names the input in messages.
///
/// ```
/// use tidemill_connect::formats::{CsvSettings, Format};
/// use tidemill_connect::formats::infer::infer_text;
/// use tidemill_core::arrow::schema::{DataType, TimeUnit};
///
/// let mut csv = CsvSettings::default();
/// let sample = b"at;shop;price\n2026-01-31 12:00:00;Berlin;9.99\n2026-01-31 12:00:01;Bonn;10\n";
/// let schema = infer_text("sales.csv", &Format::Csv, sample, true, &mut csv)?;
/// assert_eq!((csv.delimiter, csv.header), (Some(b';'), Some(true)));
/// assert_eq!(schema.field(0).data_type(), &DataType::Timestamp(TimeUnit::Nanosecond, None));
/// assert_eq!(schema.field(2).data_type(), &DataType::Float64);
///
/// let refused = infer_text("none.csv", &Format::Csv, b"", true, &mut csv).unwrap_err();
/// assert_eq!(refused.to_string(), "none.csv: it is empty, so its columns are unknown; declare the columns");
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
///
/// # Errors
/// [`Cause::user`] if no record can be read.
pub fn infer_text(
    place: &str,
    format: &Format,
    sample: &[u8],
    is_whole: bool,
    csv: &mut CsvSettings,
) -> Result<SchemaRef, Cause> {
    let sample = sample.strip_prefix(b"\xef\xbb\xbf").unwrap_or(sample);
    let mut complete = sample[..sample.len().min(SAMPLE_BYTES)].to_vec();
    if is_whole && sample.len() <= SAMPLE_BYTES {
        complete.push(b'\n');
    }
    complete.truncate(memchr::memrchr(b'\n', &complete).map_or(0, |newline| newline + 1));
    let inferred = match format {
        Format::Csv => csv::infer(&complete, csv),
        Format::Json => json::infer(&complete)?,
        Format::Lines => Some(lines_schema()),
        Format::LineProtocol => discover(&complete, RECORDS_MAX),
        Format::Own(own) => {
            return Err(Cause::user(format!(
                "{place}: the format {} does not say which columns there are; declare the columns",
                own.name()
            )));
        }
        other => return Err(Cause::bug(format!("{other:?} is no text"))),
    };
    inferred.ok_or_else(|| match sample {
        [] => Cause::user(format!("{place}: it is empty, so its columns are unknown; declare the columns")),
        _ => Cause::user(format!(
            "{place}: the columns cannot be told from its first {} bytes; check format and delimiter, or \
             declare the columns",
            complete.len()
        )),
    })
}
