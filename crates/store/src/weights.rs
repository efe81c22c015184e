//! The last column of a changelog.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::SchemaRef;
use tidemill_core::Cause;

use crate::chunk::batch_of;

/// Rows with the columns of a store's input: if that has weights, each row is there once.
pub(crate) fn weighted(rows: &RecordBatch, input: &SchemaRef) -> Result<RecordBatch, Cause> {
    let mut columns = rows.columns().to_vec();
    if columns.len() < input.fields().len() {
        columns.push(Arc::new(Int64Array::from(vec![1; rows.num_rows()])) as ArrayRef);
    }
    batch_of(input, columns, rows.num_rows())
}

/// Rows with the columns of a store, without weights.
pub(crate) fn without_weights(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Cause> {
    let columns = rows.columns().iter().take(schema.fields().len()).cloned().collect();
    batch_of(schema, columns, rows.num_rows())
}
