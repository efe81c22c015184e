//! Differences of times: `age(a, b)` as in PostgreSQL, `date_diff(unit, from, to)`, which counts the boundaries of units that are passed, and
//! `timestampdiff(unit, from, to)`, which counts whole units. `datediff(a, b)` counts days, from the second to the first.

use std::sync::Arc;

use chrono::{DateTime, Datelike, NaiveDateTime, Timelike};
use datafusion::arrow::array::types::{IntervalMonthDayNano, IntervalMonthDayNanoType};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, PrimitiveArray};
use datafusion::arrow::compute::binary;
use datafusion::arrow::datatypes::{DataType, IntervalUnit, TimeUnit, TimestampNanosecondType};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ScalarUDF;

use super::super::plain_function::{checked_function, plain_function};
use super::time_parts::text_of;
use crate::logical::time_units::TimePart;
use crate::refusal::refuse;

const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);
const DAY_NS: i64 = 86_400_000_000_000;

/// Returns the functions.
pub(in crate::logical) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let interval = DataType::Interval(IntervalUnit::MonthDayNano);
    let of_unit: &[DataType] = &[DataType::Utf8, TIMESTAMP, TIMESTAMP];
    let of_times: &[DataType] = &[TIMESTAMP, TIMESTAMP];
    [
        plain_function(&["age"], &[of_times], interval, ages),
        checked_function(&["date_diff"], &[of_unit, of_times], DataType::Int64, check_unit, boundaries),
        checked_function(&["datediff"], &[of_unit, of_times], DataType::Int64, check_unit, boundaries),
        checked_function(&["timestampdiff"], &[of_unit], DataType::Int64, check_unit, whole_units),
    ]
    .into_iter()
}

fn ages(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [later, earlier] =
        [&arguments[0], &arguments[1]].map(|times| times.as_primitive::<TimestampNanosecondType>());
    let ages: PrimitiveArray<IntervalMonthDayNanoType> = binary(later, earlier, |later, earlier| {
        if later >= earlier {
            age(later, earlier)
        } else {
            let IntervalMonthDayNano { months, days, nanoseconds } = age(earlier, later);
            IntervalMonthDayNano::new(-months, -days, -nanoseconds)
        }
    })?;
    Ok(Arc::new(ages))
}

/// The months, days and the rest from one time to a later one. A day that the difference has too few of is taken from the month of the
/// earlier one.
fn age(later_ns: i64, earlier_ns: i64) -> IntervalMonthDayNano {
    let (later, earlier) = (local(later_ns), local(earlier_ns));
    let mut months = months_of(later) - months_of(earlier);
    let mut days = later.day() as i32 - earlier.day() as i32;
    let mut rest_ns = later_ns.rem_euclid(DAY_NS) - earlier_ns.rem_euclid(DAY_NS);
    if rest_ns < 0 {
        rest_ns += DAY_NS;
        days -= 1;
    }
    if days < 0 {
        days += i32::from(earlier.num_days_in_month());
        months -= 1;
    }
    IntervalMonthDayNano::new(months as i32, days, rest_ns)
}

fn boundaries(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    if let [later, earlier] = arguments {
        let [later, earlier] = [later, earlier].map(|times| times.as_primitive::<TimestampNanosecondType>());
        let days = |time_ns: i64| time_ns.div_euclid(DAY_NS);
        let differences: Int64Array = binary(later, earlier, |later, earlier| days(later) - days(earlier))?;
        return Ok(Arc::new(differences));
    }
    by_unit(arguments, |unit, from_ns, to_ns| number(unit, to_ns) - number(unit, from_ns))
}

fn whole_units(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    by_unit(arguments, |unit, from_ns, to_ns| match unit {
        Unit::Ns(unit_ns) => whole(from_ns, to_ns, unit_ns),
        Unit::Weeks => whole(from_ns, to_ns, 7 * DAY_NS),
        Unit::Months(count) => whole_months(from_ns, to_ns) / count,
    })
}

/// A unit of which all have the same length, or which is so many months.
#[derive(Clone, Copy)]
enum Unit {
    Ns(i64),
    /// They begin with Monday.
    Weeks,
    Months(i64),
}

/// Computes something of two times for each row, whose unit is the first argument.
fn by_unit(arguments: &[ArrayRef], compute: fn(Unit, i64, i64) -> i64) -> Result<ArrayRef> {
    let units = arguments[0].as_string::<i32>();
    let [from, to] =
        [&arguments[1], &arguments[2]].map(|times| times.as_primitive::<TimestampNanosecondType>());
    let row = |row: usize| {
        let is_null = units.is_null(row) || from.is_null(row) || to.is_null(row);
        if is_null {
            return Ok(None);
        }
        let unit = unit_named(units.value(row))?;
        Ok(Some(compute(unit, from.value(row), to.value(row))))
    };
    Ok(Arc::new((0..units.len()).map(row).collect::<Result<Int64Array>>()?))
}

fn check_unit(first: &ScalarValue) -> Result<()> {
    text_of(first).map_or(Ok(()), |name| unit_named(name).map(drop))
}

fn unit_named(name: &str) -> Result<Unit> {
    TimePart::named(name).and_then(unit_of).ok_or_else(|| {
        let way_out = format!("the units are {}", TimePart::listed(true));
        refuse(format!("'{name}' is not a unit of which differences are counted"), &way_out)
    })
}

fn unit_of(part: TimePart) -> Option<Unit> {
    Some(match part {
        TimePart::Microsecond => Unit::Ns(1000),
        TimePart::Millisecond => Unit::Ns(1_000_000),
        TimePart::Second => Unit::Ns(1_000_000_000),
        TimePart::Minute => Unit::Ns(60_000_000_000),
        TimePart::Hour => Unit::Ns(3_600_000_000_000),
        TimePart::Day => Unit::Ns(DAY_NS),
        TimePart::Week => Unit::Weeks,
        TimePart::Month => Unit::Months(1),
        TimePart::Quarter => Unit::Months(3),
        TimePart::Year => Unit::Months(12),
        TimePart::Decade => Unit::Months(120),
        TimePart::Century => Unit::Months(1200),
        TimePart::Millennium => Unit::Months(12_000),
        _ => return None,
    })
}

/// The number of the unit in which a time is.
fn number(unit: Unit, time_ns: i64) -> i64 {
    match unit {
        Unit::Ns(unit_ns) => time_ns.div_euclid(unit_ns),
        // 1970 began with a Thursday.
        Unit::Weeks => (time_ns.div_euclid(DAY_NS) + 3).div_euclid(7),
        Unit::Months(count) => months_of(local(time_ns)).div_euclid(count),
    }
}

/// Whole units from one time to another; the difference itself may not fit 64 bits.
fn whole(from_ns: i64, to_ns: i64, unit_ns: i64) -> i64 {
    ((i128::from(to_ns) - i128::from(from_ns)) / i128::from(unit_ns)) as i64
}

fn whole_months(from_ns: i64, to_ns: i64) -> i64 {
    let (from, to) = (local(from_ns), local(to_ns));
    let within =
        |time: NaiveDateTime| (time.day(), time.time().num_seconds_from_midnight(), time.nanosecond());
    let months = months_of(to) - months_of(from);
    if to_ns >= from_ns {
        months - i64::from(within(to) < within(from))
    } else {
        months + i64::from(within(to) > within(from))
    }
}

fn local(time_ns: i64) -> NaiveDateTime {
    DateTime::from_timestamp_nanos(time_ns).naive_utc()
}

fn months_of(time: NaiveDateTime) -> i64 {
    i64::from(time.year()) * 12 + i64::from(time.month0())
}
