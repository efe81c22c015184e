//! `SUM(column)`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, DecimalType, Float64Type, Int64Type, UInt64Type};
use arrow_array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, UInt64Array};
use arrow_cast::cast;
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType};
use tidemill_core::error::Cause;
use tidemill_core::{SnapshotReader, SnapshotWriter};

use super::fold::{Fold, RunningFold};
use super::function::{Input, RunningFunction};
use crate::stored_rows::kernel_error;

/// The type of the sum of values of a type, which is the same as DataFusion's.
pub(super) fn result_type(values: &DataType) -> Result<DataType, Cause> {
    use DataType::*;
    Ok(match values {
        Int8 | Int16 | Int32 | Int64 => Int64,
        UInt8 | UInt16 | UInt32 | UInt64 => UInt64,
        Float16 | Float32 | Float64 => Float64,
        Decimal128(precision, scale) => Decimal128(DECIMAL128_MAX_PRECISION.min(precision + 10), *scale),
        other => {
            return Err(Cause::user(format!("a running SUM cannot add values of type {other}; cast them")));
        }
    })
}

pub(super) fn make(input: Input, values: &DataType) -> Result<Box<dyn RunningFunction>, Cause> {
    let result = result_type(values)?;
    Ok(match result {
        DataType::Float64 => Box::new(RunningFold::new(SumOfFloats, result, input)),
        _ => Box::new(RunningFold::new(SumOfIntegers { result: result.clone() }, result, input)),
    })
}

/// In 64 bits, one after the other.
#[derive(Debug)]
struct SumOfFloats;

impl Fold for SumOfFloats {
    type State = f64;

    fn states(&self, column: Option<&ArrayRef>, _rows: usize) -> Result<Vec<f64>, Cause> {
        floats(column)
    }

    fn combine(&self, earlier: f64, later: f64) -> Result<f64, Cause> {
        Ok(earlier + later)
    }

    fn finish(&self, results: &[Option<f64>]) -> Result<ArrayRef, Cause> {
        Ok(Arc::new(results.iter().copied().collect::<Float64Array>()))
    }

    fn write(&self, state: f64, writer: &mut SnapshotWriter) {
        writer.u64(state.to_bits());
    }

    fn read(&self, reader: &mut SnapshotReader<'_>) -> Result<f64, Cause> {
        reader.u64().map(f64::from_bits)
    }
}

/// The values of a column as 64-bit floats.
pub(super) fn floats(column: Option<&ArrayRef>) -> Result<Vec<f64>, Cause> {
    let values = cast(argument(column)?, &DataType::Float64).map_err(kernel_error)?;
    Ok(values.as_primitive::<Float64Type>().values().to_vec())
}

/// The values of an integer or decimal column.
pub(super) fn integers(column: Option<&ArrayRef>) -> Result<Vec<i128>, Cause> {
    let column = argument(column)?;
    if let Some(decimals) = column.as_primitive_opt::<Decimal128Type>() {
        return Ok(decimals.values().to_vec());
    }
    if column.data_type().is_unsigned_integer() {
        let values = cast(column, &DataType::UInt64).map_err(kernel_error)?;
        return Ok(values
            .as_primitive::<UInt64Type>()
            .values()
            .iter()
            .map(|value| i128::from(*value))
            .collect());
    }
    let values = cast(column, &DataType::Int64).map_err(kernel_error)?;
    Ok(values.as_primitive::<Int64Type>().values().iter().map(|value| i128::from(*value)).collect())
}

fn argument(column: Option<&ArrayRef>) -> Result<&ArrayRef, Cause> {
    column.ok_or_else(|| Cause::bug("only COUNT has no argument"))
}

/// Stands for a sum that exceeds 128 bits and so has too many digits for any result.
pub(super) const TOO_LARGE: i128 = i128::MIN;

/// The sum of two. A sum that is too large stays so until its values have left the frame.
pub(super) fn plus(one: i128, other: i128) -> i128 {
    match (one, other) {
        (TOO_LARGE, _) | (_, TOO_LARGE) => TOO_LARGE,
        (one, other) => one.checked_add(other).unwrap_or(TOO_LARGE),
    }
}

/// Computed in 128 bits; only results must fit their type.
#[derive(Debug)]
struct SumOfIntegers {
    result: DataType,
}

impl SumOfIntegers {
    fn overflow(&self) -> Cause {
        Cause::user(format!(
            "a running SUM does not fit into {}; cast its values to a wider type",
            self.result
        ))
    }
}

impl Fold for SumOfIntegers {
    type State = i128;

    fn states(&self, column: Option<&ArrayRef>, _rows: usize) -> Result<Vec<i128>, Cause> {
        integers(column)
    }

    fn combine(&self, earlier: i128, later: i128) -> Result<i128, Cause> {
        Ok(plus(earlier, later))
    }

    fn finish(&self, results: &[Option<i128>]) -> Result<ArrayRef, Cause> {
        let results = results.iter();
        match self.result {
            DataType::Int64 => {
                let fit =
                    |sum: &Option<i128>| sum.map(i64::try_from).transpose().map_err(|_| self.overflow());
                Ok(Arc::new(results.map(fit).collect::<Result<Int64Array, _>>()?))
            }
            DataType::UInt64 => {
                let fit =
                    |sum: &Option<i128>| sum.map(u64::try_from).transpose().map_err(|_| self.overflow());
                Ok(Arc::new(results.map(fit).collect::<Result<UInt64Array, _>>()?))
            }
            _ => decimals(results.copied(), &self.result).map_err(|_| self.overflow()),
        }
    }

    fn write(&self, state: i128, writer: &mut SnapshotWriter) {
        write_integer(state, writer);
    }

    fn read(&self, reader: &mut SnapshotReader<'_>) -> Result<i128, Cause> {
        read_integer(reader)
    }
}

/// A column of decimals; fails if one has more digits than its type allows.
pub(super) fn decimals(
    values: impl Iterator<Item = Option<i128>>,
    data_type: &DataType,
) -> Result<ArrayRef, Cause> {
    let DataType::Decimal128(precision, scale) = *data_type else {
        return Err(Cause::bug(format!("{data_type} is not a decimal type of 128 bits")));
    };
    let fit = |value: Option<i128>| {
        let checked = value.map(|value| Decimal128Type::validate_decimal_precision(value, precision, scale));
        checked.transpose().map(|_| value).map_err(kernel_error)
    };
    let values = values.map(fit).collect::<Result<Decimal128Array, _>>()?;
    Ok(Arc::new(values.with_data_type(data_type.clone())))
}

pub(super) fn write_integer(value: i128, writer: &mut SnapshotWriter) {
    writer.u64(value as u64);
    writer.i64((value >> 64) as i64);
}

pub(super) fn read_integer(reader: &mut SnapshotReader<'_>) -> Result<i128, Cause> {
    let low = i128::from(reader.u64()?);
    Ok(i128::from(reader.i64()?) << 64 | low)
}
