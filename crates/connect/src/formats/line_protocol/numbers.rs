//! Numbers as line protocol writes them.

use super::scan::{ZEROS, eight_digits, leading_digits, load, no_digits};

/// Powers of ten that a double holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];
/// Integers up to this one are exact as a double.
const EXACT_MAX: u64 = 1 << 53;

/// A number of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    /// `5i`
    Signed(i64),
    /// `5u`
    Unsigned(u64),
    /// `5`: a float according to the specification, without a fraction.
    Whole(i64),
    /// `5.5`, `5e3`
    Float(f64),
}

/// This many digits fit into 64 bits, whatever they are.
const DIGITS_MAX: usize = 19;

/// Powers of ten for this many additional digits.
const SCALES: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// The digits from `at` on, following those of `start`: their value, if it fits into 64 bits, and where they end.
#[inline(always)]
fn digits(text: &[u8], at: usize, end: usize, start: u64) -> (Option<u64>, usize) {
    let (mut value, mut next) = (start, at);
    while next < end
        && let Some(word) = load(text, next)
    {
        let (mut count, mut eight) = leading_digits(word);
        if count > end - next {
            // Those behind the end do not belong to it.
            (count, eight) = leading_digits(word & ((1 << ((end - next) * 8)) - 1));
        }
        value = value.wrapping_mul(SCALES[count]).wrapping_add(eight);
        next += count;
        if count < 8 {
            break;
        }
    }
    while next < end && text[next].is_ascii_digit() {
        value = value.wrapping_mul(10).wrapping_add(u64::from(text[next] - b'0'));
        next += 1;
    }
    if start == 0 && next - at <= DIGITS_MAX || start < SCALES[8] && next - at <= DIGITS_MAX - 8 {
        return (Some(value), next);
    }
    (many_digits(&text[at..next], start), next)
}

/// As [`digits`], with a check at each digit.
#[cold]
fn many_digits(digits: &[u8], start: u64) -> Option<u64> {
    digits.iter().try_fold(start, |value, digit| value.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

#[inline(always)]
fn signed(negative: bool, magnitude: u64) -> Option<i64> {
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// An integer with an optional minus that fills all of `at..end`: a time.
#[inline(always)]
pub(super) fn whole(text: &[u8], at: usize, end: usize) -> Option<i64> {
    let negative = at < end && text[at] == b'-';
    let start = at + usize::from(negative);
    let (value, next) = digits(text, start, end, 0);
    (next == end && next > start).then_some(value)?.and_then(|value| signed(negative, value))
}

/// The number that begins at `at`, and where it ends; `None` if there is none, or it is out of range.
#[inline(always)]
pub(super) fn number(text: &[u8], at: usize, end: usize) -> Option<(Number, usize)> {
    let negative = text[at] == b'-';
    let start = at + usize::from(negative);
    let (value, next) = digits(text, start, end, 0);
    let following = if next < end { text[next] } else { b' ' };
    match following {
        b'i' if next > start => Some((Number::Signed(signed(negative, value?)?), next + 1)),
        b'u' if next > start && !negative => Some((Number::Unsigned(value?), next + 1)),
        b'.' => {
            let (both, last) = digits(text, next + 1, end, value.unwrap_or(0));
            let has_exponent = last < end && matches!(text[last], b'e' | b'E');
            let exact = value.and(both).filter(|_| !has_exponent);
            match (exact, last - next - 1) {
                _ if last - start < 2 => None,
                (Some(mantissa), scale) if mantissa <= EXACT_MAX && scale < POWERS.len() => {
                    // Both are exact, so the quotient is rounded once, as IEEE 754 requires.
                    let value = mantissa as f64 / POWERS[scale];
                    Some((Number::Float(if negative { -value } else { value }), last))
                }
                _ => slow_float(text, at, end),
            }
        }
        b'e' | b'E' => slow_float(text, at, end),
        _ if next == start => None,
        _ => match value.and_then(|value| signed(negative, value)) {
            // Minus zero is a float only.
            Some(0) if negative => Some((Number::Float(-0.0), next)),
            Some(value) => Some((Number::Whole(value), next)),
            None => slow_float(text, at, end),
        },
    }
}

/// The number that fills all of `at..end`; `None` if it is not a number, or out of range.
#[inline(always)]
pub(super) fn number_of(text: &[u8], at: usize, end: usize) -> Option<Number> {
    if let Some(number) = short_number(text, at, end) {
        return Some(number);
    }
    if at >= end || !matches!(text[at], b'0'..=b'9' | b'-' | b'.') {
        return None;
    }
    number(text, at, end).filter(|(_, stop)| *stop == end).map(|(number, _)| number)
}

/// Like [`number_of`] for most numbers of up to eight bytes, which are read from one word; `None` leaves it to the
/// others.
#[inline(always)]
fn short_number(text: &[u8], at: usize, end: usize) -> Option<Number> {
    let length = end.checked_sub(at).filter(|length| (1..=8).contains(length))?;
    // The last byte becomes the highest. The lowest are zeros then, which are digits that come before it.
    let word = (load(text, at)? ^ ZEROS) << (64 - 8 * length);
    let others = no_digits(word);
    if others == 0 {
        return Some(Number::Whole(eight_digits(word) as i64));
    }
    let place = others.trailing_zeros() / 8;
    match text[end + place as usize - 8] {
        b'i' if place == 7 && length > 1 => Some(Number::Signed(eight_digits(word << 8) as i64)),
        b'u' if place == 7 && length > 1 => Some(Number::Unsigned(eight_digits(word << 8))),
        b'.' if length > 1 => {
            let before = word & ((1 << (8 * place)) - 1);
            let digits = word & !(0xff << (8 * place)) ^ before | before << 8;
            (no_digits(digits) == 0)
                .then(|| Number::Float(eight_digits(digits) as f64 / POWERS[7 - place as usize]))
        }
        _ => None,
    }
}

/// Any float, by the standard library.
#[cold]
fn slow_float(text: &[u8], at: usize, end: usize) -> Option<(Number, usize)> {
    let length = text[at..end].iter().position(|byte| matches!(byte, b',' | b' ')).unwrap_or(end - at);
    let number = std::str::from_utf8(&text[at..at + length]).ok()?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let value = number.parse::<f64>().ok().filter(|value| is_number && value.is_finite())?;
    Some((Number::Float(value), at + length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(text: &str) -> Option<Number> {
        if text.is_empty() {
            return None;
        }
        number(text.as_bytes(), 0, text.len()).filter(|(_, end)| *end == text.len()).map(|(value, _)| value)
    }

    #[test]
    fn kinds_and_bounds() {
        assert_eq!(all("-9223372036854775808i"), Some(Number::Signed(i64::MIN)));
        assert_eq!(all("9223372036854775808i"), None);
        assert_eq!(all("18446744073709551615u"), Some(Number::Unsigned(u64::MAX)));
        assert_eq!(all("18446744073709551616u"), None);
        assert_eq!(all("9223372036854775808"), Some(Number::Float(9_223_372_036_854_775_808.0)));
        assert_eq!(all("1."), Some(Number::Float(1.0)));
        assert_eq!(all("-.5e1"), Some(Number::Float(-5.0)));
        for text in
            ["", "-", ".", "-.", "i", "-u", "-1u", "1e", "1e999", "nan", "-inf", "1_0", "0x1", "1.5i", "--1"]
        {
            assert_eq!(all(text), None, "{text}");
        }
        assert_eq!(whole(b"-17", 0, 3), Some(-17));
        assert_eq!(whole(b"9223372036854775808", 0, 19), None);
    }

    proptest! {
        #[test]
        fn a_number_is_the_same_with_what_follows(
            text in "-?[0-9]{0,9}[.iue]?[0-9]{0,9}[iu]?",
            rest in "[ ,0-9.]{0,9}",
        ) {
            let found = number_of(format!("{text}{rest}").as_bytes(), 0, text.len());
            prop_assert_eq!(found, all(&text));
        }

        #[test]
        fn floats_are_those_of_the_standard_library(text in "-?[0-9]{0,22}\\.?[0-9]{0,24}(e-?[0-9]{1,3})?") {
            let expected = text.parse::<f64>().ok().filter(|value| value.is_finite());
            let found = all(&text).map(|number| match number {
                Number::Float(value) => value,
                Number::Whole(value) => value as f64,
                other => panic!("{other:?}"),
            });
            prop_assert_eq!(found.map(f64::to_bits), expected.map(f64::to_bits), "{}", text);
        }

        #[test]
        fn integers_are_those_of_the_standard_library(text in "-?[0-9]{0,22}") {
            let found = all(&format!("{text}i"));
            prop_assert_eq!(found, text.parse::<i64>().ok().map(Number::Signed));
            prop_assert_eq!(whole(text.as_bytes(), 0, text.len()), text.parse::<i64>().ok());
        }
    }
}
