//! `date_part` and `extract`, as in PostgreSQL. DataFusion (55.2) drops the fraction of seconds and milliseconds, gives all minutes of a
//! duration instead of those within the hour, counts twelve months as 360 days, and has no decades, centuries and offsets.

use std::sync::Arc;

use chrono::{DateTime, Offset, TimeZone};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::types::{IntervalMonthDayNano, IntervalMonthDayNanoType};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int32Array, Int64Array};
use datafusion::arrow::compute::{DatePart, cast as cast_array, date_part};
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Float64Type, Int32Type, Int64Type, IntervalUnit, TimeUnit,
    TimestampNanosecondType,
};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::durations::as_intervals;
use crate::logical::time_units::{TimePart, number_of};
use crate::refusal::refuse;

const MINUTE_NS: i64 = 60_000_000_000;
const DAY_NS: i64 = 86_400_000_000_000;
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
/// The Julian day of 1970-01-01.
const JULIAN_1970: f64 = 2_440_588.0;

/// Returns the function.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(PartOfTime {
        aliases: vec!["datepart".to_owned()],
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

/// Plans `extract(part FROM time)`.
#[derive(Debug)]
pub(in crate::logical) struct Extract;

impl ExprPlanner for Extract {
    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function()), args))))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct PartOfTime {
    aliases: Vec<String>,
    signature: Signature,
}

/// Returns the text of a constant.
pub(crate) fn text_of(value: &ScalarValue) -> Option<&str> {
    value.try_as_str().flatten()
}

fn part_of(value: Option<&ScalarValue>) -> Result<TimePart> {
    let Some(name) = value.and_then(text_of) else {
        return Err(refuse(
            "extract needs a constant part",
            "write the part itself, as in extract(hour FROM time), or CASE WHEN ... THEN extract(...) END",
        ));
    };
    TimePart::named(name).ok_or_else(|| {
        let way_out = format!("the parts are {}", TimePart::listed(false));
        refuse(format!("extract has no part '{name}'"), &way_out)
    })
}

fn result_type(part: TimePart) -> DataType {
    match part {
        TimePart::Second | TimePart::Millisecond | TimePart::Epoch | TimePart::Julian => DataType::Float64,
        TimePart::Microsecond | TimePart::Nanosecond => DataType::Int64,
        _ => DataType::Int32,
    }
}

/// Returns nanoseconds in a larger unit. Whole microseconds are divided as such: they fit into a floating-point number.
fn in_units(ns: i128, unit_ns: i128) -> f64 {
    if ns % 1000 == 0 { (ns / 1000) as f64 / (unit_ns / 1000) as f64 } else { ns as f64 / unit_ns as f64 }
}

/// Returns the part of each time, date or time of day.
fn parts_of_times(part: TimePart, times: &ArrayRef) -> Result<ArrayRef> {
    let field =
        |of| -> Result<Int32Array> { Ok(date_part(times.as_ref(), of)?.as_primitive::<Int32Type>().clone()) };
    let by_year = || -> Result<ArrayRef> {
        Ok(Arc::new(field(DatePart::Year)?.unary::<_, Int32Type>(|year| number_of(part, year))))
    };
    Ok(match part {
        TimePart::Second => {
            Arc::new(seconds_ns(times)?.unary::<_, Float64Type>(|ns| in_units(ns.into(), 1_000_000_000)))
        }
        TimePart::Millisecond => {
            Arc::new(seconds_ns(times)?.unary::<_, Float64Type>(|ns| in_units(ns.into(), 1_000_000)))
        }
        TimePart::Microsecond => Arc::new(seconds_ns(times)?.unary::<_, Int64Type>(|ns| ns / 1000)),
        TimePart::Nanosecond => Arc::new(seconds_ns(times)?),
        TimePart::Minute => Arc::new(field(DatePart::Minute)?),
        TimePart::Hour => Arc::new(field(DatePart::Hour)?),
        TimePart::Day => Arc::new(field(DatePart::Day)?),
        TimePart::Week => Arc::new(field(DatePart::Week)?),
        TimePart::Month => Arc::new(field(DatePart::Month)?),
        TimePart::Quarter => Arc::new(field(DatePart::Quarter)?),
        TimePart::Year => Arc::new(field(DatePart::Year)?),
        TimePart::IsoYear => Arc::new(field(DatePart::YearISO)?),
        TimePart::DayOfWeek => Arc::new(field(DatePart::DayOfWeekSunday0)?),
        TimePart::IsoDayOfWeek => Arc::new(field(DatePart::DayOfWeekMonday1)?),
        TimePart::DayOfYear => Arc::new(field(DatePart::DayOfYear)?),
        TimePart::Decade | TimePart::Century | TimePart::Millennium => by_year()?,
        TimePart::Epoch => epochs(times)?,
        TimePart::Julian => julian_days(times)?,
        TimePart::Timezone => Arc::new(offsets(times)?),
        TimePart::TimezoneHour => Arc::new(offsets(times)?.unary::<_, Int32Type>(|offset| offset / 3600)),
        TimePart::TimezoneMinute => {
            Arc::new(offsets(times)?.unary::<_, Int32Type>(|offset| offset % 3600 / 60))
        }
    })
}

/// Returns the nanoseconds within the minute.
fn seconds_ns(times: &ArrayRef) -> Result<Int64Array> {
    if matches!(times.data_type(), DataType::Date32 | DataType::Date64) {
        return Ok(date_part(times.as_ref(), DatePart::Day)?.as_primitive::<Int32Type>().unary(|_| 0));
    }
    let seconds = date_part(times.as_ref(), DatePart::Second)?;
    let fractions = date_part(times.as_ref(), DatePart::Nanosecond)?;
    let pairs = seconds.as_primitive::<Int32Type>().iter().zip(fractions.as_primitive::<Int32Type>());
    let whole = pairs.map(|(seconds, ns)| Some(i64::from(seconds?) * 1_000_000_000 + i64::from(ns?)));
    Ok(whole.collect())
}

fn epochs(times: &ArrayRef) -> Result<ArrayRef> {
    let (values, unit_ns) = match times.data_type() {
        DataType::Date32 => (cast_array(&cast_array(times, &DataType::Int32)?, &DataType::Int64)?, DAY_NS),
        DataType::Date64 => (cast_array(times, &DataType::Int64)?, 1_000_000),
        DataType::Time32(unit) => {
            (cast_array(&cast_array(times, &DataType::Int32)?, &DataType::Int64)?, unit_ns(*unit))
        }
        DataType::Time64(unit) | DataType::Timestamp(unit, _) => {
            (cast_array(times, &DataType::Int64)?, unit_ns(*unit))
        }
        other => return exec_err!("{other} has no epoch"),
    };
    let seconds = |value: i64| in_units(i128::from(value) * i128::from(unit_ns), 1_000_000_000);
    let seconds: Float64Array = values.as_primitive::<Int64Type>().unary(seconds);
    Ok(Arc::new(seconds))
}

fn unit_ns(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// Days since the beginning of the Julian calendar, which change at local midnight.
fn julian_days(times: &ArrayRef) -> Result<ArrayRef> {
    let offsets = offsets(times)?;
    let epochs = epochs(times)?;
    let epochs = epochs.as_primitive::<Float64Type>();
    let days = epochs.iter().zip(&offsets).map(|(epoch, offset)| {
        let local = epoch? + f64::from(offset?);
        Some(JULIAN_1970 + local / 86_400.0)
    });
    Ok(Arc::new(days.collect::<Float64Array>()))
}

/// Returns the seconds by which the local time is ahead of UTC.
fn offsets(times: &ArrayRef) -> Result<Int32Array> {
    let DataType::Timestamp(_, Some(zone)) = times.data_type() else {
        return Ok((0..times.len()).map(|row| times.is_valid(row).then_some(0)).collect());
    };
    let zone_read: Tz = zone.parse()?;
    let instants = cast_array(times, &DataType::Timestamp(TimeUnit::Nanosecond, Some(Arc::clone(zone))))?;
    let offset = |instant| {
        let utc = DateTime::from_timestamp_nanos(instant).naive_utc();
        zone_read.offset_from_utc_datetime(&utc).fix().local_minus_utc()
    };
    Ok(instants.as_primitive::<TimestampNanosecondType>().unary(offset))
}

/// Returns the part of each interval.
fn parts_of_intervals(part: TimePart, intervals: &ArrayRef) -> Result<ArrayRef> {
    let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
    let whole = |of: &dyn Fn(IntervalMonthDayNano) -> i64| -> Result<ArrayRef> {
        let values: Int64Array = intervals.unary(of);
        Ok(cast_array(&values, &result_type(part))?)
    };
    let fraction = |of: &dyn Fn(IntervalMonthDayNano) -> f64| -> Result<ArrayRef> {
        Ok(Arc::new(intervals.unary::<_, Float64Type>(of)))
    };
    let years = |interval: IntervalMonthDayNano| i64::from(interval.months / 12);
    match part {
        TimePart::Nanosecond => whole(&|interval| interval.nanoseconds % MINUTE_NS),
        TimePart::Microsecond => whole(&|interval| interval.nanoseconds % MINUTE_NS / 1000),
        TimePart::Millisecond => {
            fraction(&|interval| in_units((interval.nanoseconds % MINUTE_NS).into(), 1_000_000))
        }
        TimePart::Second => {
            fraction(&|interval| in_units((interval.nanoseconds % MINUTE_NS).into(), 1_000_000_000))
        }
        TimePart::Minute => whole(&|interval| interval.nanoseconds / MINUTE_NS % 60),
        TimePart::Hour => whole(&|interval| interval.nanoseconds / (60 * MINUTE_NS)),
        TimePart::Day => whole(&|interval| interval.days.into()),
        TimePart::Month => whole(&|interval| (interval.months % 12).into()),
        TimePart::Quarter => whole(&|interval| (interval.months % 12 / 3 + 1).into()),
        TimePart::Year => whole(&years),
        TimePart::Decade => whole(&|interval| years(interval) / 10),
        TimePart::Century => whole(&|interval| years(interval) / 100),
        TimePart::Millennium => whole(&|interval| years(interval) / 1000),
        TimePart::Epoch => fraction(&epoch_of_interval),
        other => exec_err!("an INTERVAL has no part '{}'", other.name()),
    }
}

/// Years have 365.25 days, and months 30.
fn epoch_of_interval(interval: IntervalMonthDayNano) -> f64 {
    let quarters_of_days = i128::from(interval.months / 12) * 1461 + i128::from(interval.months % 12) * 120;
    let ns = quarters_of_days * i128::from(DAY_NS / 4)
        + i128::from(interval.days) * i128::from(DAY_NS)
        + i128::from(interval.nanoseconds);
    in_units(ns, 1_000_000_000)
}

impl ScalarUDFImpl for PartOfTime {
    fn name(&self) -> &str {
        "date_part"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let [part, time] = arguments else {
            return plan_err!("extract takes a part and a time: extract(hour FROM time)");
        };
        if !part.is_string() && !part.is_null() {
            return Err(refuse(
                "date_part takes the name of a part and a time",
                "write date_part('hour', time) or extract(hour FROM time)",
            ));
        }
        let time = match time {
            DataType::Interval(_) => INTERVAL,
            DataType::Null => DataType::Timestamp(TimeUnit::Nanosecond, None),
            text if text.is_string() => DataType::Timestamp(TimeUnit::Nanosecond, None),
            time if time.is_temporal() => time.clone(),
            _ => {
                return Err(refuse(
                    "extract takes a date, a time or an interval",
                    "numbers become times with to_timestamp_seconds(n) or to_timestamp_millis(n)",
                ));
            }
        };
        Ok(vec![DataType::Utf8, time])
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        exec_err!("the type of date_part depends on the part")
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let part = part_of(arguments.scalar_arguments.first().copied().flatten())?;
        let is_nullable = arguments.arg_fields.get(1).is_none_or(|time| time.is_nullable());
        Ok(Arc::new(Field::new(self.name(), result_type(part), is_nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(part), time] = args.args.as_slice() else {
            return exec_err!("date_part needs a constant part");
        };
        let part = part_of(Some(part))?;
        let parts = |times: &ArrayRef| match times.data_type() {
            DataType::Duration(_) => parts_of_intervals(part, &as_intervals(times)?),
            DataType::Interval(_) => parts_of_intervals(part, times),
            _ => parts_of_times(part, times),
        };
        match time {
            ColumnarValue::Array(times) => Ok(ColumnarValue::Array(parts(times)?)),
            ColumnarValue::Scalar(time) => {
                let computed = parts(&time.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&computed, 0)?))
            }
        }
    }
}
