//! Numbers of columns, and numbers of WebAssembly.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, make_array};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use wasmi::{Val, ValType};

/// As which number a value of a type is passed; `None` if it is none.
pub(crate) fn number_type(data_type: &DataType) -> Option<ValType> {
    match data_type {
        DataType::Boolean | DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Date32 => {
            Some(ValType::I32)
        }
        DataType::Int64 | DataType::Timestamp(_, _) => Some(ValType::I64),
        DataType::Float32 => Some(ValType::F32),
        DataType::Float64 => Some(ValType::F64),
        _ => None,
    }
}

/// How many bytes a value of a fixed width takes in a batch; a Boolean takes one.
pub(crate) fn width(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Boolean => Some(1),
        other => other.primitive_width().filter(|_| number_type(other).is_some()),
    }
}

/// The numbers of a column.
pub(crate) enum Numbers {
    Boolean(BooleanBuffer),
    I8(ScalarBuffer<i8>),
    I16(ScalarBuffer<i16>),
    I32(ScalarBuffer<i32>),
    I64(ScalarBuffer<i64>),
    F32(ScalarBuffer<f32>),
    F64(ScalarBuffer<f64>),
}

impl Numbers {
    pub fn of(array: &dyn Array) -> Option<Numbers> {
        let data = array.to_data();
        Some(match data.data_type() {
            DataType::Boolean => Numbers::Boolean(BooleanArray::from(data).values().clone()),
            DataType::Int8 => Numbers::I8(scalars(&data)),
            DataType::Int16 => Numbers::I16(scalars(&data)),
            DataType::Int32 | DataType::Date32 => Numbers::I32(scalars(&data)),
            DataType::Int64 | DataType::Timestamp(_, _) => Numbers::I64(scalars(&data)),
            DataType::Float32 => Numbers::F32(scalars(&data)),
            DataType::Float64 => Numbers::F64(scalars(&data)),
            _ => return None,
        })
    }

    pub fn value(&self, row: usize) -> Val {
        match self {
            Numbers::Boolean(values) => Val::I32(i32::from(values.value(row))),
            Numbers::I8(values) => Val::I32(values[row].into()),
            Numbers::I16(values) => Val::I32(values[row].into()),
            Numbers::I32(values) => Val::I32(values[row]),
            Numbers::I64(values) => Val::I64(values[row]),
            Numbers::F32(values) => Val::F32(values[row].into()),
            Numbers::F64(values) => Val::F64(values[row].into()),
        }
    }

    /// The values as bytes, one after the other.
    pub fn put(&self, bytes: &mut [u8], is_valid: impl Fn(usize) -> bool) {
        match self {
            Numbers::Boolean(values) => {
                for (row, byte) in bytes.iter_mut().enumerate() {
                    *byte = u8::from(is_valid(row) && values.value(row));
                }
            }
            Numbers::I8(values) => put(values, bytes, is_valid, |value| value.to_le_bytes()),
            Numbers::I16(values) => put(values, bytes, is_valid, |value| value.to_le_bytes()),
            Numbers::I32(values) => put(values, bytes, is_valid, |value| value.to_le_bytes()),
            Numbers::I64(values) => put(values, bytes, is_valid, |value| value.to_le_bytes()),
            Numbers::F32(values) => put(values, bytes, is_valid, |value| value.to_le_bytes()),
            Numbers::F64(values) => put(values, bytes, is_valid, |value| value.to_le_bytes()),
        }
    }
}

fn scalars<T: ArrowNativeType>(data: &ArrayData) -> ScalarBuffer<T> {
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

/// What is below a NULL is not defined, and is written as 0: otherwise the code could see where a row comes from.
fn put<T: Copy, const N: usize>(
    values: &[T],
    bytes: &mut [u8],
    is_valid: impl Fn(usize) -> bool,
    encode: impl Fn(T) -> [u8; N],
) {
    for (row, (value, place)) in values.iter().zip(bytes.chunks_exact_mut(N)).enumerate() {
        if is_valid(row) {
            place.copy_from_slice(&encode(*value));
        } else {
            place.fill(0);
        }
    }
}

/// A column of results that grows row by row.
pub(crate) struct Results {
    data_type: DataType,
    values: Values,
}

enum Values {
    Boolean(Vec<bool>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
}

impl Results {
    pub fn new(data_type: &DataType, rows: usize) -> Option<Results> {
        let values = match data_type {
            DataType::Boolean => Values::Boolean(Vec::with_capacity(rows)),
            DataType::Int8 => Values::I8(Vec::with_capacity(rows)),
            DataType::Int16 => Values::I16(Vec::with_capacity(rows)),
            DataType::Int32 | DataType::Date32 => Values::I32(Vec::with_capacity(rows)),
            DataType::Int64 | DataType::Timestamp(_, _) => Values::I64(Vec::with_capacity(rows)),
            DataType::Float32 => Values::F32(Vec::with_capacity(rows)),
            DataType::Float64 => Values::F64(Vec::with_capacity(rows)),
            _ => return None,
        };
        Some(Results { data_type: data_type.clone(), values })
    }

    pub fn push_null(&mut self) {
        match &mut self.values {
            Values::Boolean(values) => values.push(false),
            Values::I8(values) => values.push(0),
            Values::I16(values) => values.push(0),
            Values::I32(values) => values.push(0),
            Values::I64(values) => values.push(0),
            Values::F32(values) => values.push(0.0),
            Values::F64(values) => values.push(0.0),
        }
    }

    /// Adds what a call gave.
    ///
    /// # Errors
    /// If the number is not one of the type.
    pub fn push(&mut self, value: &Val) -> Result<(), String> {
        let out_of_range =
            |value: &i32| format!("the code gives {value}, which is out of the range of the result's type");
        match (&mut self.values, value) {
            (Values::Boolean(values), Val::I32(value)) => values.push(*value != 0),
            (Values::I8(values), Val::I32(value)) => {
                values.push(i8::try_from(*value).map_err(|_| out_of_range(value))?);
            }
            (Values::I16(values), Val::I32(value)) => {
                values.push(i16::try_from(*value).map_err(|_| out_of_range(value))?);
            }
            (Values::I32(values), Val::I32(value)) => values.push(*value),
            (Values::I64(values), Val::I64(value)) => values.push(*value),
            (Values::F32(values), Val::F32(value)) => values.push(one_nan_f32(f32::from(*value))),
            (Values::F64(values), Val::F64(value)) => values.push(one_nan(f64::from(*value))),
            _ => return Err("the code gives a number of another type than it declares".to_owned()),
        }
        Ok(())
    }

    pub fn finish(self, nulls: Option<NullBuffer>) -> Result<ArrayRef, String> {
        let buffer = match self.values {
            Values::Boolean(values) => {
                return Ok(Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls)));
            }
            Values::I8(values) => (values.len(), Buffer::from_vec(values)),
            Values::I16(values) => (values.len(), Buffer::from_vec(values)),
            Values::I32(values) => (values.len(), Buffer::from_vec(values)),
            Values::I64(values) => (values.len(), Buffer::from_vec(values)),
            Values::F32(values) => (values.len(), Buffer::from_vec(values)),
            Values::F64(values) => (values.len(), Buffer::from_vec(values)),
        };
        array(&self.data_type, buffer.0, buffer.1, nulls)
    }
}

fn array(
    data_type: &DataType,
    rows: usize,
    values: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, String> {
    let data = ArrayData::builder(data_type.clone()).len(rows).add_buffer(values).nulls(nulls).build();
    data.map(make_array).map_err(|error| error.to_string())
}

/// A column from the bytes of its values.
pub(crate) fn from_bytes(
    data_type: &DataType,
    bytes: &[u8],
    rows: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, String> {
    let values = match data_type {
        DataType::Boolean => {
            let values: BooleanBuffer = bytes.iter().map(|byte| *byte != 0).collect();
            return Ok(Arc::new(BooleanArray::new(values, nulls)));
        }
        DataType::Float32 => {
            let floats = bytes.as_chunks().0.iter().map(|bytes| one_nan_f32(f32::from_le_bytes(*bytes)));
            Buffer::from_vec(floats.collect::<Vec<f32>>())
        }
        DataType::Float64 => {
            let floats = bytes.as_chunks().0.iter().map(|bytes| one_nan(f64::from_le_bytes(*bytes)));
            Buffer::from_vec(floats.collect::<Vec<f64>>())
        }
        _ => Buffer::from(bytes),
    };
    array(data_type, rows, values, nulls)
}

/// The code may make a NaN from bits; only one leaves it.
fn one_nan(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value }
}

fn one_nan_f32(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value }
}
