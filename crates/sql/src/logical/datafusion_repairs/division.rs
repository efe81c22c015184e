//! Quotients of decimals: rounded half away from zero, with at least 16 digits after the point if there is room for
//! them, as in PostgreSQL. DataFusion's (55.2) have four more digits than the dividend and are truncated.

use std::sync::Arc;

use datafusion::arrow::array::types::Decimal128Type;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, DecimalType, Field, FieldRef, i256};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err, plan_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::floats::written_decimal;

/// The smallest number of digits after the point of a quotient.
const SCALE: u8 = 16;
/// The number of digits after the point that remain if there are many before it.
const SCALE_MIN: u8 = 6;

/// Plans `/` between decimals, and between decimals and integers.
#[derive(Debug)]
pub(crate) struct DecimalDivision;

impl ExprPlanner for DecimalDivision {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        if expr.op != BinaryOperator::Divide {
            return Ok(PlannerResult::Original(expr));
        }
        let left = written_decimal(&expr.left).unwrap_or_else(|| expr.left.clone());
        let right = written_decimal(&expr.right).unwrap_or_else(|| expr.right.clone());
        // A quotient of two literals is a floating-point number.
        let sides = [(&expr.left, &left), (&expr.right, &right)];
        let is_decimal = sides.iter().any(|(written, _)| is_decimal(written, schema));
        let all_fit = sides
            .iter()
            .all(|(_, side)| side.get_type(schema).is_ok_and(|data_type| digits(&data_type).is_some()));
        if is_decimal && all_fit {
            Ok(PlannerResult::Planned(ScalarUDF::new_from_impl(Division::default()).call(vec![left, right])))
        } else {
            Ok(PlannerResult::Original(expr))
        }
    }
}

fn is_decimal(side: &Expr, schema: &DFSchema) -> bool {
    side.get_type(schema).is_ok_and(|data_type| matches!(data_type, DataType::Decimal128(_, _)))
}

/// Precision and scale of a decimal type that holds all values of a type.
fn digits(data_type: &DataType) -> Option<(u8, u8)> {
    match data_type {
        DataType::Decimal128(precision, scale) => Some((*precision, u8::try_from(*scale).ok()?)),
        DataType::Int8 | DataType::UInt8 => Some((3, 0)),
        DataType::Int16 | DataType::UInt16 => Some((5, 0)),
        DataType::Int32 | DataType::UInt32 => Some((10, 0)),
        DataType::Int64 | DataType::UInt64 => Some((20, 0)),
        _ => None,
    }
}

/// `/`. Queries cannot name it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Division {
    signature: Signature,
}

impl Default for Division {
    fn default() -> Self {
        Division { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl Division {
    fn arguments(types: &[DataType]) -> Result<[(u8, u8); 2]> {
        match types.iter().map(digits).collect::<Vec<_>>().as_slice() {
            [Some(dividend), Some(divisor)] => Ok([*dividend, *divisor]),
            _ => plan_err!("decimals are divided by decimals, not {types:?}"),
        }
    }
}

impl ScalarUDFImpl for Division {
    fn name(&self) -> &str {
        "divide"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let decimal = |(precision, scale)| DataType::Decimal128(precision, scale as i8);
        Ok(Division::arguments(types)?.into_iter().map(decimal).collect())
    }

    /// The operator's display, because it determines column names.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        Ok(format!("{} / {}", arguments[0].schema_name(), arguments[1].schema_name()))
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [(precision, scale), (_, divisor_scale)] = Division::arguments(types)?;
        let before = precision - scale + divisor_scale;
        let wanted = scale.max(divisor_scale).max(SCALE);
        let room = DECIMAL128_MAX_PRECISION.saturating_sub(before);
        let scale = wanted.min(room.max(scale.max(SCALE_MIN)));
        Ok(DataType::Decimal128(DECIMAL128_MAX_PRECISION.min(before.saturating_add(scale)), scale as i8))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = arguments.arg_fields.iter().any(|field| field.is_nullable());
        let types: Vec<_> = arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let quotients = quotients(&arrays[0], &arrays[1], args.return_field.data_type())?;
        Ok(if is_constant {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&quotients, 0)?)
        } else {
            ColumnarValue::Array(Arc::new(quotients))
        })
    }
}

fn quotients(dividends: &ArrayRef, divisors: &ArrayRef, result: &DataType) -> Result<Decimal128Array> {
    let scale_of = |data_type: &DataType| match data_type {
        DataType::Decimal128(_, scale) => Ok(*scale),
        other => exec_err!("{other} is not a decimal type"),
    };
    let scale = scale_of(result)?;
    let digits = scale - scale_of(dividends.data_type())? + scale_of(divisors.data_type())?;
    let factor = i256::from_i128(10).checked_pow(digits.max(0) as u32);
    let too_large =
        || DataFusionError::Execution(format!("a quotient does not fit into {result}; cast it to DOUBLE"));
    let DataType::Decimal128(precision, _) = result else { return Err(too_large()) };
    let quotient = |(dividend, divisor): (Option<i128>, Option<i128>)| {
        let (Some(dividend), Some(divisor)) = (dividend, divisor) else { return Ok(None) };
        if divisor == 0 {
            return Err(datafusion::arrow::error::ArrowError::DivideByZero.into());
        }
        let scaled = factor.and_then(|factor| i256::from_i128(dividend).checked_mul(factor));
        let quotient = scaled.and_then(|scaled| rounded(scaled, i256::from_i128(divisor))?.to_i128());
        let fits =
            |value: &i128| Decimal128Type::validate_decimal_precision(*value, *precision, scale).is_ok();
        quotient.filter(fits).map(Some).ok_or_else(too_large)
    };
    let dividends = dividends.as_primitive::<Decimal128Type>().iter();
    let quotients = dividends.zip(divisors.as_primitive::<Decimal128Type>()).map(quotient);
    Ok(quotients.collect::<Result<Decimal128Array>>()?.with_data_type(result.clone()))
}

/// The quotient, rounded half away from zero.
pub(crate) fn rounded(dividend: i256, divisor: i256) -> Option<i256> {
    let (quotient, rest) = (dividend.checked_div(divisor)?, dividend.checked_rem(divisor)?);
    let twice = rest.checked_mul(i256::from_i128(2))?.checked_abs()?;
    if twice < divisor.checked_abs()? {
        Some(quotient)
    } else if (dividend < i256::ZERO) == (divisor < i256::ZERO) {
        quotient.checked_add(i256::ONE)
    } else {
        quotient.checked_sub(i256::ONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_away_from_zero() {
        let rounded = |dividend, divisor| {
            rounded(i256::from_i128(dividend), i256::from_i128(divisor)).and_then(|value| value.to_i128())
        };
        let cases = [
            (5, 2, 3),
            (-5, 2, -3),
            (5, -2, -3),
            (-5, -2, 3),
            (4, 3, 1),
            (-4, 3, -1),
            (1, 3, 0),
            (-1, 2, -1),
        ];
        for (dividend, divisor, expected) in cases {
            assert_eq!(rounded(dividend, divisor), Some(expected), "{dividend} / {divisor}");
        }
    }

    #[test]
    fn a_quotient_has_sixteen_digits_behind_the_point_where_there_is_room() {
        let of = |one: (u8, i8), other: (u8, i8)| {
            let types = [DataType::Decimal128(one.0, one.1), DataType::Decimal128(other.0, other.1)];
            Division::default().return_type(&types).unwrap()
        };
        assert_eq!(of((10, 2), (10, 2)), DataType::Decimal128(26, 16));
        assert_eq!(of((10, 2), (20, 0)), DataType::Decimal128(24, 16));
        assert_eq!(of((38, 10), (38, 10)), DataType::Decimal128(38, 10));
        assert_eq!(of((30, 0), (30, 0)), DataType::Decimal128(38, 8));
        assert_eq!(of((38, 0), (38, 38)), DataType::Decimal128(38, 6));
        assert_eq!(of((38, 30), (5, 0)), DataType::Decimal128(38, 30));
    }
}
