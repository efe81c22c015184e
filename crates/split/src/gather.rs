//! Gathering: new columns from chosen rows of old ones, one pass per column.

use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, UInt32Array, cast::AsArray};
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;

/// The values of `column` at `rows`, in that order.
pub fn column(column: &ArrayRef, rows: &[u32]) -> ArrayRef {
    if column.null_count() == 0 {
        match column.data_type() {
            DataType::UInt8 => return primitive::<UInt8Type>(column, rows),
            DataType::UInt16 => return primitive::<UInt16Type>(column, rows),
            DataType::UInt32 => return primitive::<UInt32Type>(column, rows),
            DataType::UInt64 => return primitive::<UInt64Type>(column, rows),
            DataType::Int32 => return primitive::<Int32Type>(column, rows),
            DataType::Int64 => return primitive::<Int64Type>(column, rows),
            DataType::Float64 => return primitive::<Float64Type>(column, rows),
            _ => {}
        }
    }
    let rows = UInt32Array::from(rows.to_vec());
    arrow_select::take::take(column, &rows, None).expect("the rows are within the column, of any type")
}

fn primitive<T: ArrowPrimitiveType>(column: &ArrayRef, rows: &[u32]) -> ArrayRef {
    let gathered = values(column.as_primitive::<T>().values(), rows);
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(gathered), None))
}

/// `values[row]` for each row.
pub fn values<V: Copy>(values: &[V], rows: &[u32]) -> Vec<V> {
    rows.iter().map(|row| values[*row as usize]).collect()
}
