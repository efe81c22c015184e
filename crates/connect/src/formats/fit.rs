//! Fits the columns of a file to the declared ones: by name, with lossless casts.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};
use arrow_cast::{CastOptions, can_cast_types, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use tidemill_core::error::Cause;
use tidemill_core::source::Faults;

use super::bad_rows::{BadRows, no_value};
use super::encode::row_json;
use super::text_form::{checked_texts, is_restricted};
use super::values::good_rows;
use super::{project, sql_type};
use crate::suggest::closest;

/// The batches of a file that knows its own columns.
pub(crate) type BatchReader = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send>;

/// How the columns of a file become the selected ones.
#[derive(Debug)]
pub(crate) struct Fit {
    /// The columns to read, as ascending indexes into the file's schema.
    pub(crate) read: Vec<usize>,
    /// The selected columns, in the order of the schema, then those that are only checked; each with its index in
    /// `read`.
    looked_at: Vec<(FieldRef, usize)>,
    schema: SchemaRef,
}

impl Fit {
    /// Checks that all declared columns exist and can be cast.
    pub(crate) fn new(
        place: &str,
        file: &Schema,
        declared: &Schema,
        projection: &[usize],
    ) -> Result<Fit, Cause> {
        let mut found = Vec::with_capacity(declared.fields().len());
        for field in declared.fields() {
            let at = position(file, field.name()).ok_or_else(|| {
                let names: Vec<String> = file.fields().iter().map(|field| field.name().clone()).collect();
                missing_column(place, field.name(), &names)
            })?;
            let (is, wanted) = (file.field(at).data_type(), field.data_type());
            if !is_lossless(is, wanted) {
                let (name, is, wanted) = (field.name(), sql_type(is), sql_type(wanted));
                return Err(Cause::user(format!(
                    "{place}: column '{name}' is {is}, but declared as {wanted}; declare it as {is} and CAST \
                     it, or exclude the file"
                )));
            }
            found.push(at);
        }
        let schema = project(declared, projection)?;
        // Which rows are good does not depend on who reads them.
        let is_checked = |index: &usize| {
            let (is, wanted) = (file.field(found[*index]), declared.field(*index));
            !projection.contains(index) && can_mismatch(is, wanted)
        };
        let checked = (0..found.len()).filter(is_checked);
        let looked_at: Vec<usize> = projection.iter().copied().chain(checked).collect();
        let mut read: Vec<usize> = looked_at.iter().map(|index| found[*index]).collect();
        read.sort_unstable();
        read.dedup();
        let place = |index: &usize| read.partition_point(|other| *other < found[*index]);
        let looked_at =
            looked_at.iter().map(|index| (Arc::clone(&declared.fields()[*index]), place(index))).collect();
        Ok(Fit { read, looked_at, schema })
    }

    /// Casts a batch of the columns to read; `first_row` is the number of its first row in the file, from 1.
    pub(crate) fn apply(
        &self,
        place: &str,
        batch: &RecordBatch,
        first_row: u64,
        faults: &mut Faults,
    ) -> Result<RecordBatch, Cause> {
        let mut bad = BadRows::of(faults);
        let rows = batch.num_rows();
        let mut columns = Vec::with_capacity(self.looked_at.len());
        for (field, at) in &self.looked_at {
            let column = batch.column(*at);
            let options = CastOptions { safe: true, ..CastOptions::default() };
            let cast = if column.data_type() == field.data_type() {
                column.clone()
            } else {
                cast_with_options(column, field.data_type(), &options).map_err(|error| {
                    Cause::user(format!("{place}: column '{}': {error}", field.name())).with_source(error)
                })?
            };
            if cast.null_count() > column.null_count() || (!field.is_nullable() && cast.null_count() > 0) {
                for row in (0..rows).filter(|row| cast.is_null(*row)) {
                    let name = field.name();
                    if !column.is_null(row) {
                        bad.mark(row, rows, || {
                            format!(
                                "column '{name}': a value does not fit into {}",
                                sql_type(field.data_type())
                            )
                        })
                    } else if field.is_nullable() {
                    } else {
                        bad.mark(row, rows, || no_value(field))
                    }
                }
            }
            columns.push(checked_texts(field, cast, &mut bad));
        }
        columns.truncate(self.schema.fields().len());
        let fitted = good_rows(self.schema.clone(), columns, rows, &bad)?;
        bad.report_rows(faults, |faults, row, reason| {
            let place = format!("{place}, row {}", first_row + row as u64);
            faults.add_row(place, reason, || row_json(&batch.slice(row, 1)));
        });
        Ok(fitted)
    }
}

/// The column of that name, or else the column whose name differs only in case.
fn position(schema: &Schema, name: &str) -> Option<usize> {
    let is_same = |other: &str| other.to_lowercase() == name.to_lowercase();
    schema.index_of(name).ok().or_else(|| schema.fields().iter().position(|field| is_same(field.name())))
}

/// A declared column does not exist in a file.
pub(crate) fn missing_column(place: &str, name: &str, names: &[String]) -> Cause {
    let hint = closest(name, names.iter().map(String::as_str));
    let hint = hint.map_or(String::new(), |hint| format!("; did you mean '{hint}'?"));
    let names = names.join(", ");
    Cause::user(format!("{place}: there is no column '{name}'; the columns are {names}{hint}"))
}

/// Whether a column of a file may have values that the declared type does not have.
fn can_mismatch(is: &Field, wanted: &Field) -> bool {
    let may_lack = is.is_nullable() && !wanted.is_nullable();
    is.data_type() != wanted.data_type() || may_lack || is_restricted(wanted)
}

/// Whether a cast preserves every value that it does not reject.
fn is_lossless(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Date64, Dictionary, Float16, Float32, Float64, Time32, Time64, Timestamp};
    let is_text =
        |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    if from == to {
        return true;
    }
    can_cast_types(from, to)
        && match (from, to) {
            (Dictionary(_, from), to) if !matches!(to, Dictionary(..)) => is_lossless(from, to),
            (from, Dictionary(_, to)) => is_lossless(from, to),
            (from, to) if from.is_integer() => to.is_integer() || matches!(to, Float64) || to.is_decimal(),
            (Float16, Float32 | Float64) | (Float32, Float64) => true,
            (Timestamp(from, _), Timestamp(to, _)) => from <= to,
            (Time32(from) | Time64(from), Time32(to) | Time64(to)) => from <= to,
            (Date32 | Date64, Timestamp(..)) | (Date32, Date64) => true,
            (from, to) if is_text(from) && is_text(to) => true,
            (from, to) if from.is_decimal() && to.is_decimal() => decimal_scale(from) <= decimal_scale(to),
            (DataType::List(from), DataType::List(to) | DataType::LargeList(to)) => {
                is_lossless(from.data_type(), to.data_type())
            }
            (DataType::FixedSizeList(from, _), DataType::List(to)) => {
                is_lossless(from.data_type(), to.data_type())
            }
            (DataType::Null, _) => true,
            _ => false,
        }
}

fn decimal_scale(data_type: &DataType) -> Option<i8> {
    match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(*scale),
        _ => None,
    }
}
