//! Times that are written as numbers: seconds, milliseconds, microseconds or nanoseconds since 1970.

use arrow_schema::{Field, TimeUnit};

/// Where a field keeps the unit.
const KEY: &str = "tidemill.epoch_unit";
const NANOSECONDS: i128 = 1_000_000_000;

/// The column of timestamps, or with timestamps in structs and lists, whose values may also be numbers of this unit since
/// 1970, with a fraction or without.
///
/// ```
/// use tidemill_connect::formats::with_epoch_unit;
/// use tidemill_core::arrow::schema::{DataType, Field, TimeUnit};
/// let at = Field::new("at", DataType::Timestamp(TimeUnit::Nanosecond, None), true);
/// let at = with_epoch_unit(at, TimeUnit::Millisecond);
/// assert_eq!(at.name(), "at");
/// ```
#[must_use]
pub fn with_epoch_unit(field: Field, unit: TimeUnit) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(KEY.to_owned(), per_second(unit).to_string());
    field.with_metadata(metadata)
}

fn per_second(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => NANOSECONDS,
    }
}

/// How numbers become times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epoch {
    units_per_second: i128,
}

impl Epoch {
    /// For a column; `None`: numbers are not accepted there.
    pub(crate) fn of(field: &Field) -> Option<Epoch> {
        Some(Epoch { units_per_second: field.metadata().get(KEY)?.parse().ok()? })
    }

    /// Seconds since 1970 and nanoseconds within the second. Parts of a nanosecond are dropped.
    pub(crate) fn parse(self, text: &str) -> Option<(i64, u32)> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let is_negative = whole.starts_with('-');
        let digits = whole.strip_prefix(['-', '+']).unwrap_or(whole);
        let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !are_digits(digits) || !are_digits(fraction) || digits.len() > 19 {
            return None;
        }
        let unit_ns = NANOSECONDS / self.units_per_second;
        let fraction = &fraction[..fraction.len().min(18)];
        let part_ns = fraction.parse::<i128>().ok()? * unit_ns / 10_i128.pow(fraction.len() as u32);
        let length_ns = digits.parse::<i128>().ok()? * unit_ns + part_ns;
        let time_ns = if is_negative { -length_ns } else { length_ns };
        let seconds = i64::try_from(time_ns.div_euclid(NANOSECONDS)).ok()?;
        Some((seconds, time_ns.rem_euclid(NANOSECONDS) as u32))
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;

    use super::*;

    fn parse(unit: TimeUnit, text: &str) -> Option<(i64, u32)> {
        let field = with_epoch_unit(Field::new("at", DataType::Utf8, true), unit);
        Epoch::of(&field).unwrap().parse(text)
    }

    #[test]
    fn numbers_count_from_1970_in_their_unit() {
        use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
        assert_eq!(parse(Second, "1767225600"), Some((1_767_225_600, 0)));
        assert_eq!(parse(Second, "1767225600.25"), Some((1_767_225_600, 250_000_000)));
        assert_eq!(parse(Millisecond, "1767225600123"), Some((1_767_225_600, 123_000_000)));
        assert_eq!(parse(Millisecond, "1767225600123.4567891"), Some((1_767_225_600, 123_456_789)));
        assert_eq!(parse(Microsecond, "1767225600123456"), Some((1_767_225_600, 123_456_000)));
        assert_eq!(parse(Nanosecond, "1767225600123456789"), Some((1_767_225_600, 123_456_789)));
        assert_eq!(parse(Second, "-1.5"), Some((-2, 500_000_000)));
        assert_eq!(parse(Millisecond, "-0.5"), Some((-1, 999_500_000)));
        assert_eq!(parse(Second, "+7"), Some((7, 0)));
        let wrong =
            ["", "-", ".5", "5.", "1e9", "2026-01-01", "1_000", "0x10", "NaN", "12345678901234567890"];
        for text in wrong {
            assert_eq!(parse(Second, text), None, "{text}");
        }
        assert_eq!(Epoch::of(&Field::new("at", DataType::Utf8, true)).map(|_| ()), None);
    }
}
