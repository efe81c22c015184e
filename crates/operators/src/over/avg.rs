//! `AVG(column)`.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array};
use arrow_schema::{DECIMAL128_MAX_PRECISION, DECIMAL128_MAX_SCALE, DataType};
use tidemill_core::error::Cause;
use tidemill_core::{SnapshotReader, SnapshotWriter};

use super::fold::{Fold, RunningFold};
use super::function::{Input, RunningFunction};
use super::sum::{TOO_LARGE, decimals, floats, integers, plus, read_integer, write_integer};

/// The type of the mean of values of a type, which is the same as DataFusion's.
pub(super) fn result_type(values: &DataType) -> Result<DataType, Cause> {
    match values {
        DataType::Decimal128(precision, scale) => Ok(DataType::Decimal128(
            DECIMAL128_MAX_PRECISION.min(precision + 4),
            DECIMAL128_MAX_SCALE.min(scale + 4),
        )),
        number if number.is_integer() || number.is_floating() => Ok(DataType::Float64),
        other => Err(Cause::user(format!("a running AVG cannot take values of type {other}; cast them"))),
    }
}

pub(super) fn make(input: Input, values: &DataType) -> Result<Box<dyn RunningFunction>, Cause> {
    let result = result_type(values)?;
    Ok(match (values, &result) {
        (DataType::Decimal128(_, scale), DataType::Decimal128(_, result_scale)) => {
            let factor = 10_i128.pow((result_scale - scale).max(0) as u32);
            let mean = MeanType::Decimal { data_type: result.clone(), factor };
            Box::new(RunningFold::new(ExactMean { result: mean }, result, input))
        }
        (integer, _) if integer.is_integer() => {
            Box::new(RunningFold::new(ExactMean { result: MeanType::Float }, result, input))
        }
        _ => Box::new(RunningFold::new(MeanOfFloats, result, input)),
    })
}

/// Sum and number of values.
#[derive(Debug)]
struct MeanOfFloats;

impl Fold for MeanOfFloats {
    type State = (f64, u64);

    fn states(&self, column: Option<&ArrayRef>, _rows: usize) -> Result<Vec<(f64, u64)>, Cause> {
        Ok(floats(column)?.into_iter().map(|value| (value, 1)).collect())
    }

    fn combine(&self, earlier: (f64, u64), later: (f64, u64)) -> Result<(f64, u64), Cause> {
        Ok((earlier.0 + later.0, earlier.1 + later.1))
    }

    fn finish(&self, results: &[Option<(f64, u64)>]) -> Result<ArrayRef, Cause> {
        let mean = |result: &Option<(f64, u64)>| result.map(|(sum, count)| sum / count as f64);
        Ok(Arc::new(results.iter().map(mean).collect::<Float64Array>()))
    }

    fn write(&self, (sum, count): (f64, u64), writer: &mut SnapshotWriter) {
        writer.u64(sum.to_bits());
        writer.u64(count);
    }

    fn read(&self, reader: &mut SnapshotReader<'_>) -> Result<(f64, u64), Cause> {
        Ok((f64::from_bits(reader.u64()?), reader.u64()?))
    }
}

/// Exact sum and number of values.
#[derive(Debug)]
struct ExactMean {
    result: MeanType,
}

/// What a mean is given as.
#[derive(Debug)]
enum MeanType {
    Float,
    /// With more decimals than the values, rounded half away from zero: the sum is multiplied by `factor` first.
    Decimal {
        data_type: DataType,
        factor: i128,
    },
}

impl Fold for ExactMean {
    type State = (i128, u64);

    fn states(&self, column: Option<&ArrayRef>, _rows: usize) -> Result<Vec<(i128, u64)>, Cause> {
        Ok(integers(column)?.into_iter().map(|value| (value, 1)).collect())
    }

    fn combine(&self, earlier: (i128, u64), later: (i128, u64)) -> Result<(i128, u64), Cause> {
        Ok((plus(earlier.0, later.0), earlier.1 + later.1))
    }

    fn finish(&self, results: &[Option<(i128, u64)>]) -> Result<ArrayRef, Cause> {
        match &self.result {
            MeanType::Float => {
                let mean =
                    |result: &Option<(i128, u64)>| result.map(|(sum, count)| sum as f64 / count as f64);
                Ok(Arc::new(results.iter().map(mean).collect::<Float64Array>()))
            }
            MeanType::Decimal { data_type, factor } => {
                let mean =
                    |(sum, count)| rounded_mean(sum, count, *factor).ok_or_else(|| too_large(data_type));
                let means: Vec<Option<i128>> =
                    results.iter().map(|result| result.map(mean).transpose()).collect::<Result<_, _>>()?;
                decimals(means.into_iter(), data_type).map_err(|_| too_large(data_type))
            }
        }
    }

    fn write(&self, (sum, count): (i128, u64), writer: &mut SnapshotWriter) {
        write_integer(sum, writer);
        writer.u64(count);
    }

    fn read(&self, reader: &mut SnapshotReader<'_>) -> Result<(i128, u64), Cause> {
        Ok((read_integer(reader)?, reader.u64()?))
    }

    fn read_older(&self, reader: &mut SnapshotReader<'_>) -> Result<(i128, u64), Cause> {
        match self.result {
            // Older versions added floating-point numbers.
            MeanType::Float => MeanOfFloats.read(reader).map(|(sum, count)| (sum as i128, count)),
            MeanType::Decimal { .. } => self.read(reader),
        }
    }
}

/// `sum * factor / count`, rounded half away from zero; `None` if it cannot be computed in 128 bits.
fn rounded_mean(sum: i128, count: u64, factor: i128) -> Option<i128> {
    let half = i128::from(count) / 2 * sum.signum();
    let sum = Some(sum).filter(|sum| *sum != TOO_LARGE)?;
    Some(sum.checked_mul(factor)?.checked_add(half)? / i128::from(count))
}

fn too_large(result: &DataType) -> Cause {
    Cause::user(format!("a running AVG does not fit into {result}; cast its values to DOUBLE"))
}
