//! `sum(x)`.

use std::sync::Arc;

use arrow_array::types::{Decimal128Type, DecimalType, Int64Type, UInt64Type};
use arrow_array::{ArrayRef, ArrowPrimitiveType, Float64Array, PrimitiveArray};
use arrow_buffer::i256;
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType};
use tidemill_core::Cause;

use super::retract::{FloatResult, Floats, IntegersBack};
use super::totals::{Finish, Slot, Totals, for_float_type, for_integer_type};
use super::{Accumulator, Aggregate, Retractable, not_defined};

/// The sum of the values that are not NULL; NULL if there are none.
///
/// Signed integers give an Int64, unsigned ones a UInt64, floating-point numbers a Float64 (added in the order of
/// rows), and `Decimal128(p, s)` gives `Decimal128(min(p + 10, 38), s)`. A sum that does not fit its type is an error.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int32Array, Int64Array};
/// use arrow_schema::DataType;
/// use tidemill_operators::aggregate::{Accumulator, Aggregate, Sum};
///
/// let values = Arc::new(Int32Array::from(vec![Some(1), None, Some(5)])) as ArrayRef;
/// let mut sum = Sum::new(&DataType::Int32).unwrap().accumulator();
/// sum.resize(3);
/// sum.update(&[0, 1, 0], &[values], None).unwrap();
/// assert_eq!(sum.evaluate(&[0, 1]).unwrap().as_ref(), &Int64Array::from(vec![Some(6), None]));
/// ```
#[derive(Clone, Debug)]
pub struct Sum {
    argument: DataType,
}

impl Sum {
    /// The sum of values of this type.
    ///
    /// # Errors
    /// If it is not a numeric type.
    pub fn new(argument: &DataType) -> Result<Sum, Cause> {
        match argument {
            DataType::Float32 | DataType::Float64 | DataType::Decimal128(_, _) => {}
            integer if integer.is_integer() => {}
            other => return Err(not_defined("sum", other, "cast the argument to a number")),
        }
        Ok(Sum { argument: argument.clone() })
    }
}

impl Aggregate for Sum {
    fn name(&self) -> &str {
        "sum"
    }

    fn result_type(&self) -> DataType {
        match &self.argument {
            DataType::Decimal128(precision, scale) => {
                DataType::Decimal128(DECIMAL128_MAX_PRECISION.min(precision + 10), *scale)
            }
            signed if signed.is_signed_integer() => DataType::Int64,
            unsigned if unsigned.is_unsigned_integer() => DataType::UInt64,
            _ => DataType::Float64,
        }
    }

    fn partial_types(&self) -> Vec<DataType> {
        vec![partial_type(&self.argument)]
    }

    fn is_exact(&self) -> bool {
        !self.argument.is_floating()
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        let partial = partial_type(&self.argument);
        macro_rules! signed {
            ($type:ty) => {
                Totals::<$type, i128>::boxed("sum", partial, false, integers::<Int64Type>())
            };
        }
        macro_rules! unsigned {
            ($type:ty) => {
                Totals::<$type, i128>::boxed("sum", partial, false, integers::<UInt64Type>())
            };
        }
        macro_rules! float {
            ($type:ty) => {
                Totals::<$type, f64>::boxed("sum", partial, false, floats())
            };
        }
        match &self.argument {
            DataType::Decimal128(_, _) => {
                let finish = decimals(self.result_type());
                Totals::<Decimal128Type, i256>::boxed("sum", partial, false, finish)
            }
            integer if integer.is_signed_integer() => for_integer_type!(integer, signed),
            integer if integer.is_unsigned_integer() => for_integer_type!(integer, unsigned),
            number => for_float_type!(number, float),
        }
    }

    fn retractable(&self) -> Option<Box<dyn Retractable>> {
        Some(match &self.argument {
            decimal @ DataType::Decimal128(_, _) => {
                let finish = decimals(self.result_type());
                IntegersBack::<Decimal128Type, i256>::boxed("sum", decimal.clone(), finish)
            }
            integer if integer.is_signed_integer() => {
                let finish = integers::<Int64Type>();
                IntegersBack::<Int64Type, i128>::boxed("sum", DataType::Int64, finish)
            }
            integer if integer.is_unsigned_integer() => {
                let finish = integers::<UInt64Type>();
                IntegersBack::<UInt64Type, i128>::boxed("sum", DataType::UInt64, finish)
            }
            _ => Floats::boxed("sum", FloatResult::Sum),
        })
    }
}

/// The type of partial sums of an argument: wide enough for any number of rows.
pub(super) fn partial_type(argument: &DataType) -> DataType {
    match argument {
        DataType::Decimal128(_, scale) => DataType::Decimal256(76, *scale),
        integer if integer.is_integer() => DataType::Decimal128(38, 0),
        _ => DataType::Float64,
    }
}

fn integers<R>() -> Finish<i128>
where
    R: ArrowPrimitiveType,
    R::Native: TryFrom<i128>,
{
    Arc::new(|slots| {
        let narrow = |slot: Slot<i128>| match slot.rows {
            0 => Ok(None),
            _ => R::Native::try_from(slot.sum).map(Some).map_err(|_| overflow("sum", &R::DATA_TYPE)),
        };
        let sums = slots.map(narrow).collect::<Result<PrimitiveArray<R>, Cause>>()?;
        Ok(Arc::new(sums) as ArrayRef)
    })
}

fn floats() -> Finish<f64> {
    Arc::new(|slots| {
        let sums = slots.map(|slot| (slot.rows > 0).then_some(slot.sum)).collect::<Float64Array>();
        Ok(Arc::new(sums) as ArrayRef)
    })
}

fn decimals(result: DataType) -> Finish<i256> {
    Arc::new(move |slots| {
        let narrow = |slot: Slot<i256>| match slot.rows {
            0 => Ok(None),
            _ => narrow_decimal("sum", slot.sum, &result).map(Some),
        };
        let sums = slots.map(narrow).collect::<Result<PrimitiveArray<Decimal128Type>, Cause>>()?;
        Ok(Arc::new(sums.with_data_type(result.clone())) as ArrayRef)
    })
}

/// A decimal that must fit the precision of the result.
pub(super) fn narrow_decimal(function: &str, value: i256, result: &DataType) -> Result<i128, Cause> {
    let DataType::Decimal128(precision, scale) = result else {
        return Err(Cause::bug(format!("{function} of decimals yields {result}")));
    };
    let fits = |value: &i128| Decimal128Type::validate_decimal_precision(*value, *precision, *scale).is_ok();
    value.to_i128().filter(fits).ok_or_else(|| overflow(function, result))
}

fn overflow(function: &str, result: &DataType) -> Cause {
    let remedy = match result {
        DataType::Decimal128(_, _) => "cast the argument to DOUBLE, or to a DECIMAL of smaller scale",
        _ => "cast the argument to DECIMAL(38, 0)",
    };
    Cause::user(format!("{function}: a result does not fit into {result}; {remedy}"))
}
