//! `make_timestamp(year, month, day, hour, minute, second)`, and `justify_hours`, `justify_days` and `justify_interval`, as in PostgreSQL.

use std::sync::Arc;

use chrono::NaiveDate;
use datafusion::arrow::array::types::{IntervalMonthDayNano, IntervalMonthDayNanoType};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, TimestampNanosecondArray};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, IntervalUnit, TimeUnit};
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::ScalarUDF;

use super::super::plain_function::plain_function;

const DAY_NS: i64 = 86_400_000_000_000;
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// Returns the functions.
pub(in crate::logical) fn functions() -> impl Iterator<Item = ScalarUDF> {
    const PARTS: &[DataType] = &[
        DataType::Int64,
        DataType::Int64,
        DataType::Int64,
        DataType::Int64,
        DataType::Int64,
        DataType::Float64,
    ];
    let timestamp = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let justified = |name: &'static str, compute| plain_function(&[name], &[&[INTERVAL]], INTERVAL, compute);
    [
        plain_function(&["make_timestamp", "make_timestamptz"], &[PARTS], timestamp, timestamps),
        justified("justify_hours", |intervals| justified_by(&intervals[0], justify_hours)),
        justified("justify_days", |intervals| justified_by(&intervals[0], justify_days)),
        justified("justify_interval", |intervals| {
            justified_by(&intervals[0], |interval| with_one_sign(justify_days(justify_hours(interval)?)?))
        }),
    ]
    .into_iter()
}

fn timestamps(parts: &[ArrayRef]) -> Result<ArrayRef> {
    let [years, months, days, hours, minutes] =
        [0, 1, 2, 3, 4].map(|part| parts[part].as_primitive::<Int64Type>());
    let seconds = parts[5].as_primitive::<Float64Type>();
    let made = |row: usize| {
        if parts.iter().any(|part| part.is_null(row)) {
            return Ok(None);
        }
        let [year, month, day, hour, minute] =
            [years, months, days, hours, minutes].map(|part| part.value(row));
        let second = seconds.value(row);
        let wrong = || {
            exec_datafusion_err!(
                "there is no time {year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"
            )
        };
        let time_ns = time_ns(year, month, day, hour, minute, second).ok_or_else(wrong)?;
        Ok(Some(time_ns))
    };
    Ok(Arc::new((0..years.len()).map(made).collect::<Result<TimestampNanosecondArray>>()?))
}

fn time_ns(year: i64, month: i64, day: i64, hour: i64, minute: i64, second: f64) -> Option<i64> {
    let date = NaiveDate::from_ymd_opt(
        i32::try_from(year).ok()?,
        u32::try_from(month).ok()?,
        u32::try_from(day).ok()?,
    )?;
    // Times are written with microseconds, as everywhere in PostgreSQL.
    let microseconds = (second * 1e6).round();
    let is_time =
        (0..24).contains(&hour) && (0..60).contains(&minute) && (0.0..=60e6).contains(&microseconds);
    // The last moment of a day may be written as the first of the next.
    let is_midnight = hour == 24 && minute == 0 && microseconds == 0.0;
    if !is_time && !is_midnight {
        return None;
    }
    let within_ns = (hour * 3600 + minute * 60) * 1_000_000_000 + microseconds as i64 * 1000;
    date.and_hms_opt(0, 0, 0)?.and_utc().timestamp_nanos_opt()?.checked_add(within_ns)
}

type Justify = fn(IntervalMonthDayNano) -> Option<IntervalMonthDayNano>;

fn justified_by(intervals: &ArrayRef, justify: Justify) -> Result<ArrayRef> {
    let too_long = || exec_datafusion_err!("an interval has too many days or months");
    let justified: PrimitiveArray<IntervalMonthDayNanoType> = intervals
        .as_primitive::<IntervalMonthDayNanoType>()
        .try_unary::<_, IntervalMonthDayNanoType, _>(|interval| justify(interval).ok_or_else(too_long))?;
    Ok(Arc::new(justified))
}

/// Days for each 24 hours, so that days and hours have one sign.
fn justify_hours(interval: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    let days = i64::from(days).checked_add(nanoseconds / DAY_NS)?;
    let (days, rest_ns) = of_one_sign(days, nanoseconds % DAY_NS, DAY_NS);
    Some(IntervalMonthDayNano::new(months, i32::try_from(days).ok()?, rest_ns))
}

/// Months for each 30 days, so that months and days have one sign.
fn justify_days(interval: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    let months = i64::from(months) + i64::from(days / 30);
    let (months, days) = of_one_sign(months, i64::from(days % 30), 30);
    Some(IntervalMonthDayNano::new(i32::try_from(months).ok()?, i32::try_from(days).ok()?, nanoseconds))
}

/// Months, days and hours of one sign: that of the largest which is not 0.
fn with_one_sign(interval: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    let sign = if months != 0 { months.signum() } else { days.signum() };
    let (mut months, mut days, mut rest_ns) = (months, days, nanoseconds);
    if i64::from(sign) * rest_ns < 0 {
        rest_ns += i64::from(sign) * DAY_NS;
        days -= sign;
    }
    if sign * days < 0 {
        days += sign * 30;
        months -= sign;
    }
    Some(IntervalMonthDayNano::new(months, days, rest_ns))
}

/// A number of large units and one of small units, as many of both, in which none is negative if the other is positive.
fn of_one_sign(large: i64, small: i64, small_in_large: i64) -> (i64, i64) {
    if large > 0 && small < 0 {
        (large - 1, small + small_in_large)
    } else if large < 0 && small > 0 {
        (large + 1, small - small_in_large)
    } else {
        (large, small)
    }
}
