//! Values as text, as PostgreSQL writes them: the one text that a value of a type has, over the protocol of PostgreSQL and wherever a
//! query makes a text of it. CSV and tables differ in few types (decision 0191).

pub mod calendar;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::temporal_conversions::as_datetime_with_timezone;
use arrow_array::timezone::Tz;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use self::calendar::{MICROS_PER_DAY, date, interval, micros, time, timestamp};

/// Writes a value that is there; returns whether it could be written.
pub fn write(array: &dyn Array, row: usize, bytes: &mut Vec<u8>) -> bool {
    match array.data_type() {
        DataType::Utf8 => bytes.extend(array.as_string::<i32>().value(row).bytes()),
        DataType::LargeUtf8 => bytes.extend(array.as_string::<i64>().value(row).bytes()),
        DataType::Utf8View => bytes.extend(array.as_string_view().value(row).bytes()),
        _ => match text(array, row) {
            Some(text) => bytes.extend(text.bytes()),
            None => return false,
        },
    }
    true
}

/// Returns the text of a value that is there, with microseconds, which are all that clients of PostgreSQL read; `None` if it has a type without values.
///
/// ```
/// use tidemill_connect::formats::value_text;
/// use tidemill_core::arrow::array::Float64Array;
/// assert_eq!(value_text::text(&Float64Array::from(vec![1e20]), 0).as_deref(), Some("1e+20"));
/// ```
pub fn text(array: &dyn Array, row: usize) -> Option<String> {
    text_of(array, row, false)
}

/// Returns whether all values of a type have such a text.
pub fn has_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(items) | DataType::LargeList(items) | DataType::FixedSizeList(items, _) => {
            has_text(items.data_type())
        }
        DataType::Map(entries, _) => has_text(entries.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| has_text(field.data_type())),
        DataType::Dictionary(_, values) => has_text(values),
        other => !other.is_nested(),
    }
}

/// Returns the text of a value that is there, with its nanoseconds; `None` if it has a type without values.
pub fn exact_text(array: &dyn Array, row: usize) -> Option<String> {
    text_of(array, row, true)
}

fn text_of(array: &dyn Array, row: usize, is_exact: bool) -> Option<String> {
    let finer = |value: i64, unit: &TimeUnit| if is_exact { calendar::finer(value, unit) } else { 0 };
    macro_rules! number {
        ($kind:ty) => {
            array.as_primitive::<$kind>().value(row).to_string()
        };
    }
    macro_rules! decimal {
        ($kind:ty) => {
            array.as_primitive::<$kind>().value_as_string(row)
        };
    }
    Some(match array.data_type() {
        DataType::Boolean => if array.as_boolean().value(row) { "t" } else { "f" }.to_owned(),
        DataType::Int8 => number!(Int8Type),
        DataType::Int16 => number!(Int16Type),
        DataType::Int32 => number!(Int32Type),
        DataType::Int64 => number!(Int64Type),
        DataType::UInt8 => number!(UInt8Type),
        DataType::UInt16 => number!(UInt16Type),
        DataType::UInt32 => number!(UInt32Type),
        DataType::UInt64 => number!(UInt64Type),
        DataType::Float16 => float4(array.as_primitive::<Float16Type>().value(row).to_f32()),
        DataType::Float32 => float4(array.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => float8(array.as_primitive::<Float64Type>().value(row)),
        DataType::Decimal32(..) => decimal!(Decimal32Type),
        DataType::Decimal64(..) => decimal!(Decimal64Type),
        DataType::Decimal128(..) => decimal!(Decimal128Type),
        DataType::Decimal256(..) => decimal!(Decimal256Type),
        DataType::Utf8 => array.as_string::<i32>().value(row).to_owned(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).to_owned(),
        DataType::Utf8View => array.as_string_view().value(row).to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            hexadecimal(binary(array, row)?)
        }
        DataType::Date32 | DataType::Date64 => {
            let (date, is_before) = date(days(array, row)?);
            date + if is_before { " BC" } else { "" }
        }
        DataType::Time32(_) | DataType::Time64(_) => {
            let nanos = match array.data_type() {
                DataType::Time64(unit @ TimeUnit::Nanosecond) => {
                    finer(array.as_primitive::<Time64NanosecondType>().value(row), unit)
                }
                _ => 0,
            };
            time(time_of_day(array, row)?, nanos)
        }
        DataType::Timestamp(unit, zone) => {
            let instant = instant(array, row, unit)?;
            let (micros, nanos) = (micros(instant, unit), finer(instant, unit));
            match zone {
                None => timestamp(micros, nanos, ""),
                Some(zone) => local_time(micros, nanos, zone),
            }
        }
        DataType::Interval(_) | DataType::Duration(_) => {
            let (months, days, micros) = span(array, row)?;
            let nanos = match array.data_type() {
                DataType::Interval(IntervalUnit::MonthDayNano) => {
                    let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
                    finer(value.nanoseconds, &TimeUnit::Nanosecond)
                }
                DataType::Duration(unit @ TimeUnit::Nanosecond) => {
                    finer(array.as_primitive::<DurationNanosecondType>().value(row), unit)
                }
                _ => 0,
            };
            interval(months.into(), days.into(), micros, nanos)
        }
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
            list(&items(array, row)?, is_exact)
        }
        DataType::Struct(_) => {
            let columns = array.as_struct().columns().iter();
            let values = columns
                .map(|column| element((column.as_ref(), row), "", &['(', ')', ',', '"', '\\'], is_exact));
            format!("({})", values.collect::<Vec<_>>().join(","))
        }
        // A map is a list of its keys, each with its value.
        DataType::Map(..) => list(&(Arc::new(array.as_map().value(row)) as ArrayRef), is_exact),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let key = *dictionary.normalized_keys().get(row)?;
            text_of(dictionary.values().as_ref(), key, is_exact)?
        }
        _ => return None,
    })
}

/// A point in time as a clock in this zone shows it: `2026-07-01 00:30:00+02`. UTC where the zone is not known.
fn local_time(utc_micros: i64, finer: i64, zone: &str) -> String {
    let local = zone.parse::<Tz>().ok();
    let local =
        local.and_then(|zone| as_datetime_with_timezone::<TimestampMicrosecondType>(utc_micros, zone));
    let local_micros = local.map_or(utc_micros, |local| local.naive_local().and_utc().timestamp_micros());
    let seconds = (local_micros - utc_micros) / 1_000_000;
    let (sign, seconds) = if seconds < 0 { ('-', -seconds) } else { ('+', seconds) };
    let mut offset = format!("{sign}{:02}", seconds / 3600);
    if seconds % 3600 != 0 {
        offset.push_str(&format!(":{:02}", seconds / 60 % 60));
    }
    if seconds % 60 != 0 {
        offset.push_str(&format!(":{:02}", seconds % 60));
    }
    timestamp(local_micros, finer, &offset)
}

/// Returns the items of the list that is a value; `None`: it is not a list.
pub fn items(array: &dyn Array, row: usize) -> Option<ArrayRef> {
    Some(match array.data_type() {
        DataType::List(_) => array.as_list::<i32>().value(row),
        DataType::LargeList(_) => array.as_list::<i64>().value(row),
        DataType::FixedSizeList(..) => array.as_fixed_size_list().value(row),
        _ => return None,
    })
}

/// Writes an `int2vector`: `1 2`.
pub fn write_vector(array: &dyn Array, row: usize, bytes: &mut Vec<u8>) -> bool {
    let Some(items) = items(array, row) else { return false };
    let numbers = (0..items.len()).filter_map(|item| text(items.as_ref(), item));
    bytes.extend(numbers.collect::<Vec<_>>().join(" ").bytes());
    true
}

/// The items of a list: `{1,2,NULL}`.
fn list(items: &ArrayRef, is_exact: bool) -> String {
    let special = ['{', '}', ',', '"', '\\'];
    let items = (0..items.len()).map(|row| element((items.as_ref(), row), "NULL", &special, is_exact));
    format!("{{{}}}", items.collect::<Vec<_>>().join(","))
}

/// A value in a list or a row, in quotes if it needs them.
fn element((array, row): (&dyn Array, usize), null: &str, special: &[char], is_exact: bool) -> String {
    // Around a value without quotes, readers leave out all of these.
    let is_special =
        |char: char| special.contains(&char) || matches!(char, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c');
    if array.is_null(row) || *array.data_type() == DataType::Null {
        return null.to_owned();
    }
    let text = text_of(array, row, is_exact).unwrap_or_default();
    let is_list =
        matches!(array.data_type(), DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..));
    let is_plain = !text.is_empty() && !text.contains(is_special) && !text.eq_ignore_ascii_case("null");
    if is_plain || (is_list && null == "NULL") {
        text
    } else {
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    }
}

/// Returns the bytes of a value; `None`: it has none.
pub fn binary(array: &dyn Array, row: usize) -> Option<&[u8]> {
    Some(match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().value(row),
        DataType::LargeBinary => array.as_binary::<i64>().value(row),
        DataType::BinaryView => array.as_binary_view().value(row),
        DataType::FixedSizeBinary(_) => array.as_fixed_size_binary().value(row),
        _ => return None,
    })
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    std::iter::once("\\x".to_owned()).chain(digits).collect()
}

/// Returns the days of a date since 1970; `None`: it is not a date.
pub fn days(array: &dyn Array, row: usize) -> Option<i64> {
    Some(match array.data_type() {
        DataType::Date32 => array.as_primitive::<Date32Type>().value(row).into(),
        DataType::Date64 => array.as_primitive::<Date64Type>().value(row).div_euclid(86_400_000),
        _ => return None,
    })
}

/// Returns the microseconds since midnight; `None`: it is not a time of day.
pub fn time_of_day(array: &dyn Array, row: usize) -> Option<i64> {
    let (value, unit) = match array.data_type() {
        DataType::Time32(unit @ TimeUnit::Second) => {
            (array.as_primitive::<Time32SecondType>().value(row).into(), unit)
        }
        DataType::Time32(unit) => (array.as_primitive::<Time32MillisecondType>().value(row).into(), unit),
        DataType::Time64(unit @ TimeUnit::Microsecond) => {
            (array.as_primitive::<Time64MicrosecondType>().value(row), unit)
        }
        DataType::Time64(unit) => (array.as_primitive::<Time64NanosecondType>().value(row), unit),
        _ => return None,
    };
    Some(micros(value, unit))
}

/// Returns a point in time, in its unit since 1970; `None`: it is none of that unit.
pub fn instant(array: &dyn Array, row: usize, unit: &TimeUnit) -> Option<i64> {
    Some(match unit {
        TimeUnit::Second => array.as_primitive::<TimestampSecondType>().value(row),
        TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().value(row),
        TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().value(row),
        TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().value(row),
    })
}

/// Returns an interval in months, days and microseconds; `None`: it is not an interval.
pub fn span(array: &dyn Array, row: usize) -> Option<(i32, i32, i64)> {
    Some(match array.data_type() {
        DataType::Interval(IntervalUnit::YearMonth) => {
            (array.as_primitive::<IntervalYearMonthType>().value(row), 0, 0)
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            let value = array.as_primitive::<IntervalDayTimeType>().value(row);
            (0, value.days, i64::from(value.milliseconds) * 1_000)
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let value = array.as_primitive::<IntervalMonthDayNanoType>().value(row);
            (value.months, value.days, value.nanoseconds.div_euclid(1_000))
        }
        DataType::Duration(unit) => {
            let value = match unit {
                TimeUnit::Second => array.as_primitive::<DurationSecondType>().value(row),
                TimeUnit::Millisecond => array.as_primitive::<DurationMillisecondType>().value(row),
                TimeUnit::Microsecond => array.as_primitive::<DurationMicrosecondType>().value(row),
                TimeUnit::Nanosecond => array.as_primitive::<DurationNanosecondType>().value(row),
            };
            let micros = micros(value, unit);
            let days = i32::try_from(micros / MICROS_PER_DAY).unwrap_or(i32::MAX);
            (0, days, micros - i64::from(days) * MICROS_PER_DAY)
        }
        _ => return None,
    })
}

fn float8(value: f64) -> String {
    float(value, format!("{value:e}"), value.to_string(), 15)
}

fn float4(value: f32) -> String {
    float(value.into(), format!("{value:e}"), value.to_string(), 6)
}

/// A float with the fewest digits that give it back, with an exponent where PostgreSQL writes one.
fn float(value: f64, scientific: String, plain: String, exponent_max: i32) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..exponent_max).contains(&exponent) {
        plain
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}e{sign}{:02}", exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::{StringArray, StructArray, TimestampSecondArray};
    use arrow_schema::Field;

    use super::*;

    #[test]
    fn white_space_in_lists_and_rows_is_kept_by_quotes() {
        let texts = ["a b", "\t", "x\n", "\r", "\u{b}", "\u{c}", "plain", "", "null", "a,b"];
        let items = Arc::new(StringArray::from(texts.to_vec())) as ArrayRef;
        let quoted = "\"a b\",\"\t\",\"x\n\",\"\r\",\"\u{b}\",\"\u{c}\",plain,\"\",\"null\",\"a,b\"";
        assert_eq!(list(&items, false), format!("{{{quoted}}}"));
        let row = StructArray::from(vec![(Arc::new(Field::new("t", DataType::Utf8, true)), items)]);
        assert_eq!(text(&row, 2).as_deref(), Some("(\"x\n\")"));
    }

    #[test]
    fn local_times_are_written_as_a_session_in_their_zone_writes_them() {
        // As PostgreSQL 15 answers after SET timezone.
        let written = [
            (1_782_858_600, "Europe/Berlin", "2026-07-01 00:30:00+02"),
            (1_798_759_800, "Europe/Berlin", "2027-01-01 00:30:00+01"),
            (1_767_225_600, "Asia/Kolkata", "2026-01-01 05:30:00+05:30"),
            (1_767_225_600, "America/St_Johns", "2025-12-31 20:30:00-03:30"),
            (1_767_225_600, "UTC", "2026-01-01 00:00:00+00"),
            (1_767_225_600, "-02:00", "2025-12-31 22:00:00-02"),
        ];
        for (utc, zone, expected) in written {
            let instant = TimestampSecondArray::from(vec![utc]).with_timezone(zone);
            assert_eq!(text(&instant, 0).as_deref(), Some(expected));
        }
    }

    #[test]
    fn floats_are_written_as_postgresql_writes_them() {
        // As PostgreSQL 15 answers.
        let floats = [
            (0.1, "0.1"),
            (-0.0, "-0"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (f64::NEG_INFINITY, "-Infinity"),
        ];
        floats.iter().for_each(|(value, text)| assert_eq!(float8(*value), *text));
        assert_eq!(float4(1e6), "1e+06");
        assert_eq!(float4(0.1), "0.1");
    }
}
