//! `to_char(number, '999,990.00')`: numbers as text by a pattern, as PostgreSQL writes them.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Float64Type};
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::logical_expr::ScalarUDF;
use tidemill_connect::formats::sql_type;

use super::plain_function::function_of_any;

/// The name of the function in plans.
pub(in crate::logical) const NUMBER_TO_CHAR: &str = "number_to_char";

/// What can be written in a pattern.
pub(super) const PARTS: &str = "the parts of a number are 9 0 . D , G S MI PL SG PR, FM before all of them removes \
    blanks, and text is written in double quotes: 'FM999,990.00'";

/// Digits that a DOUBLE is sure to have.
const FLOAT_DIGITS: usize = 15;

/// Returns the function.
pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    std::iter::once(function_of_any(&[NUMBER_TO_CHAR], 2, Field::new("", DataType::Utf8, true), |columns| {
        let numbers = &columns[0];
        let is_float = numbers.data_type().is_floating();
        if !numbers.data_type().is_numeric() && !numbers.data_type().is_null() {
            return exec_err!(
                "the pattern of to_char is one for numbers, but the value is {}",
                sql_type(numbers.data_type())
            );
        }
        let floats = cast(numbers, &DataType::Float64)?;
        let floats = floats.as_primitive::<Float64Type>();
        let (digits, patterns) = (cast(numbers, &DataType::Utf8)?, cast(&columns[1], &DataType::Utf8)?);
        let (digits, patterns) = (digits.as_string::<i32>(), patterns.as_string::<i32>());
        let row = |row: usize| {
            if digits.is_null(row) || patterns.is_null(row) {
                return Ok(None);
            }
            let pattern = NumberPattern::read(patterns.value(row));
            let pattern =
                pattern.map_err(|part| exec_datafusion_err!("'{part}' is not a part of a number"))?;
            let number = if is_float {
                of_float(floats.value(row), pattern.fraction)
            } else {
                of_digits(digits.value(row), pattern.fraction)
            };
            Ok(Some(pattern.write(&number)))
        };
        Ok(Arc::new((0..numbers.len()).map(row).collect::<Result<StringArray>>()?))
    }))
}

/// Returns whether a pattern is one for numbers: no part of a time has these digits.
pub(super) fn is_of_number(pattern: &str) -> bool {
    let outside = pattern.split('"').step_by(2);
    !pattern.contains('%') && outside.into_iter().any(|text| text.contains(['9', '0']))
}

/// Checks a pattern; the part that is none is the error.
pub(super) fn check(pattern: &str) -> std::result::Result<(), String> {
    NumberPattern::read(pattern).map(drop)
}

/// A number whose digits behind the point are as many as a pattern has.
struct Written {
    is_negative: bool,
    /// The digits before the point; the word for a number that has none.
    whole: String,
    fraction: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SignPlace {
    Before,
    Behind,
}

#[derive(Clone, PartialEq, Eq)]
enum Part {
    Nine,
    Zero,
    Point,
    Comma,
    Minus,
    Plus,
    Sign,
    Text(String),
}

/// A pattern, with what is known of it as a whole.
#[derive(Default)]
struct NumberPattern {
    parts: Vec<Part>,
    /// How many digits stand before the point, and how many behind it.
    whole: usize,
    fraction: usize,
    /// The place of the first 0 before the point, and how many digits there are up to the last 0.
    zero_start: Option<usize>,
    zero_end: usize,
    has_point: bool,
    /// `FM`: without blanks, and without zeros at the end.
    is_short: bool,
    /// `S`
    sign: Option<SignPlace>,
    /// `PR`
    has_brackets: bool,
}

impl NumberPattern {
    fn read(pattern: &str) -> std::result::Result<NumberPattern, String> {
        let mut read = NumberPattern::default();
        let mut rest = pattern;
        while let Some(first) = rest.chars().next() {
            let starts =
                |word: &str| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
            let mut length = first.len_utf8();
            let part = if first == '"' {
                let Some((text, _)) = rest[1..].split_once('"') else { return Err(rest.to_owned()) };
                length = text.len() + 2;
                Some(Part::Text(text.to_owned()))
            } else if starts("FM") || starts("MI") || starts("PL") || starts("PR") || starts("SG") {
                length = 2;
                match rest[..2].to_ascii_uppercase().as_str() {
                    "FM" => read.is_short = true,
                    "PR" => read.has_brackets = true,
                    _ => {}
                }
                match rest[..2].to_ascii_uppercase().as_str() {
                    "MI" => Some(Part::Minus),
                    "PL" => Some(Part::Plus),
                    "SG" => Some(Part::Sign),
                    _ => None,
                }
            } else {
                match first {
                    '9' | '0' => {
                        if first == '0' && !read.has_point {
                            read.zero_start.get_or_insert(read.whole);
                        }
                        *(if read.has_point { &mut read.fraction } else { &mut read.whole }) += 1;
                        if first == '0' {
                            read.zero_end = read.whole + read.fraction;
                        }
                        Some(if first == '9' { Part::Nine } else { Part::Zero })
                    }
                    '.' | 'D' | 'd' if !read.has_point => {
                        read.has_point = true;
                        Some(Part::Point)
                    }
                    ',' | 'G' | 'g' => Some(Part::Comma),
                    'S' | 's' if read.sign.is_none() => {
                        read.sign = Some(if read.whole + read.fraction == 0 {
                            SignPlace::Before
                        } else {
                            SignPlace::Behind
                        });
                        None
                    }
                    first if !first.is_alphanumeric() && first != '.' && first != '\\' => {
                        Some(Part::Text(first.to_string()))
                    }
                    _ => return Err(rest.chars().take_while(|letter| letter.is_alphanumeric()).collect()),
                }
            };
            read.parts.extend(part);
            rest = &rest[length..];
        }
        let own = [Part::Minus, Part::Plus, Part::Sign].iter().any(|sign| read.parts.contains(sign));
        // These exclude each other in PostgreSQL, too.
        if usize::from(own) + usize::from(read.sign.is_some()) + usize::from(read.has_brackets) > 1 {
            return Err(pattern.to_owned());
        }
        Ok(read)
    }

    fn write(&self, number: &Written) -> String {
        let hashes = |count: usize| "#".repeat(count);
        let (mut whole, mut fraction) = (number.whole.clone(), number.fraction.clone());
        // What does not fit.
        if whole.len() > self.whole && !(self.whole == 0 && whole == "0") {
            (whole, fraction) = (hashes(self.whole), hashes(self.fraction));
        }
        if self.whole == 0 {
            whole.clear();
        }
        let blanks = self.whole - whole.len();
        // Behind FM, zeros at the end are not written, unless the pattern has a 0 there.
        let kept = if self.is_short && self.has_point {
            let shown = fraction.trim_end_matches('0').len();
            shown.max(self.zero_end.saturating_sub(self.whole)).min(fraction.len())
        } else {
            fraction.len()
        };
        let is_hidden_zero = whole == "0" && self.zero_start.is_none() && self.fraction > 0 && self.has_point;
        let mut text = String::new();
        let own_sign = [Part::Minus, Part::Sign].iter().any(|sign| self.parts.contains(sign));
        let mut is_signed = own_sign || self.sign == Some(SignPlace::Behind);
        let (mut at, mut in_digits, mut behind_point) = (0, false, 0);
        let mut last_digit_end = None;
        let mut point_is_there = false;
        for part in &self.parts {
            match part {
                Part::Nine | Part::Zero if point_is_there => {
                    if behind_point < kept {
                        text.push_str(&fraction[behind_point..=behind_point]);
                    }
                    behind_point += 1;
                    last_digit_end = Some(text.len());
                }
                Part::Nine | Part::Zero => {
                    let is_zero_part = self.zero_start.is_some_and(|start| start <= at);
                    let is_blank = at < blanks && !is_zero_part;
                    let is_hidden = at >= blanks && is_hidden_zero && !(self.is_short && kept == 0);
                    if !is_blank && !is_hidden && !is_signed {
                        self.push_sign(number.is_negative, &mut text);
                        is_signed = true;
                    }
                    if is_blank || is_hidden {
                        if !self.is_short {
                            text.push(' ');
                        }
                    } else if at < blanks {
                        text.push('0');
                        in_digits = true;
                    } else {
                        text.push_str(&whole[at - blanks..=at - blanks]);
                        in_digits = true;
                    }
                    at += 1;
                    last_digit_end = Some(text.len());
                }
                Part::Point => {
                    if !is_signed {
                        self.push_sign(number.is_negative, &mut text);
                        is_signed = true;
                    }
                    text.push('.');
                    point_is_there = true;
                    last_digit_end = Some(text.len());
                }
                Part::Comma if in_digits => text.push(','),
                Part::Comma if self.is_short => {}
                Part::Comma => text.push(' '),
                Part::Minus if number.is_negative => text.push('-'),
                Part::Plus if !number.is_negative => text.push('+'),
                Part::Sign => text.push(if number.is_negative { '-' } else { '+' }),
                Part::Minus | Part::Plus if self.is_short => {}
                Part::Minus | Part::Plus => text.push(' '),
                Part::Text(given) => text.push_str(given),
            }
        }
        let end = last_digit_end.unwrap_or(text.len());
        if self.sign == Some(SignPlace::Behind) {
            text.insert(end, if number.is_negative { '-' } else { '+' });
        } else if self.has_brackets && (number.is_negative || !self.is_short) {
            text.insert(end, if number.is_negative { '>' } else { ' ' });
        }
        text
    }

    fn push_sign(&self, is_negative: bool, text: &mut String) {
        match (is_negative, self.sign.is_some(), self.has_brackets) {
            (true, true, _) => text.push('-'),
            (false, true, _) => text.push('+'),
            (true, false, true) => text.push('<'),
            (true, false, false) => text.push('-'),
            (false, false, _) if !self.is_short => text.push(' '),
            (false, false, _) => {}
        }
    }
}

/// A number of digits, rounded half away from zero.
fn of_digits(text: &str, fraction: usize) -> Written {
    let (is_negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let mut digits: Vec<u8> = whole.bytes().chain(rest.bytes().take(fraction)).collect();
    digits.resize(whole.len() + fraction, b'0');
    if rest.as_bytes().get(fraction).is_some_and(|next| *next >= b'5') {
        let mut place = digits.len();
        loop {
            match place.checked_sub(1) {
                None => {
                    digits.insert(0, b'1');
                    break;
                }
                Some(before) if digits[before] == b'9' => {
                    digits[before] = b'0';
                    place = before;
                }
                Some(before) => {
                    digits[before] += 1;
                    break;
                }
            }
        }
    }
    let digits: String = digits.into_iter().map(char::from).collect();
    let is_zero = digits.bytes().all(|digit| digit == b'0');
    let (whole, fraction) = digits.split_at(digits.len() - fraction);
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    Written { is_negative: is_negative && !is_zero, whole: whole.to_owned(), fraction: fraction.to_owned() }
}

/// A number of floating point: no more digits than it is sure to have. Its sign stays if it is rounded to zero, as in PostgreSQL.
fn of_float(value: f64, fraction: usize) -> Written {
    let is_negative = value.is_sign_negative() && !value.is_nan();
    if !value.is_finite() {
        let whole = if value.is_nan() { "NaN" } else { "Infinity" }.to_owned();
        return Written { is_negative, whole, fraction: String::new() };
    }
    let whole = format!("{:.0}", value.abs()).len();
    let sure = fraction.min(FLOAT_DIGITS.saturating_sub(whole));
    let mut written = of_digits(&format!("{value:.sure$}"), sure);
    written.fraction.push_str(&"0".repeat(fraction - sure));
    Written { is_negative, ..written }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_pattern_of_the_parts_is_written_without_a_panic() {
        let parts = ["9", "0", ".", ",", "S", "MI", "PL", "SG", "PR", "FM", "\"x\"", " "];
        let numbers = [0.0, -0.0, 0.5, -9.99, 12345.678, 1e300, f64::NAN, f64::NEG_INFINITY];
        // All patterns of four parts.
        for code in 0..parts.len().pow(4) {
            let pattern: String =
                (0..4).map(|place| parts[code / parts.len().pow(place) % parts.len()]).collect();
            let Ok(pattern) = NumberPattern::read(&pattern) else { continue };
            for number in numbers {
                let text = pattern.write(&of_float(number, pattern.fraction));
                assert!(text.len() <= 16, "{text}");
            }
        }
    }

    #[test]
    fn a_pattern_is_one_for_numbers_if_it_has_their_digits() {
        let is = ["999", "FM0.00", "\"a\"9"].map(is_of_number);
        assert_eq!(is, [true; 3]);
        assert_eq!(["YYYY-MM-DD", "HH24:MI", "\"9\"", "%03d", "MI"].map(is_of_number), [false; 5]);
    }
}
