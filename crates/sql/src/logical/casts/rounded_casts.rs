//! Casts of numbers to whole numbers, and `round`, as in PostgreSQL: decimals and numbers that are written out are rounded half away from
//! zero, floating-point numbers half to even. DataFusion (55.2) cuts in casts, and rounds both half away from zero. A floating-point number
//! becomes a decimal by its significant digits, as in PostgreSQL, and not by its bits.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::array::types::{Decimal128Type, Float32Type, Float64Type};
use datafusion::arrow::array::{ArrayRef, AsArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, exec_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TryCast, Volatility,
};

use crate::logical::casts::text_casts::values_of_texts;
use crate::logical::datafusion_repairs::arithmetic::rewrite;
use crate::logical::datafusion_repairs::floats::written_decimal;
use crate::logical::expression_type::type_of;
use crate::logical::unary::{applied, result_field};

/// The plan in which what is cast to a whole number is rounded first.
pub(crate) fn with_rounded_casts(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |part, schema| {
        let mut part = part;
        let changed = match &mut part {
            Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })
                if field.data_type().is_integer() =>
            {
                round(expr, schema)
            }
            Expr::Cast(Cast { expr, field })
                if matches!(field.data_type(), DataType::Decimal128(..)) && is_float(expr, schema) =>
            {
                as_digits(expr);
                true
            }
            Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "round" => {
                match args.as_mut_slice() {
                    [number] => {
                        let is_changed = round(number, schema);
                        if is_changed {
                            part = std::mem::take(number);
                        }
                        is_changed
                    }
                    [number, _] => as_written(number),
                    _ => false,
                }
            }
            _ => false,
        };
        Ok(if changed { Transformed::yes(part) } else { Transformed::no(part) })
    })
}

fn is_float(number: &Expr, schema: &DFSchema) -> bool {
    matches!(type_of(number, schema), Ok(DataType::Float32 | DataType::Float64))
}

/// Makes a floating-point number the text of its significant digits, which is then read as a decimal: `1.005` is 1.01 with two digits,
/// although the nearest floating-point number is a little less. One that is written out becomes the decimal that it is.
fn as_digits(number: &mut Expr) {
    if as_written(number) {
        return;
    }
    let digits = SignificantDigits { signature: Signature::any(1, Volatility::Immutable) };
    *number = ScalarUDF::new_from_impl(digits).call(vec![std::mem::take(number)]);
}

/// The digits of a floating-point number that every decimal of this many digits keeps: 15, or 6 of a REAL. Queries cannot name it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SignificantDigits {
    signature: Signature,
}

impl ScalarUDFImpl for SignificantDigits {
    fn name(&self) -> &str {
        "significant digits of"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The argument's display, because it determines column names.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(arguments[0].schema_name().to_string())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(result_field(self.name(), DataType::Utf8, &arguments))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        applied(&args, significant_digits)
    }
}

fn significant_digits(numbers: &ArrayRef) -> Result<ArrayRef> {
    let digits = match numbers.data_type() {
        DataType::Float32 => f32::DIGITS,
        _ => f64::DIGITS,
    };
    let numbers = cast(numbers, &DataType::Float64)?;
    let text = |number: f64| format!("{number:.*e}", digits as usize - 1);
    let texts = numbers.as_primitive::<Float64Type>().iter().map(|number| number.map(text));
    Ok(Arc::new(texts.collect::<StringArray>()))
}

/// Makes a number that is written out a decimal.
fn as_written(number: &mut Expr) -> bool {
    written_decimal(number).map(|decimal| *number = decimal).is_some()
}

/// Numbers that are to become whole numbers or decimals, rounded first as in a cast; other values as they are.
pub(crate) fn rounded_for(numbers: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    match (numbers.data_type(), wanted) {
        (DataType::Float32 | DataType::Float64, DataType::Decimal128(..)) => {
            values_of_texts(&significant_digits(numbers)?, wanted, false)
        }
        (given @ (DataType::Float32 | DataType::Float64), wanted) if wanted.is_integer() => {
            values(numbers, given)
        }
        (DataType::Decimal128(digits, scale), wanted) if *scale > 0 && wanted.is_integer() => {
            values(numbers, &whole(*digits, *scale))
        }
        _ => Ok(Arc::clone(numbers)),
    }
}

/// Rounds a number that may have a fraction. Returns whether it may.
fn round(number: &mut Expr, schema: &DFSchema) -> bool {
    let has_fraction = |number: &Expr| match type_of(number, schema) {
        Ok(DataType::Float32 | DataType::Float64) => true,
        Ok(DataType::Decimal128(_, scale)) => scale > 0,
        _ => false,
    };
    if is_rounded(number) || !has_fraction(number) {
        return false;
    }
    as_written(number);
    *number = rounded().call(vec![std::mem::take(number)]);
    true
}

fn is_rounded(number: &Expr) -> bool {
    matches!(number, Expr::ScalarFunction(ScalarFunction { func, .. })
        if (func.inner().as_ref() as &dyn Any).is::<Rounded>())
}

fn rounded() -> ScalarUDF {
    ScalarUDF::new_from_impl(Rounded { signature: Signature::any(1, Volatility::Immutable) })
}

/// The nearest whole number, of the type of its argument. Queries cannot name it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Rounded {
    signature: Signature,
}

impl ScalarUDFImpl for Rounded {
    fn name(&self) -> &str {
        "rounded"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The argument's display, because it determines column names.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(arguments[0].schema_name().to_string())
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            // One digit more: 9.9 becomes 10.
            [DataType::Decimal128(digits, scale)] => Ok(whole(*digits, *scale)),
            [number @ (DataType::Float32 | DataType::Float64)] => Ok(number.clone()),
            other => exec_err!("{other:?} is not a number with a fraction"),
        }
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let data_type = self.return_type(&[arguments.arg_fields[0].data_type().clone()])?;
        Ok(result_field(self.name(), data_type, &arguments))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let result = args.return_field.data_type();
        applied(&args, |numbers| values(numbers, result))
    }
}

/// The type of a decimal that is rounded.
fn whole(digits: u8, scale: i8) -> DataType {
    let whole = (i16::from(digits) - i16::from(scale) + 1).clamp(1, DECIMAL128_MAX_PRECISION.into());
    DataType::Decimal128(whole as u8, 0)
}

fn values(numbers: &ArrayRef, result: &DataType) -> Result<ArrayRef> {
    Ok(match numbers.data_type() {
        DataType::Float32 => {
            Arc::new(numbers.as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::round_ties_even))
        }
        DataType::Float64 => {
            Arc::new(numbers.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even))
        }
        DataType::Decimal128(_, scale) => {
            let unit = 10_i128.pow(u32::from(scale.unsigned_abs()));
            let rounded = |value: i128| {
                let (whole, rest) = (value / unit, value % unit);
                if rest.unsigned_abs() >= unit.unsigned_abs().div_ceil(2) {
                    whole + value.signum()
                } else {
                    whole
                }
            };
            let rounded = numbers.as_primitive::<Decimal128Type>().unary::<_, Decimal128Type>(rounded);
            Arc::new(rounded.with_data_type(result.clone()))
        }
        other => return exec_err!("{other} is not a number with a fraction"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Decimal128Array, Float64Array};

    #[test]
    fn decimals_are_rounded_away_from_zero_and_floats_to_even() {
        let halves = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 2.4, -2.6, f64::INFINITY];
        let floats = Arc::new(Float64Array::from(halves.to_vec())) as ArrayRef;
        let floats = values(&floats, &DataType::Float64).unwrap();
        let expected = [0.0, 2.0, 2.0, 0.0, -2.0, -2.0, 2.0, -3.0, f64::INFINITY];
        assert_eq!(floats.as_primitive::<Float64Type>().values().as_ref(), expected);
        let tenths = vec![5, 15, 25, -5, -15, -25, 24, -26, 0, 99];
        let decimals = Decimal128Array::from(tenths).with_data_type(DataType::Decimal128(2, 1));
        let decimals = values(&(Arc::new(decimals) as ArrayRef), &DataType::Decimal128(2, 0)).unwrap();
        assert_eq!(
            decimals.as_primitive::<Decimal128Type>().values().as_ref(),
            [1, 2, 3, -1, -2, -3, 2, -3, 0, 10]
        );
    }
}
