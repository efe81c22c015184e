//! The difference of two times, and its parts. DataFusion (55.2) has a type of its own for it, of which `extract` gives all minutes
//! instead of those within the hour, and no fraction of a second. PostgreSQL has days, and a rest of less than a day.

use std::sync::Arc;

use datafusion::arrow::array::types::{IntervalMonthDayNano, IntervalMonthDayNanoType};
use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, PrimitiveArray};
use datafusion::arrow::compute::cast as cast_array;
use datafusion::arrow::datatypes::{DataType, FieldRef, Int64Type, IntervalUnit, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use super::arithmetic::rewrite;
use super::unary::{applied, result_field};

const DAY_NS: i64 = 86_400_000_000_000;
const MINUTE_NS: i64 = 60_000_000_000;
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The plan in which parts of durations are those of intervals. Fractions of the second are computed here: DataFusion (55.2) loses
/// those of an interval whose nanoseconds do not fit into 32 bits.
pub(super) fn with_parts(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |part, schema| match part {
        Expr::ScalarFunction(ScalarFunction { func, mut args }) if func.name() == "date_part" => {
            let data_type = args.last().and_then(|argument| argument.get_type(schema).ok());
            let is_duration = matches!(data_type, Some(DataType::Duration(_)));
            if let (true, Some(duration)) = (is_duration, args.last_mut()) {
                *duration = DaysAndTime::function().call(vec![std::mem::take(duration)]);
            }
            let is_interval = is_duration || matches!(data_type, Some(DataType::Interval(_)));
            let seconds = args.first().and_then(Seconds::of).filter(|_| is_interval);
            Ok(match (seconds, args.pop()) {
                (Some(seconds), Some(interval)) => Transformed::yes(seconds.function().call(vec![interval])),
                (_, interval) => {
                    args.extend(interval);
                    let part = Expr::ScalarFunction(ScalarFunction { func, args });
                    if is_duration { Transformed::yes(part) } else { Transformed::no(part) }
                }
            })
        }
        part => Ok(Transformed::no(part)),
    })
}

/// A duration as an interval of days and a rest of less than a day, both with its sign. Queries cannot name it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct DaysAndTime {
    signature: Signature,
}

impl DaysAndTime {
    fn function() -> ScalarUDF {
        ScalarUDF::new_from_impl(DaysAndTime { signature: Signature::any(1, Volatility::Immutable) })
    }
}

/// Durations are not cast to nanoseconds before: those beyond 292 years would not fit.
fn intervals(durations: &ArrayRef) -> Result<ArrayRef> {
    let unit_ns = match durations.data_type() {
        DataType::Duration(TimeUnit::Second) => 1_000_000_000,
        DataType::Duration(TimeUnit::Millisecond) => 1_000_000,
        DataType::Duration(TimeUnit::Microsecond) => 1_000,
        DataType::Duration(TimeUnit::Nanosecond) => 1,
        other => return exec_err!("{other} is not a duration"),
    };
    let day = DAY_NS / unit_ns;
    let interval = |units: i64| match i32::try_from(units / day) {
        Ok(days) => Ok(IntervalMonthDayNano::new(0, days, units % day * unit_ns)),
        Err(_) => exec_err!("a duration has more days than an interval can have"),
    };
    let units = cast_array(durations, &DataType::Int64)?;
    let intervals: PrimitiveArray<IntervalMonthDayNanoType> =
        units.as_primitive::<Int64Type>().try_unary(interval)?;
    Ok(Arc::new(intervals))
}

impl ScalarUDFImpl for DaysAndTime {
    fn name(&self) -> &str {
        "days and time"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(result_field(self.name(), INTERVAL, &arguments))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        applied(&args, intervals)
    }
}

/// The seconds of an interval within the minute, in a smaller unit. Queries cannot name it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Seconds {
    unit_ns: i64,
    signature: Signature,
}

impl Seconds {
    /// Those that the first argument of `date_part` names.
    fn of(part: &Expr) -> Option<Seconds> {
        let Expr::Literal(ScalarValue::Utf8(Some(part)), _) = part else { return None };
        let unit_ns = match part.to_lowercase().as_str() {
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => 1_000_000,
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" => 1_000,
            "nanosecond" | "nanoseconds" | "ns" => 1,
            _ => return None,
        };
        Some(Seconds { unit_ns, signature: Signature::any(1, Volatility::Immutable) })
    }

    fn function(self) -> ScalarUDF {
        ScalarUDF::new_from_impl(self)
    }

    fn values(&self, intervals: &ArrayRef) -> Result<ArrayRef> {
        let intervals = cast_array(intervals, &INTERVAL)?;
        let units = |interval: IntervalMonthDayNano| interval.nanoseconds % MINUTE_NS / self.unit_ns;
        let units: Int64Array = intervals.as_primitive::<IntervalMonthDayNanoType>().unary(units);
        Ok(Arc::new(units))
    }
}

impl ScalarUDFImpl for Seconds {
    fn name(&self) -> &str {
        match self.unit_ns {
            1_000_000 => "milliseconds of interval",
            1_000 => "microseconds of interval",
            _ => "nanoseconds of interval",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(result_field(self.name(), DataType::Int64, &arguments))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        applied(&args, |intervals| self.values(intervals))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{DurationMicrosecondArray, DurationSecondArray};

    use super::*;

    #[test]
    fn durations_beyond_the_range_of_nanoseconds_have_parts() {
        let (days, us) = (365_000, 5_000_001);
        let long = DurationMicrosecondArray::from(vec![Some(-(days * (DAY_NS / 1_000) + us)), None]);
        let expected = IntervalMonthDayNano::new(0, -365_000, -us * 1_000);
        let found = intervals(&(Arc::new(long) as ArrayRef)).unwrap();
        let found: Vec<_> = found.as_primitive::<IntervalMonthDayNanoType>().iter().collect();
        assert_eq!(found, [Some(expected), None]);
        let longest: ArrayRef = Arc::new(DurationSecondArray::from(vec![i64::MAX]));
        assert!(intervals(&longest).unwrap_err().to_string().contains("more days"));
    }
}
