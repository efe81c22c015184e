//! Intervals times and divided by numbers, as in PostgreSQL: what remains of months becomes days of 24 hours, 30 to a month, and what
//! remains of days becomes hours. DataFusion (55.2) has no such operators.

use std::sync::Arc;

use datafusion::arrow::array::types::{Float64Type, Int64Type, IntervalMonthDayNanoType};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray};
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalUnit};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DFSchema, Result, ScalarValue, exec_datafusion_err};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    cast,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const DAYS_OF_MONTH: f64 = 30.0;
const DAY_NS: f64 = 86_400e9;

/// Plans `*` and `/` between intervals and numbers.
#[derive(Debug)]
pub(in crate::logical) struct ScaledIntervals;

impl ExprPlanner for ScaledIntervals {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let divides = match expr.op {
            BinaryOperator::Multiply => false,
            BinaryOperator::Divide => true,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        let (interval, number, data_type) = if is_interval(&left) && right.is_numeric() {
            (expr.left, expr.right, right)
        } else if is_interval(&right) && left.is_numeric() && !divides {
            (expr.right, expr.left, left)
        } else {
            return Ok(PlannerResult::Original(expr));
        };
        // Whole numbers are multiplied exactly.
        let is_exact = data_type.is_integer() && !divides;
        let number = cast(number, if is_exact { DataType::Int64 } else { DataType::Float64 });
        let scaled = Scaled { divides, signature: Signature::any(2, Volatility::Immutable) };
        let call = ScalarUDF::new_from_impl(scaled).call(vec![cast(interval, INTERVAL), number]);
        Ok(PlannerResult::Planned(call))
    }
}

fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(_) | DataType::Duration(_))
}

/// `*` or `/`. Queries cannot name it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Scaled {
    divides: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Scaled {
    fn name(&self) -> &str {
        if self.divides { "interval divided" } else { "interval times" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// The operator's display, because it determines column names.
    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        let operator = if self.divides { '/' } else { '*' };
        Ok(format!("{} {operator} {}", arguments[0].schema_name(), arguments[1].schema_name()))
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let scaled = self.scaled(&arrays)?;
        Ok(if is_constant {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&scaled, 0)?)
        } else {
            ColumnarValue::Array(Arc::new(scaled))
        })
    }
}

impl Scaled {
    fn scaled(&self, arguments: &[ArrayRef]) -> Result<IntervalMonthDayNanoArray> {
        let intervals = arguments[0].as_primitive::<IntervalMonthDayNanoType>();
        let too_long = || exec_datafusion_err!("an interval is too long");
        let whole = arguments[1].as_primitive_opt::<Int64Type>();
        let number = arguments[1].as_primitive_opt::<Float64Type>();
        (0..intervals.len())
            .map(|row| {
                if intervals.is_null(row) || arguments[1].is_null(row) {
                    return Ok(None);
                }
                let interval = intervals.value(row);
                match (whole, number) {
                    (Some(whole), _) => times(interval, whole.value(row)),
                    (None, Some(number)) if self.divides => match number.value(row) {
                        0.0 => return Err(ArrowError::DivideByZero.into()),
                        divisor => scaled(interval, |part| part / divisor),
                    },
                    (None, Some(number)) => scaled(interval, |part| part * number.value(row)),
                    (None, None) => None,
                }
                .map(Some)
                .ok_or_else(too_long)
            })
            .collect()
    }
}

fn times(interval: IntervalMonthDayNano, factor: i64) -> Option<IntervalMonthDayNano> {
    let small = i32::try_from(factor).ok();
    let part = |part: i32| if part == 0 { Some(0) } else { part.checked_mul(small?) };
    let nanoseconds = interval.nanoseconds.checked_mul(factor)?;
    Some(IntervalMonthDayNano::new(part(interval.months)?, part(interval.days)?, nanoseconds))
}

fn scaled(interval: IntervalMonthDayNano, of: impl Fn(f64) -> f64) -> Option<IntervalMonthDayNano> {
    // A remainder that only the division has made is none.
    let clean = |number: f64| (number * 1e6).round_ties_even() / 1e6;
    let months = of(f64::from(interval.months));
    let days_of_months = clean((months - months.trunc()) * DAYS_OF_MONTH);
    let days = of(f64::from(interval.days));
    let rest_of_days =
        clean((days - days.trunc() + days_of_months - days_of_months.trunc()) * DAY_NS / 1e9) * 1e9;
    let whole_days = (rest_of_days / DAY_NS).trunc();
    let days = days.trunc() + days_of_months.trunc() + whole_days;
    let rest_ns = of(interval.nanoseconds as f64) + rest_of_days - whole_days * DAY_NS;
    // PostgreSQL has microseconds.
    let rest_ns = (rest_ns / 1e3).round_ties_even() * 1e3;
    let fits = |number: f64| number.abs() <= f64::from(i32::MAX);
    (fits(months) && fits(days) && rest_ns.abs() < 9.2e18)
        .then(|| IntervalMonthDayNano::new(months.trunc() as i32, days as i32, rest_ns as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are those of PostgreSQL 15.
    #[test]
    fn remainders_become_days_and_hours() {
        let of = |months, days, ns: i64| IntervalMonthDayNano::new(months, days, ns);
        let hour_ns = 3_600_000_000_000;
        // '1 month' * 1.5, '1 day' / 2, '1 mon 1 day 01:00' * 2.5, '1 month' / 30
        assert_eq!(scaled(of(1, 0, 0), |part| part * 1.5), Some(of(1, 15, 0)));
        assert_eq!(scaled(of(0, 1, 0), |part| part / 2.0), Some(of(0, 0, 12 * hour_ns)));
        assert_eq!(scaled(of(1, 1, hour_ns), |part| part * 2.5), Some(of(2, 17, 14 * hour_ns + hour_ns / 2)));
        assert_eq!(scaled(of(1, 0, 0), |part| part / 30.0), Some(of(0, 1, 0)));
        assert_eq!(times(of(1, 2, 3), -4), Some(of(-4, -8, -12)));
        assert_eq!(times(of(0, 0, i64::MAX), 2), None);
    }
}
