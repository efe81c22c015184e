//! Decimals with an exponent: `1e3`, `1.5E-2`.

/// A decimal has at most this many digits, before the point or after it.
const DIGITS_MAX: usize = 76;

/// A number without its exponent, if it has one; `None` if there is nothing to change, or no decimal has so many digits.
///
/// ```
/// use tidemill_connect::formats::decimal_in_digits;
/// assert_eq!(decimal_in_digits("1.5E-2").as_deref(), Some("0.015"));
/// assert_eq!(decimal_in_digits("-1e3").as_deref(), Some("-1000"));
/// assert_eq!(decimal_in_digits("15"), None);
/// ```
pub fn decimal_in_digits(text: &str) -> Option<String> {
    let (number, exponent) = text.split_once(['e', 'E'])?;
    let (sign, number) = match number.strip_prefix('-') {
        Some(number) => ("-", number),
        None => ("", number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let exponent_digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    let is_number = are_digits(whole)
        && are_digits(fraction)
        && are_digits(exponent_digits)
        && !exponent_digits.is_empty()
        && whole.len() + fraction.len() > 0;
    if !is_number {
        return None;
    }
    let digits = [whole, fraction].concat();
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() {
        return Some("0".to_owned());
    }
    // How many digits precede the point; an exponent beyond 64 bits is beyond every decimal, too.
    let exponent =
        exponent.parse::<i64>().unwrap_or(if exponent.starts_with('-') { i64::MIN } else { i64::MAX });
    let point =
        exponent.saturating_add(whole.len() as i64).saturating_sub((digits.len() - significant.len()) as i64);
    match usize::try_from(point) {
        Ok(point) if point > DIGITS_MAX => None,
        Ok(point) if point >= significant.len() => {
            Some(format!("{sign}{significant}{}", "0".repeat(point - significant.len())))
        }
        Ok(0) => Some(format!("{sign}0.{significant}")),
        Ok(point) => Some(format!("{sign}{}.{}", &significant[..point], &significant[point..])),
        Err(_) => {
            // More zeros than these make the number no smaller for any decimal.
            let zeros = point.unsigned_abs().min(DIGITS_MAX as u64 + 1);
            Some(format!("{sign}0.{}{significant}", "0".repeat(zeros as usize)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_move_the_point() {
        let written = [
            ("1e3", "1000"),
            ("1.5E-2", "0.015"),
            ("0e99", "0"),
            ("-0.0e-5", "0"),
            ("+12.34e1", "123.4"),
            ("12.34e2", "1234"),
            ("0.00123e2", "0.123"),
            ("0.00123e3", "1.23"),
            (".5e1", "5"),
            ("5.e-1", "0.5"),
            ("1e+2", "100"),
            ("-7e-3", "-0.007"),
        ];
        for (text, expected) in written {
            assert_eq!(decimal_in_digits(text).as_deref(), Some(expected), "{text}");
        }
        let tiny = decimal_in_digits("9e-999999999999999999999").unwrap();
        assert!(tiny.trim_end_matches('9').bytes().all(|byte| matches!(byte, b'0' | b'.')), "{tiny}");
        for text in
            ["1e77", "1e99999999999999999999", "1e", "e3", "1e3.5", "1e3x", "--1e3", "1", "x", "1_0e3", ".e1"]
        {
            assert_eq!(decimal_in_digits(text), None, "{text}");
        }
    }
}
