//! Infers the type of a column from its texts.

use arrow_array::types::Float64Type;
use arrow_cast::parse::Parser;
use arrow_schema::{DataType, TimeUnit};

use crate::formats::{is_date, is_timestamp};

/// The types that all texts so far can have.
#[derive(Clone, Debug)]
pub(super) struct Guess {
    has_values: bool,
    boolean: bool,
    integer: bool,
    number: bool,
    date: bool,
    timestamp: bool,
}

impl Default for Guess {
    fn default() -> Guess {
        Guess { has_values: false, boolean: true, integer: true, number: true, date: true, timestamp: true }
    }
}

impl Guess {
    /// Takes a value that is not NULL.
    pub(super) fn update(&mut self, text: &str) {
        let text = text.trim_ascii();
        if text.is_empty() {
            return;
        }
        let has_digits = text.bytes().any(|byte| byte.is_ascii_digit());
        let is_float = || Float64Type::parse(text).is_some();
        // NaN and infinity alone make no column of numbers, but may be in one.
        if !has_digits && is_float() {
            (self.boolean, self.integer, self.date, self.timestamp) = (false, false, false, false);
            return;
        }
        self.has_values = true;
        self.boolean &= text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false");
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let is_integer = is_whole && text.parse::<i64>().is_ok();
        self.integer &= is_integer;
        self.number &= is_integer || (!is_whole && has_digits && is_float());
        self.date &= has_digits && is_date(text);
        self.timestamp &= has_digits && (is_date(text) || is_timestamp(text));
    }

    /// The type.
    pub(super) fn data_type(&self) -> DataType {
        match self {
            Guess { has_values: false, .. } => DataType::Utf8,
            Guess { boolean: true, .. } => DataType::Boolean,
            Guess { integer: true, .. } => DataType::Int64,
            Guess { number: true, .. } => DataType::Float64,
            Guess { date: true, .. } => DataType::Date32,
            Guess { timestamp: true, .. } => DataType::Timestamp(TimeUnit::Nanosecond, None),
            _ => DataType::Utf8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_type_of_all_values_is_taken() {
        let of = |texts: &[&str]| {
            let mut guess = Guess::default();
            texts.iter().for_each(|text| guess.update(text));
            guess.data_type()
        };
        let timestamp = DataType::Timestamp(TimeUnit::Nanosecond, None);
        assert_eq!(of(&["true", "FALSE"]), DataType::Boolean);
        assert_eq!(of(&["1", "-20", ""]), DataType::Int64);
        assert_eq!(of(&["1", "2.5", "NaN", "1e9"]), DataType::Float64);
        assert_eq!(of(&["NaN"]), DataType::Utf8);
        assert_eq!(of(&["12345678901234567890", "1"]), DataType::Utf8);
        assert_eq!(of(&["2026-01-31"]), DataType::Date32);
        assert_eq!(of(&["2026-01-31", "2026-01-31T10:00:00Z"]), timestamp);
        assert_eq!(of(&["2026-02-30"]), DataType::Utf8);
        assert_eq!(of(&["1", "x"]), DataType::Utf8);
        assert_eq!(of(&["", ""]), DataType::Utf8);
    }
}
