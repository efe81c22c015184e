//! Values without a text: dates and times outside the calendar (beyond the year 262,000), and durations that are too
//! long for one. Other programs write such values to Parquet and Arrow files, and casts make them.

use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions as convert;
use arrow_array::types::{
    Date32Type, Date64Type, DurationMillisecondType, DurationSecondType, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrowPrimitiveType, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, TimeUnit};

/// A value without a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unrepresentable {
    /// The row.
    pub row: usize,
    /// The column, and what is wrong.
    pub reason: String,
}

/// The rows with values that have no text, ascending, each once. Columns of most types are not looked at.
pub(crate) fn unrepresentable(rows: &RecordBatch) -> Vec<Unrepresentable> {
    let mut found = Vec::new();
    for (field, column) in rows.schema_ref().fields().iter().zip(rows.columns()) {
        found.extend(rows_without_text(column).into_iter().map(|row| Unrepresentable {
            row,
            reason: format!("column '{}': a {} is out of range", field.name(), column.data_type()),
        }));
    }
    found.sort_by_key(|found| found.row);
    found.dedup_by_key(|found| found.row);
    found
}

fn rows_without_text(column: &dyn Array) -> Vec<usize> {
    use DataType::{Date32, Date64, Duration, Time32, Time64, Timestamp};
    match column.data_type() {
        Date32 => wrong::<Date32Type>(column, |value| convert::date32_to_datetime(value).is_some()),
        Date64 => wrong::<Date64Type>(column, |value| convert::date64_to_datetime(value).is_some()),
        Time32(TimeUnit::Second) => {
            wrong::<Time32SecondType>(column, |value| convert::time32s_to_time(value).is_some())
        }
        Time32(_) => {
            wrong::<Time32MillisecondType>(column, |value| convert::time32ms_to_time(value).is_some())
        }
        Time64(TimeUnit::Microsecond) => {
            wrong::<Time64MicrosecondType>(column, |value| convert::time64us_to_time(value).is_some())
        }
        Time64(_) => {
            wrong::<Time64NanosecondType>(column, |value| convert::time64ns_to_time(value).is_some())
        }
        Timestamp(TimeUnit::Second, _) => {
            wrong::<TimestampSecondType>(column, |value| convert::timestamp_s_to_datetime(value).is_some())
        }
        Timestamp(TimeUnit::Millisecond, _) => wrong::<TimestampMillisecondType>(column, |value| {
            convert::timestamp_ms_to_datetime(value).is_some()
        }),
        Timestamp(TimeUnit::Microsecond, _) => wrong::<TimestampMicrosecondType>(column, |value| {
            convert::timestamp_us_to_datetime(value).is_some()
        }),
        Duration(TimeUnit::Second) => {
            wrong::<DurationSecondType>(column, |value| convert::try_duration_s_to_duration(value).is_some())
        }
        Duration(TimeUnit::Millisecond) => wrong::<DurationMillisecondType>(column, |value| {
            convert::try_duration_ms_to_duration(value).is_some()
        }),
        nested if nested.is_nested() && holds_time(nested) => wrong_in_nested(column),
        _ => Vec::new(),
    }
}

fn wrong<T: ArrowPrimitiveType>(column: &dyn Array, is_good: impl Fn(T::Native) -> bool) -> Vec<usize> {
    let values = column.as_primitive::<T>();
    if values.values().iter().all(|value| is_good(*value)) {
        return Vec::new();
    }
    (0..values.len()).filter(|row| values.is_valid(*row) && !is_good(values.value(*row))).collect()
}

fn wrong_in_nested(column: &dyn Array) -> Vec<usize> {
    let strict = FormatOptions::new().with_display_error(false);
    let Ok(formatter) = ArrayFormatter::try_new(column, &strict) else { return Vec::new() };
    let has_text = |row: usize| formatter.value(row).try_to_string().is_ok();
    (0..column.len()).filter(|row| column.is_valid(*row) && !has_text(*row)).collect()
}

/// Whether a part of a nested value can be such a date or time.
fn holds_time(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| holds_time(field.data_type())),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => holds_time(field.data_type()),
        DataType::Timestamp(unit, _) => *unit != TimeUnit::Nanosecond,
        other => other.is_temporal(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        ArrayRef, Date32Array, DurationSecondArray, Int64Array, ListArray, TimestampSecondArray,
    };

    use super::*;

    #[test]
    fn rows_without_a_text_are_found_once() {
        let days = Arc::new(Date32Array::from(vec![Some(20_000), Some(i32::MAX), None, Some(1)])) as ArrayRef;
        let times =
            Arc::new(TimestampSecondArray::from(vec![Some(0), Some(i64::MIN), Some(1), Some(i64::MAX)]));
        let spans = Arc::new(DurationSecondArray::from(vec![Some(i64::MAX), Some(1), None, Some(1)]));
        let numbers = Arc::new(Int64Array::from(vec![i64::MAX; 4]));
        let rows = RecordBatch::try_from_iter_with_nullable([
            ("d", days, true),
            ("t", times as ArrayRef, true),
            ("s", spans as ArrayRef, true),
            ("n", numbers as ArrayRef, true),
        ]);
        let found = unrepresentable(&rows.unwrap());
        let rows: Vec<usize> = found.iter().map(|found| found.row).collect();
        assert_eq!(rows, [0, 1, 3]);
        assert_eq!(found[1].reason, "column 'd': a Date32 is out of range");
    }

    #[test]
    fn lists_are_looked_into() {
        let lists = ListArray::from_iter_primitive::<Date32Type, _, _>([
            Some(vec![Some(1), None]),
            None,
            Some(vec![Some(1), Some(i32::MIN)]),
        ]);
        let rows =
            RecordBatch::try_from_iter_with_nullable([("days", Arc::new(lists) as ArrayRef, true)]).unwrap();
        let rows: Vec<usize> = unrepresentable(&rows).iter().map(|found| found.row).collect();
        assert_eq!(rows, [2]);
    }
}
