//! Local times of a zone. Where clocks are put forward, an hour is missing, and where they are put back, there is an hour twice: as in
//! PostgreSQL, a time of the missing hour is read by the clock before it, and a time of the doubled hour is the later of the two.

use std::sync::Arc;

use chrono::{DateTime, LocalResult, NaiveDateTime, Offset, TimeDelta, TimeZone};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{ArrayRef, AsArray, TimestampNanosecondArray};
use datafusion::arrow::compute::cast as cast_array;
use datafusion::arrow::datatypes::{DataType, FieldRef, TimeUnit, TimestampNanosecondType};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::logical::unary::{applied, result_field};

/// The longest time by which clocks have been put forward at once is a day, in steps that no zone divides.
const STEP: TimeDelta = TimeDelta::minutes(15);
const STEPS_MAX: i32 = 200;

/// Returns the instant of a local time, in UTC.
pub(super) fn utc_of(zone: &Tz, local: NaiveDateTime) -> Option<NaiveDateTime> {
    let offset = match zone.offset_from_local_datetime(&local) {
        LocalResult::Single(offset) => offset,
        LocalResult::Ambiguous(first, second) => {
            if first.fix().local_minus_utc() < second.fix().local_minus_utc() { first } else { second }
        }
        LocalResult::None => (1..=STEPS_MAX).find_map(|steps| {
            let before = local.checked_sub_signed(STEP * steps)?;
            zone.offset_from_local_datetime(&before).latest()
        })?,
    };
    local.checked_sub_offset(offset.fix())
}

/// Returns the instant of a local time in nanoseconds since 1970.
pub(crate) fn utc_ns(zone: &Tz, local_ns: i64) -> Option<i64> {
    let local = DateTime::from_timestamp_nanos(local_ns).naive_utc();
    utc_of(zone, local)?.and_utc().timestamp_nanos_opt()
}

/// Returns the local time of an instant in nanoseconds since 1970, as if it were UTC.
pub(crate) fn local_ns(zone: &Tz, utc_ns: i64) -> Option<i64> {
    let utc = DateTime::from_timestamp_nanos(utc_ns).naive_utc();
    utc.checked_add_offset(zone.offset_from_utc_datetime(&utc).fix())?.and_utc().timestamp_nanos_opt()
}

/// Tells whether the clocks of a zone are ever changed, as far as its name says.
pub(super) fn has_clock_changes(zone: &str) -> bool {
    zone.starts_with(|char: char| char.is_ascii_alphabetic())
        && !["UTC", "Etc/UTC", "GMT", "Z"].contains(&zone)
}

/// A local time as an instant of its zone: what `AT TIME ZONE` makes of a TIMESTAMP. Queries cannot name it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct InstantOfLocalTime {
    data_type: DataType,
    signature: Signature,
}

impl InstantOfLocalTime {
    /// Returns the function whose result has this type, which names the zone.
    pub(crate) fn function(data_type: DataType) -> ScalarUDF {
        ScalarUDF::new_from_impl(InstantOfLocalTime {
            data_type,
            signature: Signature::any(1, Volatility::Immutable),
        })
    }

    fn instants(&self, times: &ArrayRef) -> Result<ArrayRef> {
        let DataType::Timestamp(_, Some(zone)) = &self.data_type else {
            return exec_err!("a time without a zone has no instant");
        };
        let zone_read: Tz = zone.parse()?;
        let local = cast_array(times, &DataType::Timestamp(TimeUnit::Nanosecond, None))?;
        let local = local.as_primitive::<TimestampNanosecondType>();
        let instant = |time| match utc_ns(&zone_read, time) {
            Some(instant) => Ok(instant),
            None => exec_err!("a time is beyond the years 1677 to 2262"),
        };
        let instants: TimestampNanosecondArray = local.try_unary(instant)?;
        Ok(cast_array(&instants.with_timezone(Arc::clone(zone)), &self.data_type)?)
    }
}

impl ScalarUDFImpl for InstantOfLocalTime {
    fn name(&self) -> &str {
        "at time zone"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(result_field(self.name(), self.data_type.clone(), &arguments))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        applied(&args, |times| self.instants(times))
    }
}
