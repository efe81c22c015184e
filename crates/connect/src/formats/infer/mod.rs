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

/// The most columns that are inferred, counting the fields of structs. Whoever has more declares those that are needed.
pub const COLUMNS_MAX: usize = 4096;

/// Refuses more columns than that.
fn check_columns(columns: usize) -> Result<(), Cause> {
    if columns <= COLUMNS_MAX {
        Ok(())
    } else {
        Err(Cause::user(format!(
            "it has more than {COLUMNS_MAX} columns, the most that are inferred; declare the columns that you need, or \
             read it with format = 'lines'"
        )))
    }
}

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
/// assert_eq!(refused.to_string(), "none.csv: it is empty, so its columns cannot be inferred; declare them");
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
///
/// # Errors
/// [`Cause::user`] if no record can be read, or if there are more than [`COLUMNS_MAX`] columns.
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
    let of_place = |cause: Cause| cause.map_message(|text| format!("{place}: {text}"));
    let inferred = match format {
        Format::Csv => csv::infer(&complete, csv).map_err(of_place)?,
        Format::Json => json::infer(&complete).map_err(of_place)?,
        Format::Lines => Some(lines_schema()),
        Format::LineProtocol => discover(&complete, RECORDS_MAX),
        Format::Own(own) => {
            return Err(Cause::user(format!(
                "{place}: the format {} does not describe its columns; declare them",
                own.name()
            )));
        }
        other => return Err(Cause::bug(format!("{other:?} is not a text format"))),
    };
    inferred.ok_or_else(|| match sample {
        [] => Cause::user(format!("{place}: it is empty, so its columns cannot be inferred; declare them")),
        _ => Cause::user(format!(
            "{place}: its columns cannot be inferred from its first {} bytes; check format and delimiter, or \
             declare the columns",
            complete.len()
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inferred(format: &Format, text: &str) -> Result<usize, Cause> {
        let schema = infer_text("wide", format, text.as_bytes(), true, &mut CsvSettings::default());
        schema.map(|schema| schema.fields().len())
    }

    #[test]
    fn more_columns_than_anyone_needs_are_refused_with_a_way_out() {
        let record = |columns: usize| (0..columns).map(|at| format!("c{at}")).collect::<Vec<_>>().join(",");
        let objects = |keys: usize| (0..keys).map(|at| format!("{{\"k{at}\": {at}}}\n")).collect::<String>();
        let inside = |keys: usize| {
            let keys = (0..keys).map(|at| format!("\"k{at}\": 1")).collect::<Vec<_>>().join(", ");
            format!("{{\"a\": {{{keys}}}}}\n")
        };
        assert_eq!(inferred(&Format::Csv, &format!("{}\n", record(COLUMNS_MAX))), Ok(COLUMNS_MAX));
        assert_eq!(inferred(&Format::Json, &objects(COLUMNS_MAX)), Ok(COLUMNS_MAX));
        assert_eq!(inferred(&Format::Json, &inside(COLUMNS_MAX)), Ok(1));
        let more = COLUMNS_MAX + 1;
        for refused in [
            inferred(&Format::Csv, &format!("{}\n", record(more))),
            inferred(&Format::Json, &objects(more)),
            inferred(&Format::Json, &inside(more)),
        ] {
            let message = refused.unwrap_err().to_string();
            assert!(message.starts_with("wide: it has more than 4096 columns"), "{message}");
            assert!(message.contains("declare the columns"), "{message}");
        }
    }
}
