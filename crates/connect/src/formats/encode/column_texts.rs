//! The texts of values in CSV and in tables: those of PostgreSQL, but for what readers of files need (decision 0191). Whole numbers in a column of
//! DOUBLE keep a fraction, so that who looks at the values finds the type; BOOLEAN is `true` or `false`; the offset of a zone has its minutes.

use std::fmt::{self, Write};

use arrow_array::Array;
use arrow_buffer::NullBuffer;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType};

use crate::formats::value_text;

/// `2026-11-20 19:00:00`, with a fraction only if it is not zero.
const DISPLAY: FormatOptions<'static> = FormatOptions::new()
    .with_datetime_format(Some("%Y-%m-%d %H:%M:%S%.f"))
    .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
    .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"))
    .with_time_format(Some("%H:%M:%S%.f"));

/// What becomes of a value that has no text, such as a date outside the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WithoutText {
    /// An error.
    Refused,
    /// A text that says so.
    Told,
}

/// The texts of a column's values.
pub(super) struct ColumnTexts<'a> {
    values: Values<'a>,
    nulls: Option<NullBuffer>,
}

enum Values<'a> {
    OfPostgres(&'a dyn Array),
    OfArrow(ArrayFormatter<'a>),
}

impl<'a> ColumnTexts<'a> {
    /// # Errors
    /// If values of this type have no text.
    pub fn new(column: &'a dyn Array, without_text: WithoutText) -> Result<ColumnTexts<'a>, ArrowError> {
        let is_told = without_text == WithoutText::Told;
        let options = DISPLAY.with_display_error(is_told);
        let values = if is_written_as_in_postgres(column.data_type()) {
            Values::OfPostgres(column)
        } else {
            Values::OfArrow(ArrayFormatter::try_new(column, &options)?)
        };
        Ok(ColumnTexts { values, nulls: column.logical_nulls() })
    }

    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Writes a value that is there.
    ///
    /// # Errors
    /// If it has no text.
    pub fn write(&self, row: usize, text: &mut impl Write) -> Result<(), ArrowError> {
        let no_text = |_: fmt::Error| ArrowError::CastError("it has no text form".to_owned());
        match &self.values {
            Values::OfPostgres(column) => {
                text.write_str(&value_text::exact_text(*column, row).unwrap_or_default()).map_err(no_text)
            }
            Values::OfArrow(formatter) => write!(text, "{}", formatter.value(row)).map_err(|error| {
                formatter.value(row).try_to_string().err().unwrap_or_else(|| no_text(error))
            }),
        }
    }
}

fn is_written_as_in_postgres(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_written_as_in_postgres(values),
        DataType::Interval(_) | DataType::Duration(_) => true,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            true
        }
        other => other.is_nested() && value_text::has_text(other),
    }
}
