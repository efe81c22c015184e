//! What the queries of a change say of rows.

use std::sync::Arc;

use arrow_select::filter::filter_record_batch;
use tidemill_engine::arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch};
use tidemill_engine::arrow::schema::{Field, Schema, SchemaRef};
use tidemill_sql::{TableShape, fitted_rows};

use super::key_index::of_arrow;
use crate::error::{Error, Refused};

/// Values as columns of a table have them. What is NULL there is looked at later.
pub(crate) fn fitted(
    values: &RecordBatch,
    places: &[usize],
    shape: &TableShape,
) -> Result<Vec<ArrayRef>, Error> {
    let fields = places.iter().map(|place| shape.columns.field(*place).clone().with_nullable(true));
    let wanted: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<Field>>()));
    let all: Vec<usize> = (0..places.len()).collect();
    let rows = fitted_rows(values, &all, &wanted).map_err(|cause| {
        let text = cause.to_string();
        let is_range =
            ["range", "overflow", "Can't cast value", "too large"].iter().any(|word| text.contains(word));
        let is_long = text.contains("characters do not fit");
        let code = if is_long {
            "22001"
        } else if is_range {
            "22003"
        } else {
            "22P02"
        };
        Refused::new(code, text)
    })?;
    Ok(rows.columns().to_vec())
}

/// Rows of a table, if no column that must have a value lacks it.
pub(crate) fn checked(columns: Vec<ArrayRef>, shape: &TableShape) -> Result<RecordBatch, Error> {
    for (place, (column, field)) in columns.iter().zip(shape.columns.fields()).enumerate() {
        let must_be_there = !field.is_nullable() || shape.key.contains(&place);
        if must_be_there && column.null_count() > 0 {
            let message = format!("null value in column \"{}\" violates not-null constraint", field.name());
            return Err(Refused::new("23502", message).into());
        }
    }
    Ok(RecordBatch::try_new(Arc::clone(&shape.columns), columns).map_err(of_arrow)?)
}

/// The numbers of rows, and which of the rows that name them count: each row of a table is changed once.
pub(crate) fn first_of_each(rows: &RecordBatch) -> Result<(Vec<i64>, RecordBatch), Error> {
    let numbers = rows.column(0).as_any().downcast_ref::<Int64Array>();
    let numbers = numbers.ok_or_else(|| tidemill_engine::Cause::bug("a change has no numbers of rows"))?;
    let mut seen = std::collections::HashSet::new();
    let is_first: Vec<bool> =
        (0..rows.num_rows()).map(|row| numbers.is_valid(row) && seen.insert(numbers.value(row))).collect();
    let chosen = (0..rows.num_rows()).filter(|row| is_first[*row]).map(|row| numbers.value(row)).collect();
    Ok((chosen, filter_record_batch(rows, &BooleanArray::from(is_first)).map_err(of_arrow)?))
}

/// The rows for which something is so.
pub(crate) fn those(rows: &RecordBatch, is_so: &[bool]) -> Result<RecordBatch, Error> {
    Ok(filter_record_batch(rows, &BooleanArray::from(is_so.to_vec())).map_err(of_arrow)?)
}
