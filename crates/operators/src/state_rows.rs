//! What operators have in common where they show their state as rows.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use tidemill_core::error::Cause;
use tidemill_core::state_rows::StateRows;

use crate::stored_rows::kernel_error;

/// The rows of one kind, from their parts.
pub(crate) fn state_rows(
    kind: &'static str,
    schema: &SchemaRef,
    parts: &[RecordBatch],
) -> Result<StateRows, Cause> {
    Ok(StateRows { kind, rows: concat_batches(schema, parts).map_err(kernel_error)? })
}

/// Rows of these columns.
pub(crate) fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, Cause> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(kernel_error)
}

/// The rows with one more column. If they have a column of its name, it gets a longer one.
pub(crate) fn with_column(rows: &RecordBatch, name: &str, column: ArrayRef) -> Result<RecordBatch, Cause> {
    let schema = rows.schema();
    let mut name = name.to_owned();
    while schema.column_with_name(&name).is_some() {
        name.push('_');
    }
    let added = Arc::new(Field::new(name, column.data_type().clone(), true));
    let fields: Vec<_> = schema.fields().iter().cloned().chain([added]).collect();
    let columns = rows.columns().iter().cloned().chain([column]).collect();
    batch(&Arc::new(Schema::new(fields)), columns, rows.num_rows())
}

/// The columns with these names instead of their own.
pub(crate) fn renamed(schema: &SchemaRef, first: usize, names: &[&str]) -> SchemaRef {
    let field =
        |(index, field): (usize, &Arc<Field>)| match index.checked_sub(first).and_then(|at| names.get(at)) {
            Some(name) => Arc::new(field.as_ref().clone().with_name(*name)),
            None => Arc::clone(field),
        };
    Arc::new(Schema::new(schema.fields().iter().enumerate().map(field).collect::<Vec<_>>()))
}
