//! Concatenation of columns and batches.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{Array, ArrayRef, GenericByteViewArray, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, SchemaRef};

/// Concatenates parts of one type into one column.
///
/// String views are compacted. Otherwise the column would keep every buffer of every part alive, and a column made of
/// slices of it would keep all of them again for each slice.
///
/// ```
/// use tidemill_core::arrow::array::{Array, StringViewArray};
/// let long = StringViewArray::from(vec!["a string that is not kept in its view", "another one of that kind"]);
/// let parts = [&long.slice(1, 1) as &dyn Array, &long.slice(0, 1)];
/// let column = tidemill_core::concatenate::columns(&parts).unwrap();
/// assert_eq!(column.as_any().downcast_ref::<StringViewArray>().unwrap().data_buffers().len(), 1);
/// ```
///
/// # Errors
/// If the values do not fit one column: more than 2 GiB of strings, or more entries than a dictionary has keys.
pub fn columns(parts: &[&dyn Array]) -> Result<ArrayRef, ArrowError> {
    let column = arrow_select::concat::concat(parts)?;
    Ok(match column.data_type() {
        DataType::Utf8View => compact(column.as_string_view()),
        DataType::BinaryView => compact(column.as_binary_view()),
        _ => column,
    })
}

/// Concatenates batches of this schema into one batch.
///
/// # Errors
/// As for [`columns`].
pub fn batches(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<RecordBatch, ArrowError> {
    let column = |index: usize| {
        columns(&batches.iter().map(|batch| batch.column(index).as_ref()).collect::<Vec<&dyn Array>>())
    };
    let made = (0..schema.fields().len()).map(column).collect::<Result<_, _>>()?;
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), made, &options)
}

fn compact<T: ByteViewType + ?Sized>(column: &GenericByteViewArray<T>) -> ArrayRef {
    match column.data_buffers().len() {
        0 | 1 => Arc::new(column.clone()),
        _ => Arc::new(column.gc()),
    }
}
