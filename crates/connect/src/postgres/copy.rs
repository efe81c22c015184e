//! Rows in the binary format of COPY, straight from columns.
//!
//! <https://www.postgresql.org/docs/current/sql-copy.html>: a header; for each row the number of its fields, and for
//! each field its length (-1: NULL) and its value in network byte order; and a trailer.

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int32Array,
    Int64Array, ListArray, RecordBatch, StringArray,
};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, SchemaRef, TimeUnit};

use super::column::Encoding;
use super::numeric::write_numeric;

/// The bytes before the first row.
pub(super) const HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// The bytes after the last row.
pub(super) const END: &[u8] = b"\xff\xff";

const NULL: [u8; 4] = (-1_i32).to_be_bytes();
/// 1970-01-01 to 2000-01-01.
const EPOCH_DAYS: i32 = 10_957;
const EPOCH_US: i64 = EPOCH_DAYS as i64 * 86_400_000_000;
/// From 4714 BC to before 5874898 AD, in days since 2000-01-01.
const DATES: std::ops::Range<i32> = -2_451_545..2_145_031_949;
/// From 4714 BC to before 294277 AD, in microseconds since 2000-01-01.
const TIMESTAMPS: std::ops::Range<i64> = -211_813_488_000_000_000..9_223_371_331_200_000_000;

/// Encodes rows of one schema.
pub(super) struct CopyEncoder {
    schema: SchemaRef,
    encodings: Vec<Encoding>,
    /// Columns that must not contain NULL.
    key_columns: Vec<usize>,
    /// Whether each row gets its number as an additional field.
    numbers_rows: bool,
}

impl CopyEncoder {
    /// An encoder with one encoding per column. If there are key columns, each row gets a number as its last field.
    pub fn new(schema: &SchemaRef, encodings: Vec<Encoding>, key_columns: Vec<usize>) -> CopyEncoder {
        let numbers_rows = !key_columns.is_empty();
        CopyEncoder { schema: schema.clone(), encodings, key_columns, numbers_rows }
    }

    /// Appends rows, the first of them with this number. Rows that PostgreSQL cannot hold are left out; `refuse`
    /// receives each with the reason.
    pub fn rows(
        &self,
        rows: &RecordBatch,
        first_number: u64,
        out: &mut Vec<u8>,
        refuse: &mut impl FnMut(usize, String),
    ) {
        // A value that cannot even be cast spoils its whole column, so its row is found by bisection.
        let all = 0..rows.num_rows();
        let mut left = vec![all];
        while let Some(range) = left.pop() {
            let slice = rows.slice(range.start, range.len());
            match self.columns(&slice) {
                Ok(columns) => {
                    for row in range.clone() {
                        let start = out.len();
                        if let Err(reason) =
                            self.row(&columns, row - range.start, first_number + row as u64, out)
                        {
                            out.truncate(start);
                            refuse(row, reason);
                        }
                    }
                }
                Err(reason) if range.len() <= 1 => refuse(range.start, reason),
                Err(_) => {
                    let middle = range.start + range.len() / 2;
                    left.extend([middle..range.end, range.start..middle]);
                }
            }
        }
    }

    fn columns(&self, rows: &RecordBatch) -> Result<Vec<Values>, String> {
        let columns = rows.columns().iter().zip(&self.encodings).zip(self.schema.fields());
        let values = |((column, encoding), field): ((&ArrayRef, &Encoding), &FieldRef)| {
            Values::new(column, encoding).map_err(|error| cannot(field, &error))
        };
        columns.map(values).collect()
    }

    fn row(&self, columns: &[Values], row: usize, number: u64, out: &mut Vec<u8>) -> Result<(), String> {
        let fields = (columns.len() + usize::from(self.numbers_rows)) as i16;
        out.extend_from_slice(&fields.to_be_bytes());
        for (index, column) in columns.iter().enumerate() {
            if self.key_columns.contains(&index) && column.array().is_null(row) {
                return Err(cannot(
                    self.schema.field(index),
                    &"the key is NULL, so a later row could not replace this one; filter such rows out, or use \
                        coalesce",
                ));
            }
            column.write(row, out).map_err(|reason| cannot(self.schema.field(index), &reason))?;
        }
        if self.numbers_rows {
            field(out, &number.to_be_bytes());
        }
        Ok(())
    }
}

fn cannot(field: &Field, reason: &dyn std::fmt::Display) -> String {
    format!("column '{}': {reason}", field.name())
}

/// Where each of the encoded rows begins, and where the last one ends.
pub(super) fn row_bounds(encoded: &[u8]) -> Vec<usize> {
    let integer =
        |at: usize| i32::from_be_bytes([encoded[at], encoded[at + 1], encoded[at + 2], encoded[at + 3]]);
    let (mut bounds, mut at) = (vec![0], 0);
    while at < encoded.len() {
        let fields = i16::from_be_bytes([encoded[at], encoded[at + 1]]);
        at += 2;
        for _ in 0..fields {
            at += 4 + usize::try_from(integer(at)).unwrap_or(0);
        }
        bounds.push(at);
    }
    bounds
}

/// A column's values, converted to one of a few types.
enum Values {
    Integer(Int64Array, usize),
    Numeric(Decimal128Array, i8),
    Float4(Float32Array),
    Float8(Float64Array),
    Boolean(BooleanArray),
    Text(StringArray),
    Bytes(BinaryArray),
    Date(Int32Array),
    Timestamp(Int64Array, TimeUnit),
    List(ListArray, Box<Values>, u32),
}

impl Values {
    fn new(column: &ArrayRef, encoding: &Encoding) -> Result<Values, ArrowError> {
        Ok(match encoding {
            // An unsigned number that is too large for 8 signed bytes is rejected by the cast.
            Encoding::Integer { bytes } => Values::Integer(
                as_type(column, &DataType::Int64)?.as_primitive::<Int64Type>().clone(),
                *bytes,
            ),
            Encoding::Numeric { scale } => {
                let decimal = match column.data_type() {
                    DataType::Decimal128(..) => column.clone(),
                    _ => as_type(column, &DataType::Decimal128(38, *scale))?,
                };
                Values::Numeric(decimal.as_primitive::<Decimal128Type>().clone(), *scale)
            }
            Encoding::Float4 => {
                Values::Float4(as_type(column, &DataType::Float32)?.as_primitive::<Float32Type>().clone())
            }
            Encoding::Float8 => {
                Values::Float8(as_type(column, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
            }
            Encoding::Boolean => Values::Boolean(as_type(column, &DataType::Boolean)?.as_boolean().clone()),
            Encoding::Text => Values::Text(as_type(column, &DataType::Utf8)?.as_string().clone()),
            Encoding::Bytes => Values::Bytes(as_type(column, &DataType::Binary)?.as_binary().clone()),
            Encoding::Date => {
                let days = as_type(column, &DataType::Date32)?.as_primitive::<Date32Type>().clone();
                Values::Date(days.reinterpret_cast::<Int32Type>())
            }
            Encoding::Timestamp(unit) => Values::Timestamp(
                as_type(column, &DataType::Int64)?.as_primitive::<Int64Type>().clone(),
                *unit,
            ),
            Encoding::List(element, type_number) => {
                let item = match column.data_type() {
                    DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                        item
                    }
                    other => return Err(ArrowError::CastError(format!("{other} is not a list"))),
                };
                let list = as_type(column, &DataType::List(item.clone()))?.as_list::<i32>().clone();
                let values = Values::new(list.values(), element)?;
                Values::List(list, Box::new(values), *type_number)
            }
        })
    }

    /// Appends a value and its length.
    fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), String> {
        if self.array().is_null(row) {
            out.extend_from_slice(&NULL);
            return Ok(());
        }
        match self {
            Values::Integer(values, bytes) => write_integer(values.value(row), *bytes, out)?,
            Values::Numeric(values, scale) => {
                with_length(out, |out| write_numeric(values.value(row), *scale, out));
            }
            Values::Float4(values) => field(out, &values.value(row).to_be_bytes()),
            Values::Float8(values) => field(out, &values.value(row).to_be_bytes()),
            Values::Boolean(values) => field(out, &[u8::from(values.value(row))]),
            Values::Text(values) => write_text(values.value(row), out)?,
            Values::Bytes(values) => field(out, values.value(row)),
            Values::Date(values) => {
                let days = values.value(row).checked_sub(EPOCH_DAYS).filter(|days| DATES.contains(days));
                let days = days.ok_or_else(|| out_of_range("date", &values.value(row)))?;
                field(out, &days.to_be_bytes());
            }
            Values::Timestamp(values, unit) => {
                let time_us = timestamp_us(values.value(row), *unit);
                let time_us = time_us.ok_or_else(|| out_of_range("timestamp", &values.value(row)))?;
                field(out, &time_us.to_be_bytes());
            }
            Values::List(list, values, type_number) => {
                let offsets = list.value_offsets();
                let elements = offsets[row] as usize..offsets[row + 1] as usize;
                let start = out.len();
                out.extend_from_slice(&[0; 4]);
                write_list(values, elements, *type_number, out)?;
                set_length(out, start);
            }
        }
        Ok(())
    }

    fn array(&self) -> &dyn Array {
        match self {
            Values::Integer(values, _) | Values::Timestamp(values, _) => values,
            Values::Numeric(values, _) => values,
            Values::Float4(values) => values,
            Values::Float8(values) => values,
            Values::Boolean(values) => values,
            Values::Text(values) => values,
            Values::Bytes(values) => values,
            Values::Date(values) => values,
            Values::List(values, ..) => values,
        }
    }
}

/// The column converted to another type; a value that does not fit never becomes NULL.
fn as_type(column: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    if column.data_type() == data_type {
        return Ok(column.clone());
    }
    cast_with_options(column, data_type, &CastOptions { safe: false, ..CastOptions::default() })
}

fn field(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(&(value.len() as i32).to_be_bytes());
    out.extend_from_slice(value);
}

fn with_length(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    set_length(out, start);
}

fn set_length(out: &mut [u8], start: usize) {
    let length = (out.len() - start - 4) as i32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

fn write_integer(value: i64, bytes: usize, out: &mut Vec<u8>) -> Result<(), String> {
    let does_not_fit = |name| format!("{value} does not fit into {name}; widen the column of the table");
    match bytes {
        2 => field(out, &i16::try_from(value).map_err(|_| does_not_fit("smallint"))?.to_be_bytes()),
        4 => field(out, &i32::try_from(value).map_err(|_| does_not_fit("integer"))?.to_be_bytes()),
        _ => field(out, &value.to_be_bytes()),
    }
    Ok(())
}

fn write_text(text: &str, out: &mut Vec<u8>) -> Result<(), String> {
    if memchr::memchr(0, text.as_bytes()).is_some() {
        return Err(
            "a string contains the character with code 0, which PostgreSQL cannot store; remove it in the \
             query, or write the column as binary"
                .to_owned(),
        );
    }
    field(out, text.as_bytes());
    Ok(())
}

fn write_list(
    values: &Values,
    elements: std::ops::Range<usize>,
    type_number: u32,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let has_null = elements.clone().any(|element| values.array().is_null(element));
    out.extend_from_slice(&i32::from(!elements.is_empty()).to_be_bytes());
    out.extend_from_slice(&i32::from(has_null).to_be_bytes());
    out.extend_from_slice(&type_number.to_be_bytes());
    if !elements.is_empty() {
        out.extend_from_slice(&(elements.len() as i32).to_be_bytes());
        out.extend_from_slice(&1_i32.to_be_bytes());
    }
    elements.into_iter().try_for_each(|element| values.write(element, out))
}

/// Microseconds since 2000-01-01. Smaller units are truncated, so that times keep their order.
fn timestamp_us(time: i64, unit: TimeUnit) -> Option<i64> {
    let time_us = match unit {
        TimeUnit::Second => time.checked_mul(1_000_000)?,
        TimeUnit::Millisecond => time.checked_mul(1000)?,
        TimeUnit::Microsecond => time,
        TimeUnit::Nanosecond => time.div_euclid(1000),
    };
    time_us.checked_sub(EPOCH_US).filter(|time_us| TIMESTAMPS.contains(time_us))
}

fn out_of_range(kind: &str, value: &dyn std::fmt::Display) -> String {
    format!(
        "{kind} {value} (since 1970) is outside the range that PostgreSQL can store; correct it in the \
        query"
    )
}
