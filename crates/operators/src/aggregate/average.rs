//! `avg(x)`.

use std::sync::Arc;

use arrow_array::types::{Decimal128Type, Int64Type, UInt64Type};
use arrow_array::{ArrayRef, ArrowNativeTypeOp, Float64Array, PrimitiveArray};
use arrow_buffer::i256;
use arrow_schema::{DECIMAL128_MAX_PRECISION, DECIMAL128_MAX_SCALE, DataType};
use tidemill_core::Cause;

use super::retract::{FloatResult, Floats, IntegersBack};
use super::sum::{narrow_decimal, partial_type};
use super::totals::{Finish, Slot, Totals, for_float_type, for_integer_type};
use super::{Accumulator, Aggregate, Retractable, not_defined};

/// The mean of the values that are not NULL; NULL if there are none.
///
/// The result is a Float64, which for integers is the exact sum divided by the number of values. `Decimal128(p, s)`
/// gives `Decimal128(p + 4, s + 4)`, rounded half away from zero.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Float64Array, Int64Array};
/// use arrow_schema::DataType;
/// use tidemill_operators::aggregate::{Accumulator, Aggregate, Average};
///
/// let values = Arc::new(Int64Array::from(vec![Some(1), None, Some(2)])) as ArrayRef;
/// let mut average = Average::new(&DataType::Int64).unwrap().accumulator();
/// average.resize(1);
/// average.update(&[0, 0, 0], &[values], None).unwrap();
/// assert_eq!(average.evaluate(&[0]).unwrap().as_ref(), &Float64Array::from(vec![1.5]));
/// ```
#[derive(Clone, Debug)]
pub struct Average {
    argument: DataType,
}

impl Average {
    /// The mean of values of this type.
    ///
    /// # Errors
    /// If it is not a numeric type.
    pub fn new(argument: &DataType) -> Result<Average, Cause> {
        match argument {
            DataType::Float32 | DataType::Float64 | DataType::Decimal128(_, _) => {}
            integer if integer.is_integer() => {}
            other => return Err(not_defined("avg", other, "cast the argument to a number")),
        }
        Ok(Average { argument: argument.clone() })
    }
}

impl Aggregate for Average {
    fn name(&self) -> &str {
        "avg"
    }

    fn result_type(&self) -> DataType {
        match self.argument {
            DataType::Decimal128(precision, scale) => DataType::Decimal128(
                DECIMAL128_MAX_PRECISION.min(precision + 4),
                DECIMAL128_MAX_SCALE.min(scale + 4),
            ),
            _ => DataType::Float64,
        }
    }

    fn partial_types(&self) -> Vec<DataType> {
        vec![partial_type(&self.argument), DataType::Int64]
    }

    fn is_exact(&self) -> bool {
        !self.argument.is_floating()
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        let partial = partial_type(&self.argument);
        macro_rules! integer {
            ($type:ty) => {
                Totals::<$type, i128>::boxed("avg", partial, true, means(|sum| sum as f64))
            };
        }
        macro_rules! float {
            ($type:ty) => {
                Totals::<$type, f64>::boxed("avg", partial, true, means(|sum| sum))
            };
        }
        match &self.argument {
            DataType::Decimal128(_, scale) => {
                let finish = decimals(*scale, self.result_type());
                Totals::<Decimal128Type, i256>::boxed("avg", partial, true, finish)
            }
            integer if integer.is_integer() => for_integer_type!(integer, integer),
            number => for_float_type!(number, float),
        }
    }

    fn retractable(&self) -> Option<Box<dyn Retractable>> {
        Some(match &self.argument {
            decimal @ DataType::Decimal128(_, scale) => {
                let finish = decimals(*scale, self.result_type());
                IntegersBack::<Decimal128Type, i256>::boxed("avg", decimal.clone(), finish)
            }
            integer if integer.is_signed_integer() => {
                let finish = means(|sum| sum as f64);
                IntegersBack::<Int64Type, i128>::boxed("avg", DataType::Int64, finish)
            }
            integer if integer.is_unsigned_integer() => {
                let finish = means(|sum| sum as f64);
                IntegersBack::<UInt64Type, i128>::boxed("avg", DataType::UInt64, finish)
            }
            _ => Floats::boxed("avg", FloatResult::Mean),
        })
    }
}

fn means<S: 'static>(to_float: fn(S) -> f64) -> Finish<S> {
    Arc::new(move |slots| {
        let mean = |slot: Slot<S>| (slot.rows > 0).then(|| to_float(slot.sum) / slot.rows as f64);
        Ok(Arc::new(slots.map(mean).collect::<Float64Array>()) as ArrayRef)
    })
}

fn decimals(scale: i8, result: DataType) -> Finish<i256> {
    Arc::new(move |slots| {
        let mean = |slot: Slot<i256>| match slot.rows {
            0 => Ok(None),
            rows => decimal_mean(slot.sum, rows, scale, &result).map(Some),
        };
        let means = slots.map(mean).collect::<Result<PrimitiveArray<Decimal128Type>, Cause>>()?;
        Ok(Arc::new(means.with_data_type(result.clone())) as ArrayRef)
    })
}

/// The mean at the result's scale, rounded half away from zero.
fn decimal_mean(sum: i256, rows: i64, scale: i8, result: &DataType) -> Result<i128, Cause> {
    let DataType::Decimal128(_, result_scale) = result else {
        return Err(Cause::bug(format!("avg of decimals yields {result}")));
    };
    let digits = (*result_scale - scale).max(0) as u32;
    // A sum of 128-bit values over less than 2^63 rows times 10^4 stays below 2^205.
    let scaled = sum.wrapping_mul(i256::from_i128(10_i128.pow(digits)));
    let rows = i256::from_i128(rows.into());
    let half = rows.div_wrapping(i256::from_i128(2));
    let rounded = if scaled < i256::ZERO { scaled.wrapping_sub(half) } else { scaled.wrapping_add(half) };
    narrow_decimal("avg", rounded.div_wrapping(rows), result)
}
