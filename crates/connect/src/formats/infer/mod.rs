//! Infers the columns of a file or a stream of text from its records.
//!
//! A column has the first of these types that all values have: BOOLEAN (`true`, `false`), BIGINT, DOUBLE, DATE,
//! TIMESTAMP (in nanoseconds, without zone) and VARCHAR. JSON also has lists and structs, and numbers in lists are
//! DOUBLE. No type changes a value: a number with a plus or a zero before it is a code, and makes its column VARCHAR;
//! where a BIGINT or a DOUBLE would change a number, the column is DECIMAL, or VARCHAR if that is too short.

use arrow_schema::{DataType, SchemaRef};
use tidemill_core::error::Cause;

use crate::formats::line_protocol::discover;
use crate::formats::text_lines::lines_schema;
use crate::formats::{CsvSettings, Format};

mod csv;
mod csv_scan;
mod guess;
mod json;
mod numbers;
mod shape;

/// The most points of line protocol that are examined.
pub const RECORDS_MAX: usize = 10_000;

/// The most bytes by which it is decided how a text is written. Of a stream, no more of it is examined.
pub const SAMPLE_BYTES: usize = 1024 * 1024;

/// The most columns that are inferred, counting the fields of structs. Whoever has more declares those that are needed.
pub const COLUMNS_MAX: usize = 4096;

/// The most levels of structs and lists in an inferred column: what stores a type cannot read deeper ones back.
const LEVELS_MAX: usize = 30;

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

/// Refuses a type with more levels than that.
fn check_levels(data_type: &DataType) -> Result<(), Cause> {
    let (mut level, mut levels) = (vec![data_type], 0);
    while !level.is_empty() {
        levels += 1;
        level = level.into_iter().flat_map(items).collect();
    }
    // The values in it are the last level.
    if levels <= LEVELS_MAX + 1 {
        Ok(())
    } else {
        Err(Cause::user(format!(
            "objects and lists are nested more than {LEVELS_MAX} levels deep, the most that are inferred; declare the \
             columns that you need, or read it with format = 'lines'"
        )))
    }
}

/// The types that a type contains.
fn items(data_type: &DataType) -> Vec<&DataType> {
    match data_type {
        DataType::List(item) => vec![item.data_type()],
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        _ => Vec::new(),
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
    let mut scan = ColumnScan::begin(place, format, sample, is_whole, csv)?;
    let sample = complete_lines(sample, is_whole);
    scan.take(place, &sample)?;
    scan.end_file(place)?;
    Ok(scan.schema(place, sample.len())?.columns)
}

/// The complete lines at the beginning of a text.
fn complete_lines(sample: &[u8], is_whole: bool) -> Vec<u8> {
    let sample = sample.strip_prefix(b"\xef\xbb\xbf").unwrap_or(sample);
    let mut complete = sample[..sample.len().min(SAMPLE_BYTES)].to_vec();
    if is_whole && sample.len() <= SAMPLE_BYTES {
        complete.push(b'\n');
    }
    complete.truncate(memchr::memrchr(b'\n', &complete).map_or(0, |newline| newline + 1));
    complete
}

/// Finds the columns of texts that come in pieces, from all their records.
pub(crate) enum ColumnScan {
    /// How the CSV is written was found at its beginning.
    Csv(Box<csv_scan::CsvScan>),
    Json(Box<json::JsonScan>),
    /// All columns are known from the beginning.
    Known(SchemaRef),
}

/// What was found.
#[derive(Debug)]
pub(crate) struct ScannedColumns {
    pub columns: SchemaRef,
    /// Columns that only files after the first have, which are left out.
    pub others: Vec<String>,
}

impl ColumnScan {
    /// For texts of which the first begins with `sample`, as in [`infer_text`].
    ///
    /// # Errors
    /// As [`infer_text`].
    pub fn begin(
        place: &str,
        format: &Format,
        sample: &[u8],
        is_whole: bool,
        csv: &mut CsvSettings,
    ) -> Result<ColumnScan, Cause> {
        let complete = complete_lines(sample, is_whole);
        let scan = match format {
            Format::Csv => csv::scan(&complete, csv)
                .map_err(|cause| cause.map_message(|text| format!("{place}: {text}")))?
                .map(|scan| ColumnScan::Csv(Box::new(scan))),
            Format::Json => Some(ColumnScan::Json(Box::default())),
            Format::Lines => Some(ColumnScan::Known(lines_schema())),
            Format::LineProtocol => discover(&complete, RECORDS_MAX).map(ColumnScan::Known),
            Format::Own(own) => {
                return Err(Cause::user(format!(
                    "{place}: the format {} does not describe its columns; declare them",
                    own.name()
                )));
            }
            other => return Err(Cause::bug(format!("{other:?} is not a text format"))),
        };
        scan.ok_or_else(|| nothing_found(place, complete.len()))
    }

    /// Whether its columns are known already.
    pub fn is_known(&self) -> bool {
        matches!(self, ColumnScan::Known(_))
    }

    /// Takes the next bytes of a text.
    ///
    /// # Errors
    /// If there are more than [`COLUMNS_MAX`] columns.
    pub fn take(&mut self, place: &str, bytes: &[u8]) -> Result<(), Cause> {
        match self {
            ColumnScan::Csv(scan) => scan.take(bytes),
            ColumnScan::Json(scan) => {
                scan.take(bytes).map_err(|cause| cause.map_message(|text| format!("{place}: {text}")))?;
            }
            ColumnScan::Known(_) => {}
        }
        Ok(())
    }

    /// The text has ended. Another one may follow.
    ///
    /// # Errors
    /// As [`ColumnScan::take`].
    pub fn end_file(&mut self, place: &str) -> Result<(), Cause> {
        if let ColumnScan::Csv(scan) = self {
            scan.end_file();
        }
        if let ColumnScan::Json(_) = self {
            self.take(place, b"\n")?;
        }
        Ok(())
    }

    /// The columns of all texts, which had this many bytes.
    ///
    /// # Errors
    /// [`Cause::user`] if no record could be read.
    pub fn schema(&self, place: &str, bytes: usize) -> Result<ScannedColumns, Cause> {
        let of = |columns: SchemaRef| ScannedColumns { columns, others: Vec::new() };
        match self {
            ColumnScan::Csv(scan) => {
                let (columns, others) = scan.schema();
                Ok(ScannedColumns { columns, others: others.to_vec() })
            }
            ColumnScan::Json(scan) => {
                let columns = scan.schema().ok_or_else(|| nothing_found(place, bytes))?;
                let levels = columns.fields().iter().try_for_each(|field| check_levels(field.data_type()));
                levels.map_err(|cause| cause.map_message(|text| format!("{place}: {text}")))?;
                Ok(of(columns))
            }
            ColumnScan::Known(columns) => Ok(of(SchemaRef::clone(columns))),
        }
    }
}

/// Of what is empty, a newline is counted.
fn nothing_found(place: &str, bytes: usize) -> Cause {
    if bytes <= 1 {
        return Cause::user(format!("{place}: it is empty, so its columns cannot be inferred; declare them"));
    }
    Cause::user(format!(
        "{place}: its columns cannot be inferred from its first {bytes} bytes; check format and delimiter, or \
         declare the columns"
    ))
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
