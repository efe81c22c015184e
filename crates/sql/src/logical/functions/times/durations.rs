//! The difference of two times, for which DataFusion (55.2) has a type of its own. PostgreSQL has days, and a rest of less than a day.

use std::sync::Arc;

use datafusion::arrow::array::types::{IntervalMonthDayNano, IntervalMonthDayNanoType};
use datafusion::arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::compute::cast as cast_array;
use datafusion::arrow::datatypes::{DataType, Int64Type, TimeUnit};
use datafusion::common::{Result, exec_err};

const DAY_NS: i64 = 86_400_000_000_000;

/// Returns durations as intervals of days and a rest of less than a day, both with their sign. They are not cast to nanoseconds before:
/// those beyond 292 years would not fit.
pub(super) fn as_intervals(durations: &ArrayRef) -> Result<ArrayRef> {
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

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{DurationMicrosecondArray, DurationSecondArray};

    use super::*;

    #[test]
    fn durations_beyond_the_range_of_nanoseconds_have_parts() {
        let (days, us) = (365_000, 5_000_001);
        let long = DurationMicrosecondArray::from(vec![Some(-(days * (DAY_NS / 1_000) + us)), None]);
        let expected = IntervalMonthDayNano::new(0, -365_000, -us * 1_000);
        let found = as_intervals(&(Arc::new(long) as ArrayRef)).unwrap();
        let found: Vec<_> = found.as_primitive::<IntervalMonthDayNanoType>().iter().collect();
        assert_eq!(found, [Some(expected), None]);
        let longest: ArrayRef = Arc::new(DurationSecondArray::from(vec![i64::MAX]));
        assert!(as_intervals(&longest).unwrap_err().to_string().contains("more days"));
    }
}
