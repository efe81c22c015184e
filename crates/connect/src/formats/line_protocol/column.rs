//! A column under construction, row by row.

use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::{ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray};
use arrow_buffer::{NullBuffer, NullBufferBuilder};
use arrow_schema::{ArrowError, DataType, Field, TimeUnit};
use tidemill_core::error::Cause;

use super::numbers::Number;
use super::texts::{Dictionary, Plain};
use crate::formats::sql_type;

/// A value of a field that is not text.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    Number(Number),
    Boolean(bool),
}

/// The values so far. Narrow numbers are kept wide, and narrowed with the whole batch.
#[derive(Debug)]
enum Values {
    Signed {
        values: Vec<i64>,
        least: i64,
        most: i64,
    },
    Unsigned {
        values: Vec<u64>,
        most: u64,
    },
    Float(Vec<f64>),
    Boolean(Vec<bool>),
    Time(Vec<i64>),
    Plain(Plain),
    Dictionary(Dictionary),
    /// Texts that nobody reads. Any text is valid, so none is kept.
    Unread,
}

/// A column under construction. Rows that were left out become NULL when a later one is set.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) field: Arc<Field>,
    values: Values,
    nulls: NullBufferBuilder,
    /// The number of rows that are set or NULL.
    rows: usize,
}

/// Why a value was rejected.
#[derive(Debug)]
pub(super) enum Refused {
    /// The column already has a value in this row.
    Twice,
    /// The value does not have the column's type.
    Mismatch,
}

impl Column {
    pub(super) fn new(field: Arc<Field>) -> Result<Column, Cause> {
        let signed = |least, most| Values::Signed { values: Vec::new(), least, most };
        let unsigned = |most| Values::Unsigned { values: Vec::new(), most };
        let values = match field.data_type() {
            DataType::Int8 => signed(i8::MIN.into(), i8::MAX.into()),
            DataType::Int16 => signed(i16::MIN.into(), i16::MAX.into()),
            DataType::Int32 => signed(i32::MIN.into(), i32::MAX.into()),
            DataType::Int64 => signed(i64::MIN, i64::MAX),
            DataType::UInt8 => unsigned(u8::MAX.into()),
            DataType::UInt16 => unsigned(u16::MAX.into()),
            DataType::UInt32 => unsigned(u32::MAX.into()),
            DataType::UInt64 => unsigned(u64::MAX),
            DataType::Float32 | DataType::Float64 => Values::Float(Vec::new()),
            DataType::Boolean => Values::Boolean(Vec::new()),
            DataType::Timestamp(..) => Values::Time(Vec::new()),
            DataType::Utf8 => Values::Plain(Plain::default()),
            DataType::Dictionary(key, value) if **key == DataType::Int32 && **value == DataType::Utf8 => {
                Values::Dictionary(Dictionary::default())
            }
            other => {
                return Err(Cause::user(format!(
                    "column '{}': line protocol has no {}; use VARCHAR, BIGINT, DOUBLE or BOOLEAN, or \
                     TIMESTAMP for the time",
                    field.name(),
                    sql_type(other)
                )));
            }
        };
        Ok(Column { field, values, nulls: NullBufferBuilder::new(0), rows: 0 })
    }

    /// A column whose values are only checked.
    pub(super) fn unread(field: Arc<Field>) -> Result<Column, Cause> {
        let column = Column::new(field)?;
        let values = if column.is_text() { Values::Unread } else { column.values };
        Ok(Column { values, ..column })
    }

    pub(super) fn is_boolean(&self) -> bool {
        matches!(self.values, Values::Boolean(_))
    }

    pub(super) fn is_text(&self) -> bool {
        matches!(self.values, Values::Plain(_) | Values::Dictionary(_) | Values::Unread)
    }

    /// Prepares for a value of this row.
    #[inline(always)]
    fn begin(&mut self, row: usize) -> Result<(), Refused> {
        if self.rows != row {
            if self.rows > row {
                return Err(Refused::Twice);
            }
            self.pad(row);
        }
        Ok(())
    }

    #[inline(always)]
    fn set(&mut self) {
        self.nulls.append_non_null();
        self.rows += 1;
    }

    /// The text of this length at the beginning of `rest`.
    #[inline(always)]
    pub(super) fn push_text(&mut self, row: usize, rest: &[u8], length: usize) -> Result<(), Refused> {
        self.begin(row)?;
        match &mut self.values {
            Values::Dictionary(dictionary) => dictionary.push(&rest[..length]),
            Values::Plain(plain) => plain.push(rest, length),
            Values::Unread => {}
            _ => return Err(Refused::Mismatch),
        }
        self.set();
        Ok(())
    }

    #[inline(always)]
    pub(super) fn push(&mut self, row: usize, value: Value) -> Result<(), Refused> {
        let number = match value {
            Value::Boolean(value) => return self.push_boolean(row, value),
            Value::Number(number) => number,
        };
        self.begin(row)?;
        match &mut self.values {
            Values::Float(values) => values.push(float(number)),
            Values::Signed { values, least, most } => {
                values.push(signed(number, *least, *most).ok_or(Refused::Mismatch)?);
            }
            Values::Unsigned { values, most } => {
                values.push(unsigned(number, *most).ok_or(Refused::Mismatch)?);
            }
            _ => return Err(Refused::Mismatch),
        }
        self.set();
        Ok(())
    }

    fn push_boolean(&mut self, row: usize, value: bool) -> Result<(), Refused> {
        self.begin(row)?;
        let Values::Boolean(values) = &mut self.values else { return Err(Refused::Mismatch) };
        values.push(value);
        self.set();
        Ok(())
    }

    /// The point's time, in the column's unit.
    #[inline(always)]
    pub(super) fn push_time(&mut self, row: usize, value: i64) -> Result<(), Refused> {
        self.begin(row)?;
        let Values::Time(values) = &mut self.values else { return Err(Refused::Mismatch) };
        values.push(value);
        self.set();
        Ok(())
    }

    /// Texts at these places, starting at this row; returns how many were accepted.
    #[inline(always)]
    pub(super) fn push_texts(
        &mut self,
        row: usize,
        text: &[u8],
        places: impl Iterator<Item = (usize, usize)>,
    ) -> usize {
        self.push_all(row, |values| match values {
            Values::Dictionary(dictionary) => places.map(|(at, end)| dictionary.push(&text[at..end])).count(),
            Values::Plain(plain) => places.map(|(at, end)| plain.push(&text[at..], end - at)).count(),
            Values::Unread => places.count(),
            _ => 0,
        })
    }

    /// Numbers starting at this row, up to the first that does not fit; returns how many were accepted.
    #[inline(always)]
    pub(super) fn push_numbers(&mut self, row: usize, numbers: impl Iterator<Item = Number>) -> usize {
        self.push_all(row, |values| match values {
            Values::Float(values) => append(values, numbers.map(float)),
            Values::Signed { values, least, most } => {
                append(values, numbers.map_while(|number| signed(number, *least, *most)))
            }
            Values::Unsigned { values, most } => {
                append(values, numbers.map_while(|number| unsigned(number, *most)))
            }
            _ => 0,
        })
    }

    /// As [`Column::push_numbers`].
    pub(super) fn push_booleans(&mut self, row: usize, booleans: impl Iterator<Item = bool>) -> usize {
        self.push_all(row, |values| match values {
            Values::Boolean(values) => append(values, booleans),
            _ => 0,
        })
    }

    /// Like [`Column::push_numbers`], for times in the column's unit.
    #[inline(always)]
    pub(super) fn push_times(&mut self, row: usize, times: impl Iterator<Item = i64>) -> usize {
        self.push_all(row, |values| match values {
            Values::Time(values) => append(values, times),
            _ => 0,
        })
    }

    #[inline(always)]
    fn push_all(&mut self, row: usize, push: impl FnOnce(&mut Values) -> usize) -> usize {
        if self.begin(row).is_err() {
            return 0;
        }
        let count = push(&mut self.values);
        self.nulls.append_n_non_nulls(count);
        self.rows += count;
        count
    }

    /// Whether a complete row lacks a value that is required.
    #[inline(always)]
    pub(super) fn lacks(&self, row: usize) -> bool {
        self.rows <= row
    }

    #[cold]
    fn pad(&mut self, rows: usize) {
        match &mut self.values {
            Values::Signed { values, .. } | Values::Time(values) => values.resize(rows, 0),
            Values::Unsigned { values, .. } => values.resize(rows, 0),
            Values::Float(values) => values.resize(rows, 0.0),
            Values::Boolean(values) => values.resize(rows, false),
            Values::Plain(plain) => plain.pad(rows),
            Values::Dictionary(dictionary) => dictionary.pad(rows),
            Values::Unread => {}
        }
        self.nulls.append_n_nulls(rows - self.rows);
        self.rows = rows;
    }

    /// Removes a row that turned out to be bad.
    pub(super) fn truncate(&mut self, rows: usize) {
        if self.rows <= rows {
            return;
        }
        match &mut self.values {
            Values::Signed { values, .. } | Values::Time(values) => values.truncate(rows),
            Values::Unsigned { values, .. } => values.truncate(rows),
            Values::Float(values) => values.truncate(rows),
            Values::Boolean(values) => values.truncate(rows),
            Values::Plain(plain) => plain.truncate(rows),
            Values::Dictionary(dictionary) => dictionary.truncate(rows),
            Values::Unread => {}
        }
        self.nulls.truncate(rows);
        self.rows = rows;
    }

    /// The column with this many rows; the next one begins.
    pub(super) fn finish(&mut self, rows: usize) -> Result<ArrayRef, ArrowError> {
        if self.rows < rows {
            self.pad(rows);
        }
        self.rows = 0;
        let nulls = self.nulls.finish();
        match &mut self.values {
            Values::Signed { values, .. } => Ok(narrow_signed(self.field.data_type(), values, nulls)),
            Values::Unsigned { values, .. } => Ok(narrow_unsigned(self.field.data_type(), values, nulls)),
            Values::Float(values) => Ok(match self.field.data_type() {
                DataType::Float32 => narrow::<_, Float32Type>(values, nulls, |value| value as f32),
                _ => wide::<Float64Type>(values, nulls),
            }),
            Values::Boolean(values) => {
                let array = BooleanArray::new(values.iter().copied().collect(), nulls);
                values.clear();
                Ok(Arc::new(array))
            }
            Values::Time(values) => Ok(times(self.field.data_type(), values, nulls)),
            Values::Plain(plain) => plain.finish(nulls),
            Values::Dictionary(dictionary) => dictionary.finish(nulls),
            Values::Unread => Ok(arrow_array::new_null_array(self.field.data_type(), rows)),
        }
    }
}

fn float(number: Number) -> f64 {
    match number {
        Number::Float(value) => value,
        Number::Whole(value) | Number::Signed(value) => value as f64,
        Number::Unsigned(value) => value as f64,
    }
}

fn signed(number: Number, least: i64, most: i64) -> Option<i64> {
    match number {
        Number::Signed(value) | Number::Whole(value) if (least..=most).contains(&value) => Some(value),
        Number::Unsigned(value) if value <= most as u64 => Some(value as i64),
        _ => None,
    }
}

fn unsigned(number: Number, most: u64) -> Option<u64> {
    match number {
        Number::Unsigned(value) if value <= most => Some(value),
        Number::Signed(value) | Number::Whole(value) if value >= 0 && value as u64 <= most => {
            Some(value as u64)
        }
        _ => None,
    }
}

/// Appends values, and counts them.
#[inline(always)]
fn append<T>(target: &mut Vec<T>, values: impl Iterator<Item = T>) -> usize {
    let before = target.len();
    target.extend(values);
    target.len() - before
}

fn wide<T: ArrowPrimitiveType>(values: &mut Vec<T::Native>, nulls: Option<NullBuffer>) -> ArrayRef {
    let next = Vec::with_capacity(values.len());
    Arc::new(PrimitiveArray::<T>::new(std::mem::replace(values, next).into(), nulls))
}

fn narrow<V: Copy, T: ArrowPrimitiveType>(
    values: &mut Vec<V>,
    nulls: Option<NullBuffer>,
    narrow: impl Fn(V) -> T::Native,
) -> ArrayRef {
    let narrowed: Vec<T::Native> = values.iter().map(|value| narrow(*value)).collect();
    values.clear();
    Arc::new(PrimitiveArray::<T>::new(narrowed.into(), nulls))
}

fn narrow_signed(data_type: &DataType, values: &mut Vec<i64>, nulls: Option<NullBuffer>) -> ArrayRef {
    // Each was checked when it came.
    match data_type {
        DataType::Int8 => narrow::<_, Int8Type>(values, nulls, |value| value as i8),
        DataType::Int16 => narrow::<_, Int16Type>(values, nulls, |value| value as i16),
        DataType::Int32 => narrow::<_, Int32Type>(values, nulls, |value| value as i32),
        _ => wide::<Int64Type>(values, nulls),
    }
}

fn narrow_unsigned(data_type: &DataType, values: &mut Vec<u64>, nulls: Option<NullBuffer>) -> ArrayRef {
    match data_type {
        DataType::UInt8 => narrow::<_, UInt8Type>(values, nulls, |value| value as u8),
        DataType::UInt16 => narrow::<_, UInt16Type>(values, nulls, |value| value as u16),
        DataType::UInt32 => narrow::<_, UInt32Type>(values, nulls, |value| value as u32),
        _ => wide::<UInt64Type>(values, nulls),
    }
}

fn times(data_type: &DataType, values: &mut Vec<i64>, nulls: Option<NullBuffer>) -> ArrayRef {
    let next = Vec::with_capacity(values.len());
    let values = std::mem::replace(values, next).into();
    let DataType::Timestamp(unit, zone) = data_type else {
        return Arc::new(PrimitiveArray::<Int64Type>::new(values, nulls));
    };
    macro_rules! times {
        ($type:ty) => {
            Arc::new(PrimitiveArray::<$type>::new(values, nulls).with_timezone_opt(zone.clone()))
        };
    }
    match unit {
        TimeUnit::Second => times!(TimestampSecondType),
        TimeUnit::Millisecond => times!(TimestampMillisecondType),
        TimeUnit::Microsecond => times!(TimestampMicrosecondType),
        TimeUnit::Nanosecond => times!(TimestampNanosecondType),
    }
}
