//! Times and coordinates of rows, whatever the types of their columns.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, ArrowTimestampType, Date32Type, Date64Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit};

/// Whether a column of this type can be a time.
pub(crate) fn is_time(data_type: &DataType) -> bool {
    use DataType::{Date32, Date64, Int8, Int16, Int32, Int64, Timestamp, UInt8, UInt16, UInt32};
    matches!(
        data_type,
        Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | Date32 | Date64 | Timestamp(_, _)
    )
}

/// Whether a column of this type can be a coordinate.
pub(crate) fn is_coordinate(data_type: &DataType) -> bool {
    use DataType::{Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    matches!(data_type, Float32 | Float64 | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64)
}

/// A column as integers; `None` if it has another type. The values of NULLs mean nothing.
pub(crate) fn integers(column: &ArrayRef) -> Option<(ScalarBuffer<i64>, Option<NullBuffer>)> {
    use DataType::{Date32, Date64, Int8, Int16, Int32, Int64, Timestamp, UInt8, UInt16, UInt32};
    let values = match column.data_type() {
        Int64 => column.as_primitive::<Int64Type>().values().clone(),
        Date64 => column.as_primitive::<Date64Type>().values().clone(),
        Timestamp(TimeUnit::Second, _) => timestamps::<TimestampSecondType>(column),
        Timestamp(TimeUnit::Millisecond, _) => timestamps::<TimestampMillisecondType>(column),
        Timestamp(TimeUnit::Microsecond, _) => timestamps::<TimestampMicrosecondType>(column),
        Timestamp(TimeUnit::Nanosecond, _) => timestamps::<TimestampNanosecondType>(column),
        Int8 => converted::<Int8Type, i64>(column, i64::from),
        Int16 => converted::<Int16Type, i64>(column, i64::from),
        Int32 => converted::<Int32Type, i64>(column, i64::from),
        Date32 => converted::<Date32Type, i64>(column, i64::from),
        UInt8 => converted::<UInt8Type, i64>(column, i64::from),
        UInt16 => converted::<UInt16Type, i64>(column, i64::from),
        UInt32 => converted::<UInt32Type, i64>(column, i64::from),
        _ => return None,
    };
    Some((values, column.nulls().cloned()))
}

fn timestamps<T: ArrowTimestampType>(column: &ArrayRef) -> ScalarBuffer<i64> {
    column.as_primitive::<T>().values().clone()
}

fn converted<T: ArrowPrimitiveType, V: arrow_buffer::ArrowNativeType>(
    column: &ArrayRef,
    convert: impl Fn(T::Native) -> V,
) -> ScalarBuffer<V> {
    column.as_primitive::<T>().values().iter().map(|value| convert(*value)).collect()
}

/// A column as coordinates, NaN for NULL; `None` if it has another type.
pub(crate) fn coordinates(column: &ArrayRef) -> Option<ScalarBuffer<f64>> {
    use DataType::{Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    let values: ScalarBuffer<f64> = match column.data_type() {
        Float64 => column.as_primitive::<Float64Type>().values().clone(),
        Float32 => converted::<Float32Type, f64>(column, f64::from),
        Int8 => converted::<Int8Type, f64>(column, f64::from),
        Int16 => converted::<Int16Type, f64>(column, f64::from),
        Int32 => converted::<Int32Type, f64>(column, f64::from),
        Int64 => converted::<Int64Type, f64>(column, |value| value as f64),
        UInt8 => converted::<UInt8Type, f64>(column, f64::from),
        UInt16 => converted::<UInt16Type, f64>(column, f64::from),
        UInt32 => converted::<UInt32Type, f64>(column, f64::from),
        UInt64 => converted::<UInt64Type, f64>(column, |value| value as f64),
        _ => return None,
    };
    let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) else { return Some(values) };
    let with_nan = values.iter().enumerate();
    Some(with_nan.map(|(row, value)| if nulls.is_null(row) { f64::NAN } else { *value }).collect())
}
