//! Values in binary form.

use tidemill_engine::arrow::array::Array;
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::*;
use tidemill_engine::arrow::schema::DataType;
use tidemill_sql::value_text as text;
use tidemill_sql::value_text::calendar::{MICROS_PER_DAY, micros};

use super::column::Kind;
use super::days::DAYS_TO_2000;
use super::numeric;

/// Writes a value that is there; whether it could be written.
pub(super) fn write(kind: Kind, array: &dyn Array, row: usize, bytes: &mut Vec<u8>) -> bool {
    match kind {
        // The text of a text is its binary form.
        Kind::Text => text::write(array, row, bytes),
        Kind::Numeric => text::text(array, row).map(|text| numeric::write(&text, bytes)).is_some(),
        Kind::Bytea => text::binary(array, row).map(|value| bytes.extend(value)).is_some(),
        Kind::Array(item) => list(*item, 1, array, row, bytes).is_some(),
        Kind::Int2Vector => list(Kind::Int2, 0, array, row, bytes).is_some(),
        _ => fixed(kind, array, row, bytes).is_some(),
    }
}

/// A list: how many dimensions it has, whether a value is NULL, the type of its values, and for its one dimension the length
/// and the number of its first value; then each value with its length.
fn list(item: Kind, first: i32, array: &dyn Array, row: usize, bytes: &mut Vec<u8>) -> Option<()> {
    let items = text::items(array, row)?;
    let length = i32::try_from(items.len()).ok()?;
    bytes.extend(i32::from(length > 0).to_be_bytes());
    bytes.extend(i32::from(items.logical_null_count() > 0).to_be_bytes());
    bytes.extend(item.oid().to_be_bytes());
    if length > 0 {
        bytes.extend(length.to_be_bytes());
        bytes.extend(first.to_be_bytes());
    }
    let mut value = Vec::new();
    for at in 0..items.len() {
        value.clear();
        if !items.is_null(at) && write(item, items.as_ref(), at, &mut value) {
            bytes.extend(i32::try_from(value.len()).ok()?.to_be_bytes());
            bytes.extend(&value);
        } else {
            bytes.extend((-1_i32).to_be_bytes())
        }
    }
    Some(())
}

fn fixed(kind: Kind, array: &dyn Array, row: usize, bytes: &mut Vec<u8>) -> Option<()> {
    match kind {
        Kind::Bool => bytes.push(array.as_boolean().value(row).into()),
        Kind::Int2 => bytes.extend(i16::try_from(integer(array, row)?).ok()?.to_be_bytes()),
        Kind::Int4 => bytes.extend(i32::try_from(integer(array, row)?).ok()?.to_be_bytes()),
        Kind::Int8 => bytes.extend(integer(array, row)?.to_be_bytes()),
        Kind::Float4 => {
            let value = match array.data_type() {
                DataType::Float16 => array.as_primitive::<Float16Type>().value(row).to_f32(),
                _ => array.as_primitive::<Float32Type>().value(row),
            };
            bytes.extend(value.to_be_bytes());
        }
        Kind::Float8 => bytes.extend(array.as_primitive::<Float64Type>().value(row).to_be_bytes()),
        Kind::Date => {
            let days = text::days(array, row)? - DAYS_TO_2000;
            bytes.extend(i32::try_from(days).ok()?.to_be_bytes());
        }
        Kind::Time => bytes.extend(text::time_of_day(array, row)?.to_be_bytes()),
        Kind::Timestamp | Kind::TimestampTz => {
            let DataType::Timestamp(unit, _) = array.data_type() else { return None };
            let since_1970 = micros(text::instant(array, row, unit)?, unit);
            bytes.extend(since_1970.saturating_sub(DAYS_TO_2000 * MICROS_PER_DAY).to_be_bytes());
        }
        Kind::Interval => {
            let (months, days, micros) = text::span(array, row)?;
            bytes.extend(micros.to_be_bytes());
            bytes.extend(days.to_be_bytes());
            bytes.extend(months.to_be_bytes());
        }
        Kind::Text | Kind::Numeric | Kind::Bytea | Kind::Array(_) | Kind::Int2Vector => return None,
    }
    Some(())
}

fn integer(array: &dyn Array, row: usize) -> Option<i64> {
    Some(match array.data_type() {
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row),
        DataType::UInt8 => array.as_primitive::<UInt8Type>().value(row).into(),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().value(row).into(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).into(),
        _ => return None,
    })
}
