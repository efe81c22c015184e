//! The values of Arrow's batches.

use datafusion::arrow::array::types::{Decimal128Type, Float64Type, Int64Type, UInt64Type};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

use tidemill_testing::duckdb::{Row, Value};

/// The rows of a batch.
pub fn rows(batch: &RecordBatch) -> Vec<Row> {
    let columns: Vec<Row> = batch.columns().iter().map(column).collect();
    (0..batch.num_rows()).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect()
}

fn column(column: &ArrayRef) -> Row {
    let widened = |data_type: &DataType| cast(column, data_type).expect("it is only widened");
    let integers = |wrap: fn(i128) -> Value| {
        let values = widened(&DataType::Int64);
        let values = values.as_primitive::<Int64Type>();
        values.iter().map(|value| value.map_or(Value::Null, |value| wrap(value.into()))).collect()
    };
    match column.data_type() {
        DataType::Null => vec![Value::Null; column.len()],
        DataType::Boolean => {
            column.as_boolean().iter().map(|value| value.map_or(Value::Null, Value::Bool)).collect()
        }
        DataType::UInt64 => {
            let values = column.as_primitive::<UInt64Type>().iter();
            values.map(|value| value.map_or(Value::Null, |value| Value::Int(value.into()))).collect()
        }
        data_type if data_type.is_integer() => integers(Value::Int),
        data_type if data_type.is_floating() => {
            let values = widened(&DataType::Float64);
            let values = values.as_primitive::<Float64Type>().iter();
            values.map(|value| value.map_or(Value::Null, Value::Float)).collect()
        }
        DataType::Decimal128(_, scale) => decimals(column.as_primitive::<Decimal128Type>(), *scale as u32),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(_, _) => {
            let values = widened(&DataType::Utf8);
            let values = values.as_string::<i32>().iter();
            values.map(|value| value.map_or(Value::Null, |value| Value::Text(value.into()))).collect()
        }
        DataType::Timestamp(unit, _) => scaled(column, ns_of(*unit), Value::Timestamp),
        DataType::Date32 => {
            let days = cast(&widened(&DataType::Int32), &DataType::Int64).expect("it is only widened");
            let days = days.as_primitive::<Int64Type>().iter();
            days.map(|days| days.map_or(Value::Null, Value::Date)).collect()
        }
        DataType::Time32(unit) => {
            let values = widened(&DataType::Int32);
            scaled(&values, ns_of(*unit), Value::Time)
        }
        DataType::Time64(unit) => scaled(column, ns_of(*unit), Value::Time),
        DataType::Duration(unit) => scaled(column, ns_of(*unit), Value::Length),
        _ => {
            let options = FormatOptions::default();
            let formatter = ArrayFormatter::try_new(column, &options).expect("the type can be shown");
            let shown = |row: usize| {
                if column.is_null(row) { Value::Null } else { Value::Other(formatter.value(row).to_string()) }
            };
            (0..column.len()).map(shown).collect()
        }
    }
}

fn scaled(column: &ArrayRef, factor: i128, wrap: fn(i128) -> Value) -> Row {
    let values = cast(column, &DataType::Int64).expect("it is a count of units");
    let values = values.as_primitive::<Int64Type>().iter();
    values.map(|value| value.map_or(Value::Null, |value| wrap(i128::from(value) * factor))).collect()
}

fn ns_of(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1000,
        TimeUnit::Nanosecond => 1,
    }
}

fn decimals(values: &Decimal128Array, scale: u32) -> Row {
    values.iter().map(|value| value.map_or(Value::Null, |value| Value::Decimal(value, scale))).collect()
}
