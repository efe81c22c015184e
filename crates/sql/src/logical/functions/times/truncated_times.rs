//! `date_trunc`, as in PostgreSQL. That of DataFusion (55.2), which does most of the work, knows no plurals, decades and centuries, and
//! truncates no intervals.

use std::sync::Arc;

use chrono::{DateTime, Datelike, NaiveDate};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::types::{IntervalMonthDayNano, IntervalMonthDayNanoType};
use datafusion::arrow::array::{ArrayRef, AsArray, PrimitiveArray, TimestampNanosecondArray};
use datafusion::arrow::compute::cast as cast_array;
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, IntervalUnit, TimeUnit, TimestampNanosecondType,
};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::durations::as_intervals;
use super::time_parts::text_of;
use crate::logical::casts::local_times::{local_ns, utc_ns};
use crate::logical::time_units::{TimePart, first_year};
use crate::refusal::refuse;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const TIMESTAMP: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);

/// Returns the function.
pub(crate) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(TruncatedTime {
        by_datafusion: datafusion::functions::datetime::date_trunc(),
        aliases: vec!["datetrunc".to_owned()],
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TruncatedTime {
    by_datafusion: Arc<ScalarUDF>,
    aliases: Vec<String>,
    signature: Signature,
}

fn unit_of(value: &ScalarValue) -> Result<TimePart> {
    let Some(name) = text_of(value) else {
        return Err(refuse(
            "date_trunc needs a constant unit",
            "write the unit itself, as in date_trunc('hour', time)",
        ));
    };
    TimePart::named(name).filter(|unit| unit.truncates()).ok_or_else(|| {
        let way_out = format!("the units are {}", TimePart::listed(true));
        refuse(format!("date_trunc has no unit '{name}'"), &way_out)
    })
}

fn by_years(unit: TimePart, times: &ArrayRef) -> Result<ArrayRef> {
    let zone = match times.data_type() {
        DataType::Timestamp(_, zone) => zone.clone(),
        other => return exec_err!("date_trunc does not truncate {other} to a {}", unit.name()),
    };
    let zone_read: Option<Tz> = zone.as_deref().map(str::parse).transpose()?;
    let instants = cast_array(times, &DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()))?;
    let first = |instant: i64| {
        let local = zone_read.as_ref().map_or(Some(instant), |zone| local_ns(zone, instant))?;
        let year = DateTime::from_timestamp_nanos(local).year();
        let day = NaiveDate::from_ymd_opt(first_year(unit, year), 1, 1)?;
        let local = day.and_hms_opt(0, 0, 0)?.and_utc().timestamp_nanos_opt()?;
        zone_read.as_ref().map_or(Some(local), |zone| utc_ns(zone, local))
    };
    let truncated = |instant| match first(instant) {
        Some(truncated) => Ok(truncated),
        None => exec_err!("a {} begins before 1677, where TIMESTAMP begins", unit.name()),
    };
    let truncated: TimestampNanosecondArray =
        instants.as_primitive::<TimestampNanosecondType>().try_unary(truncated)?;
    Ok(cast_array(&truncated.with_timezone_opt(zone), times.data_type())?)
}

fn intervals(unit: TimePart, intervals: &ArrayRef) -> Result<ArrayRef> {
    let months = |count: i32| -> Result<ArrayRef> {
        let truncated =
            |interval: IntervalMonthDayNano| IntervalMonthDayNano::new(interval.months / count * count, 0, 0);
        let truncated: PrimitiveArray<IntervalMonthDayNanoType> =
            intervals.as_primitive::<IntervalMonthDayNanoType>().unary(truncated);
        Ok(Arc::new(truncated))
    };
    let rest = |unit_ns: i64| -> Result<ArrayRef> {
        let truncated = |IntervalMonthDayNano { months, days, nanoseconds }: IntervalMonthDayNano| {
            let kept = if unit_ns == 0 { 0 } else { nanoseconds / unit_ns * unit_ns };
            IntervalMonthDayNano::new(months, days, kept)
        };
        let truncated: PrimitiveArray<IntervalMonthDayNanoType> =
            intervals.as_primitive::<IntervalMonthDayNanoType>().unary(truncated);
        Ok(Arc::new(truncated))
    };
    match unit {
        TimePart::Millennium => months(12_000),
        TimePart::Century => months(1200),
        TimePart::Decade => months(120),
        TimePart::Year => months(12),
        TimePart::Quarter => months(3),
        TimePart::Month => months(1),
        TimePart::Day => rest(0),
        TimePart::Hour => rest(3_600_000_000_000),
        TimePart::Minute => rest(60_000_000_000),
        TimePart::Second => rest(1_000_000_000),
        TimePart::Millisecond => rest(1_000_000),
        TimePart::Microsecond => rest(1000),
        other => exec_err!("date_trunc does not truncate an INTERVAL to a {}", other.name()),
    }
}

impl ScalarUDFImpl for TruncatedTime {
    fn name(&self) -> &str {
        "date_trunc"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let [unit, time] = arguments else {
            return plan_err!("date_trunc takes a unit and a time: date_trunc('hour', time)");
        };
        let is_name = unit.is_string() || unit.is_null();
        let time = match time {
            DataType::Interval(_) => Some(INTERVAL),
            DataType::Date32 | DataType::Date64 | DataType::Null => Some(TIMESTAMP),
            text if text.is_string() => Some(TIMESTAMP),
            time if time.is_temporal() => Some(time.clone()),
            _ => None,
        };
        match time.filter(|_| is_name) {
            Some(time) => Ok(vec![DataType::Utf8, time]),
            None => Err(refuse(
                "date_trunc takes the name of a unit and a time",
                "write date_trunc('hour', time); numbers become times with to_timestamp_seconds(n) or \
                 to_timestamp_millis(n)",
            )),
        }
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [_, DataType::Duration(_)] => Ok(INTERVAL),
            [_, time] => Ok(time.clone()),
            _ => plan_err!("date_trunc takes a unit and a time"),
        }
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        if let Some(Some(unit)) = arguments.scalar_arguments.first() {
            unit_of(unit)?;
        }
        let types: Vec<_> = arguments.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let is_nullable = arguments.arg_fields.get(1).is_none_or(|time| time.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, is_nullable)))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(unit), time] = args.args.as_slice() else {
            return exec_err!("date_trunc needs a constant unit");
        };
        let unit = unit_of(unit)?;
        let in_years = matches!(unit, TimePart::Decade | TimePart::Century | TimePart::Millennium);
        let truncated = |times: &ArrayRef| match times.data_type() {
            DataType::Duration(_) => intervals(unit, &as_intervals(times)?),
            DataType::Interval(_) => intervals(unit, times),
            _ => by_years(unit, times),
        };
        let is_interval = matches!(time.data_type(), DataType::Interval(_) | DataType::Duration(_));
        if !in_years && !is_interval {
            args.args[0] = ColumnarValue::Scalar(ScalarValue::from(unit.name()));
            return self.by_datafusion.inner().invoke_with_args(args);
        }
        match time {
            ColumnarValue::Array(times) => Ok(ColumnarValue::Array(truncated(times)?)),
            ColumnarValue::Scalar(time) => {
                let computed = truncated(&time.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&computed, 0)?))
            }
        }
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.by_datafusion.inner().output_ordering(inputs)
    }
}
