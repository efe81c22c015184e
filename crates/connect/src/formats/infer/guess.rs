//! Infers the type of a column from its texts.

use arrow_array::types::Float64Type;
use arrow_cast::parse::Parser;
use arrow_schema::{DataType, TimeUnit};

use super::numbers::Numbers;
use crate::formats::{is_date, is_timestamp};

/// The types that all texts so far can have.
#[derive(Clone, Debug)]
pub(super) struct Guess {
    has_values: bool,
    boolean: bool,
    number: bool,
    date: bool,
    timestamp: bool,
    numbers: Numbers,
}

impl Default for Guess {
    fn default() -> Guess {
        let numbers = Numbers::default();
        Guess { has_values: false, boolean: true, number: true, date: true, timestamp: true, numbers }
    }
}

impl Guess {
    /// Takes a value that is not NULL.
    pub(super) fn update(&mut self, text: &str) {
        if self.is_text() {
            return;
        }
        let text = text.trim_ascii();
        if text.is_empty() {
            return;
        }
        // Before anything slower: no number is a time.
        if self.number && self.numbers.update(text) {
            self.has_values = true;
            (self.boolean, self.date, self.timestamp) = (false, false, false);
            return;
        }
        let has_digits = text.bytes().any(|byte| byte.is_ascii_digit());
        // NaN and infinity alone make no column of numbers, but may be in one.
        if !has_digits && Float64Type::parse(text).is_some() {
            (self.boolean, self.date, self.timestamp) = (false, false, false);
            self.numbers.add_special();
            return;
        }
        self.has_values = true;
        self.boolean =
            self.boolean && (text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false"));
        self.number = false;
        let is_date = has_digits && (self.date || self.timestamp) && is_date(text);
        self.date &= is_date;
        self.timestamp = self.timestamp && (is_date || has_digits && is_timestamp(text));
    }

    /// Whether nothing but VARCHAR is left.
    fn is_text(&self) -> bool {
        !(self.boolean || self.number || self.date || self.timestamp)
    }

    /// The type.
    pub(super) fn data_type(&self) -> DataType {
        match self {
            Guess { has_values: false, .. } => DataType::Utf8,
            Guess { boolean: true, .. } => DataType::Boolean,
            Guess { number: true, numbers, .. } => numbers.data_type(),
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
        assert_eq!(of(&["NaN", "1"]), DataType::Float64);
        assert_eq!(of(&["NaN", "true"]), DataType::Utf8);
        assert_eq!(of(&["12345678901234567890", "1"]), DataType::Decimal128(38, 0));
        assert_eq!(of(&["12345678901234567890", "NaN"]), DataType::Utf8);
        assert_eq!(of(&["2026-01-31"]), DataType::Date32);
        assert_eq!(of(&["2026-01-31", "2026-01-31T10:00:00Z"]), timestamp);
        assert_eq!(of(&["2026-02-30"]), DataType::Utf8);
        assert_eq!(of(&["1", "x"]), DataType::Utf8);
        assert_eq!(of(&["1", "2", "03"]), DataType::Utf8);
        assert_eq!(of(&["+4930", "1"]), DataType::Utf8);
        assert_eq!(of(&["", ""]), DataType::Utf8);
    }
}
