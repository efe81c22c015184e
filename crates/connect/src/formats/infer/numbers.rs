//! The type of a column of numbers that changes none of them.

use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType};

/// A DOUBLE keeps every number of this many digits.
const DOUBLE_DIGITS: usize = 15;
/// More digits than this no program writes of a DOUBLE.
const DOUBLE_DIGITS_WRITTEN: usize = 17;

/// What the numbers of a column need.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    has_fraction: bool,
    has_exponent: bool,
    /// NaN or an infinity.
    has_special: bool,
    is_beyond_bigint: bool,
    is_changed_by_double: bool,
    /// Whether one is changed that is not written as programs write a DOUBLE, with zeros at the end.
    is_rounded_by_double: bool,
    whole_digits_max: usize,
    fraction_digits_max: usize,
}

/// The parts of a number, as it is written.
struct Parts<'a> {
    whole: &'a str,
    /// What follows the point, if there is one.
    fraction: Option<&'a str>,
    has_exponent: bool,
}

impl Parts<'_> {
    /// `None` if it is not a number. One with a plus or a zero before it is a code: a number would lose them.
    fn of(text: &str) -> Option<Parts<'_>> {
        let bytes = text.as_bytes();
        let digits_end = |from: usize| {
            let digits = bytes[from..].iter().take_while(|byte| byte.is_ascii_digit());
            from + digits.count()
        };
        let begin = usize::from(bytes.first() == Some(&b'-'));
        let mut end = digits_end(begin);
        let whole = &text[begin..end];
        let mut fraction = None;
        if bytes.get(end) == Some(&b'.') {
            let point = end;
            end = digits_end(point + 1);
            fraction = Some(&text[point + 1..end]);
        }
        let has_exponent = matches!(bytes.get(end), Some(b'e' | b'E'));
        if has_exponent {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let digits = end + 1 + sign;
            end = digits_end(digits);
            if end == digits {
                return None;
            }
        }
        let has_digits = !whole.is_empty() || fraction.is_some_and(|fraction| !fraction.is_empty());
        let is_code = whole.len() > 1 && whole.starts_with('0');
        (end == bytes.len() && has_digits && !is_code).then_some(Parts { whole, fraction, has_exponent })
    }
}

impl Numbers {
    /// Takes a number; false if it is none, or if a number would not keep how it is written.
    pub(super) fn update(&mut self, text: &str) -> bool {
        let Some(Parts { whole, fraction, has_exponent }) = Parts::of(text) else { return false };
        let is_whole = fraction.is_none() && !has_exponent;
        if !is_whole && text.parse::<f64>().is_ok_and(f64::is_infinite) {
            return false;
        }
        self.whole_digits_max = self.whole_digits_max.max(whole.len());
        self.fraction_digits_max = self.fraction_digits_max.max(fraction.map_or(0, str::len));
        self.has_fraction |= fraction.is_some();
        self.has_exponent |= has_exponent;
        if is_whole && whole.len() > DOUBLE_DIGITS {
            self.is_beyond_bigint |= text.parse::<i64>().is_err();
            let double: f64 = whole.parse().unwrap_or_default();
            self.is_changed_by_double |= format!("{double:.0}") != whole;
            self.is_rounded_by_double |= double.to_string() != whole;
        } else if !has_exponent && significant_digits(whole, fraction) > DOUBLE_DIGITS_WRITTEN {
            (self.is_changed_by_double, self.is_rounded_by_double) = (true, true);
        }
        true
    }

    /// NaN or an infinity is one of them.
    pub(super) fn add_special(&mut self) {
        self.has_special = true;
    }

    /// Whether a DOUBLE changes one of them.
    pub(super) fn are_changed_by_double(&self) -> bool {
        self.is_changed_by_double
    }

    /// BIGINT or DOUBLE; DECIMAL if these change a number; text if DECIMAL does, too.
    pub(super) fn data_type(&self) -> DataType {
        let are_plain = !self.has_exponent && !self.has_special;
        let digits = self.whole_digits_max + self.fraction_digits_max;
        if are_plain && !self.has_fraction && !self.is_beyond_bigint {
            DataType::Int64
        } else if are_plain && self.has_fraction && !self.is_changed_by_double {
            DataType::Float64
        } else if are_plain && digits <= usize::from(DECIMAL128_MAX_PRECISION) {
            DataType::Decimal128(DECIMAL128_MAX_PRECISION, self.fraction_digits_max as i8)
        } else if are_plain || self.is_rounded_by_double {
            DataType::Utf8
        } else {
            DataType::Float64
        }
    }
}

/// The digits without zeros that only hold places.
fn significant_digits(whole: &str, fraction: Option<&str>) -> usize {
    let fraction = fraction.unwrap_or_default().trim_end_matches('0');
    match whole.trim_start_matches('0') {
        "" => fraction.trim_start_matches('0').len(),
        whole => whole.len() + fraction.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Option<DataType> {
        let mut numbers = Numbers::default();
        texts.iter().all(|text| numbers.update(text)).then(|| numbers.data_type())
    }

    #[test]
    fn what_is_no_number_or_would_change_as_one_is_none() {
        for text in [
            "", "-", ".", "e5", "1e", "1e+", "01", "00", "-01", "007.5", "+1", "+0.5", "1_000", "0x1f",
            "1e400", "1 2",
        ] {
            assert_eq!(of(&[text]), None, "{text}");
        }
    }

    /// Whatever the type, the text of the value is that of the file: the oracle prints with other code.
    #[test]
    fn no_whole_number_changes_in_the_type_that_is_inferred() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let digits = random.usize(1..=45);
            let mut text: String = (0..digits).map(|_| random.digit(10)).collect();
            text = text.trim_start_matches('0').to_owned();
            if text.is_empty() {
                continue;
            }
            let beside = ["1", "0.5", "1e3"][random.usize(..3)];
            let shown = match of(&[&text, beside]) {
                Some(DataType::Int64) => text.parse::<i64>().expect("it fits").to_string(),
                Some(DataType::Float64) => format!("{:.0}", text.parse::<f64>().expect("a number")),
                Some(DataType::Decimal128(38, scale)) => {
                    assert!(text.len() + scale as usize <= 38, "{text}");
                    text.parse::<i128>().expect("it fits").to_string()
                }
                Some(DataType::Utf8) => text.clone(),
                other => panic!("{other:?}"),
            };
            // Beside an exponent, as programs write a DOUBLE: the shortest digits that give it.
            let is_as_written =
                beside == "1e3" && text.parse::<f64>().is_ok_and(|double| double.to_string() == text);
            assert!(shown == text || is_as_written, "{text} beside {beside}: {shown}");
        }
    }

    #[test]
    fn the_type_is_the_narrowest_that_changes_nothing() {
        let decimal = |scale| Some(DataType::Decimal128(38, scale));
        assert_eq!(of(&["0", "-9223372036854775808"]), Some(DataType::Int64));
        assert_eq!(of(&["9223372036854775808", "1"]), decimal(0));
        assert_eq!(of(&["123456789012345678901234567890123456789"]), Some(DataType::Utf8));
        assert_eq!(of(&["9007199254740993", "0.5"]), decimal(1));
        assert_eq!(of(&["9007199254740993", "1e3"]), Some(DataType::Utf8));
        assert_eq!(of(&["9007199254740992", "0.5"]), Some(DataType::Float64));
        assert_eq!(of(&["12345678901234567000", "1e22"]), Some(DataType::Float64), "as a DOUBLE is written");
        assert_eq!(of(&["12345678901234567.89"]), decimal(2));
        assert_eq!(of(&["0.30000000000000004", "1."]), Some(DataType::Float64));
        assert_eq!(of(&["0.000000000000000000001", ".5"]), Some(DataType::Float64));
    }
}
