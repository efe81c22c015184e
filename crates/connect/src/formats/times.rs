//! Parses texts of dates and times.

use arrow_array::timezone::Tz;
use arrow_array::types::Date32Type;
use arrow_cast::parse::{Parser, string_to_time_nanoseconds};
use tidemill_core::error::Cause;

use super::epoch::Epoch;
use super::time_text::{TimeText, days};

const NANOSECONDS: i64 = 1_000_000_000;

/// Reads timestamps ([`TimeText`]). A text without a zone has the column's zone, or UTC if the column has none.
pub(crate) struct TimestampParser {
    zone: Tz,
    is_utc: bool,
    epoch: Option<Epoch>,
}

impl TimestampParser {
    /// For a column with this zone.
    pub(crate) fn new(zone: Option<&str>) -> Result<TimestampParser, Cause> {
        let name = match zone {
            None | Some("UTC" | "Etc/UTC" | "Z" | "+00:00") => "+00:00",
            Some(name) => name,
        };
        let zone = name
            .parse()
            .map_err(|error| Cause::user(format!("time zone '{name}': {error}")).with_source(error))?;
        Ok(TimestampParser { zone, is_utc: name == "+00:00", epoch: None })
    }

    /// The same, which also reads numbers.
    pub(crate) fn or_numbers(self, epoch: Option<Epoch>) -> TimestampParser {
        TimestampParser { epoch, ..self }
    }

    /// Seconds since 1970 and nanoseconds within the second.
    fn parse(&self, text: &str) -> Option<(i64, u32)> {
        if let Some(found) = self.epoch.and_then(|epoch| epoch.parse(text)) {
            return Some(found);
        }
        if self.is_utc
            && let Some(found) = common(text.as_bytes())
        {
            return Some(found);
        }
        TimeText::parse(text)?.point(&self.zone, self.is_utc)
    }

    pub(crate) fn seconds(&self, text: &str) -> Option<i64> {
        self.parse(text).map(|(seconds, _)| seconds)
    }

    pub(crate) fn milliseconds(&self, text: &str) -> Option<i64> {
        self.scaled(text, 1000)
    }

    pub(crate) fn microseconds(&self, text: &str) -> Option<i64> {
        self.scaled(text, 1_000_000)
    }

    pub(crate) fn nanoseconds(&self, text: &str) -> Option<i64> {
        self.scaled(text, NANOSECONDS)
    }

    fn scaled(&self, text: &str, per_second: i64) -> Option<i64> {
        let (seconds, nanoseconds) = self.parse(text)?;
        // In 128 bits: whole seconds may lie before the first time of the type, and the time itself not.
        let whole = i128::from(seconds) * i128::from(per_second);
        i64::try_from(whole + i128::from(nanoseconds) / i128::from(NANOSECONDS / per_second)).ok()
    }
}

/// A date, as days since 1970; that of a time, as it is written.
pub(crate) fn parse_date(text: &str) -> Option<i32> {
    let usual = if text.len() == 10 { date(text.as_bytes()) } else { None };
    match usual.or_else(|| TimeText::parse(text).map(|time| time.day)) {
        Some(days) => i32::try_from(days).ok(),
        // Eight digits, and years beyond the calendar.
        None => Date32Type::parse(text),
    }
}

/// A time of day in nanoseconds since midnight: `12:30`, `12:30:05.5`, `1:30 pm`. A bare number is rejected: nobody could tell
/// whether it counts hours, seconds or nanoseconds.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    // A leap second at the end of a day would be a time of the next one.
    let time = string_to_time_nanoseconds(text).ok().or_else(|| TimeText::of_day(text));
    time.filter(|time| *time < 86_400 * NANOSECONDS && text.contains(':'))
}

/// Whether a text is a date.
pub(crate) fn is_date(text: &str) -> bool {
    let is_in_digits = || text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let is_written_out = (8..=10).contains(&text.len()) && text.contains('-') && is_in_digits();
    is_written_out && parse_date(text).is_some()
}

/// A time as nanoseconds since 1970: `2026-01-31`, `2026-01-31 23:59:59.5`, `2026-01-31T23:59:59Z`. Without a zone it is
/// UTC.
///
/// ```
/// use tidemill_connect::formats::timestamp_ns;
/// assert_eq!(timestamp_ns("1970-01-01 00:00:01"), Some(1_000_000_000));
/// assert_eq!(timestamp_ns("soon"), None);
/// ```
#[must_use]
pub fn timestamp_ns(text: &str) -> Option<i64> {
    TimestampParser::new(None).ok()?.nanoseconds(text)
}

/// Whether a text is a time that fits into nanoseconds. A column of dates in words stays one of texts.
pub(crate) fn is_timestamp(text: &str) -> bool {
    TimeText::is_in_digits(text) && timestamp_ns(text).is_some()
}

/// The usual form of a time, `2026-01-31T23:59:59[.123][Z]`, read quickly.
fn common(text: &[u8]) -> Option<(i64, u32)> {
    let text = text.strip_suffix(b"Z").unwrap_or(text);
    if text.len() < 19 || !matches!(text[10], b'T' | b' ') || text[13] != b':' || text[16] != b':' {
        return None;
    }
    let days = date(&text[..10])?;
    let (hour, minute, second) = (pair(text, 11)?, pair(text, 14)?, pair(text, 17)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let nanoseconds = match &text[19..] {
        [] => 0,
        [b'.', digits @ ..] => fraction(digits)?,
        _ => return None,
    };
    Some((days * 86_400 + hour * 3600 + minute * 60 + second, nanoseconds))
}

fn fraction(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 9 {
        return None;
    }
    let value =
        digits.iter().try_fold(0, |value, &byte| digit(byte).map(|digit| value * 10 + digit as u32))?;
    Some(value * 10u32.pow(9 - digits.len() as u32))
}

/// Days since 1970 of `YYYY-MM-DD`, by the Gregorian calendar.
fn date(text: &[u8]) -> Option<i64> {
    if text[4] != b'-' || text[7] != b'-' {
        return None;
    }
    let (year, month, day) = (pair(text, 0)? * 100 + pair(text, 2)?, pair(text, 5)?, pair(text, 8)?);
    days(year, month, day)
}

fn pair(text: &[u8], at: usize) -> Option<i64> {
    Some(digit(text[at])? * 10 + digit(text[at + 1])?)
}

fn digit(byte: u8) -> Option<i64> {
    byte.is_ascii_digit().then(|| i64::from(byte - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_way_agrees_with_arrow() {
        for days in (-719_528..2_932_896).step_by(13) {
            let text =
                arrow_cast::display::array_value_to_string(&arrow_array::Date32Array::from(vec![days]), 0);
            let text = text.unwrap_or_default();
            assert_eq!(date(text.as_bytes()), Some(i64::from(days)), "{text}");
        }
        for text in ["2023-02-29", "2024-13-01", "2024-00-10", "2024-04-31", "2024-01-00", "20240101--"] {
            assert_eq!(parse_date(text), None, "{text}");
        }
    }

    #[test]
    fn a_time_of_day_has_a_colon() {
        let seconds = |text: &str| parse_time(text).map(|time| time as f64 / 1e9);
        assert_eq!(seconds("00:00"), Some(0.0));
        assert_eq!(seconds("9:05:07.25"), Some(32_707.25));
        assert_eq!(seconds("23:59:59.999999999"), Some(86_399.999_999_999));
        assert_eq!(seconds("01:30 PM"), Some(48_600.0));
        for text in ["10", "0", "-1", "1030", "86399000000000", "24:00", "12:60", "23:59:60", "1e3", ""] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    #[test]
    fn timestamps_with_zone_fraction_and_blank_are_read() -> Result<(), Cause> {
        let utc = TimestampParser::new(None)?;
        let expected = Some(1_767_225_599_500_000_000);
        for text in ["2025-12-31T23:59:59.5", "2025-12-31 23:59:59.500Z", "2026-01-01T01:59:59.5+02:00"] {
            assert_eq!(utc.nanoseconds(text), expected, "{text}");
        }
        let east = TimestampParser::new(Some("+02:00"))?;
        assert_eq!(east.nanoseconds("2026-01-01 01:59:59.5"), expected);
        assert_eq!(utc.nanoseconds("2025-12-31T24:00:00.5"), None);
        assert_eq!(utc.nanoseconds("9999-12-31T00:00:00"), None);
        assert_eq!(utc.seconds("9999-12-31T00:00:00"), Some(253_402_214_400));
        assert_eq!(utc.nanoseconds("1677-09-21 00:12:43.145224192"), Some(i64::MIN));
        assert_eq!(utc.nanoseconds("1677-09-21 00:12:43.145224191"), None);
        assert_eq!(utc.nanoseconds("2262-04-11 23:47:16.854775807"), Some(i64::MAX));
        assert_eq!(utc.nanoseconds("2262-04-11 23:47:16.854775808"), None);
        for text in ["17", "0", "-1", "1767225600", "1767225600000000000", "20260131", "1e9"] {
            assert_eq!(utc.nanoseconds(text), None, "{text}");
        }
        Ok(())
    }
}
