//! Decimals in binary form: groups of four digits.

/// Writes a decimal, which is given as text: `-12.50`.
pub(super) fn write(decimal: &str, bytes: &mut Vec<u8>) {
    let (is_negative, digits) = match decimal.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, decimal),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.trim_start_matches('0');
    // The point stands between two groups.
    let left = "0".repeat((4 - whole.len() % 4) % 4) + whole;
    let right = fraction.to_owned() + &"0".repeat((4 - fraction.len() % 4) % 4);
    let groups: Vec<u16> = (left + &right)
        .as_bytes()
        .chunks(4)
        .map(|group| group.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0')))
        .collect();
    let zeros = groups.iter().take_while(|group| **group == 0).count();
    let weight = whole.len().div_ceil(4) as i16 - 1 - zeros as i16;
    let end = groups.iter().rposition(|group| *group != 0).map_or(zeros, |last| last + 1);
    let groups = &groups[zeros..end];
    bytes.extend((groups.len() as u16).to_be_bytes());
    bytes.extend(if groups.is_empty() { 0_i16 } else { weight }.to_be_bytes());
    bytes.extend(if is_negative && !groups.is_empty() { 0x4000_u16 } else { 0 }.to_be_bytes());
    bytes.extend((fraction.len() as u16).to_be_bytes());
    groups.iter().for_each(|group| bytes.extend(group.to_be_bytes()));
}

/// The largest exponent of a decimal that is worth writing out: no decimal has more digits.
const EXPONENT_MAX: u32 = 76;

/// A decimal that may have an exponent (`1.5E+3`), written out; `None` if it is none.
pub(super) fn without_exponent(text: &str) -> Option<String> {
    let (digits, exponent) = match text.split_once(['e', 'E']) {
        Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits.strip_prefix('+').unwrap_or(digits)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_decimal = [whole, fraction].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
        && whole.len() + fraction.len() > 0
        && exponent.unsigned_abs() <= EXPONENT_MAX;
    if !is_decimal || exponent == 0 {
        return is_decimal.then(|| format!("{sign}{digits}"));
    }
    let zeros = "0".repeat(exponent.unsigned_abs() as usize);
    let (all, point) = if exponent > 0 {
        ([whole, fraction, &zeros].concat(), whole.len() + zeros.len())
    } else {
        ([&zeros, whole, fraction].concat(), whole.len())
    };
    let (whole, fraction) = all.split_at(point);
    // What an exponent puts before the point is not a fraction.
    let fraction = if exponent > 0 { fraction.trim_end_matches('0') } else { fraction };
    Some(match fraction {
        "" => format!("{sign}{whole}"),
        fraction => format!("{sign}{}.{fraction}", if whole.is_empty() { "0" } else { whole }),
    })
}

/// Reads a decimal in binary form as text; `None` if it is none.
pub(super) fn read(bytes: &[u8]) -> Option<String> {
    let field =
        |index: usize| Some(i16::from_be_bytes(bytes.get(index * 2..index * 2 + 2)?.try_into().ok()?));
    let (count, weight, sign, scale) = (field(0)?, i32::from(field(1)?), field(2)? as u16, field(3)?);
    match sign {
        0 | 0x4000 => {}
        0xc000 => return Some("NaN".to_owned()),
        0xd000 => return Some("Infinity".to_owned()),
        0xf000 => return Some("-Infinity".to_owned()),
        _ => return None,
    }
    let (count, scale) = (usize::try_from(count).ok()?, usize::try_from(scale).ok()?);
    if bytes.len() != 8 + count * 2 {
        return None;
    }
    let group = |place: i32| -> Option<i16> {
        match usize::try_from(weight - place) {
            Ok(index) if index < count => field(4 + index).filter(|group| (0..10_000).contains(group)),
            _ => Some(0),
        }
    };
    let mut text = if sign == 0x4000 { "-".to_owned() } else { String::new() };
    for place in (0..=weight.max(0)).rev() {
        let digits = group(place)?;
        text += &(if place == weight.max(0) { digits.to_string() } else { format!("{digits:04}") });
    }
    if scale > 0 {
        let mut fraction = String::new();
        for place in 1..=scale.div_ceil(4) as i32 {
            fraction += &format!("{:04}", group(-place)?);
        }
        text = text + "." + &fraction[..scale];
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_groups_of_four_digits() {
        let mut bytes = Vec::new();
        write("-12345.678", &mut bytes);
        assert_eq!(bytes, [0, 3, 0, 1, 0x40, 0, 0, 3, 0, 1, 0x09, 0x29, 0x1a, 0x7c]);
    }

    #[test]
    fn an_exponent_moves_the_point() {
        let cases = [
            ("1E+3", "1000"),
            ("1.5e3", "1500"),
            ("-1.2345E+2", "-123.45"),
            ("1E-3", "0.001"),
            (".5e-1", "0.05"),
            ("12.50", "12.50"),
            ("+7", "7"),
            ("0e5", "000000"),
        ];
        for (text, expected) in cases {
            assert_eq!(without_exponent(text).as_deref(), Some(expected), "{text}");
        }
        let far = ["1e77", "1e-77", "1e2147483647", "1e-2147483648"];
        let malformed = ["", ".", "e5", "1e", "1e5e5", "NaN", "1.2.3", "--1", "1_000"];
        for text in far.into_iter().chain(malformed) {
            assert_eq!(without_exponent(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        for text in [
            "0",
            "0.00",
            "1",
            "-1",
            "10000",
            "0.0001",
            "0.00000001",
            "9999.9999",
            "-12345.678",
            "100000000.5",
        ] {
            let mut bytes = Vec::new();
            write(text, &mut bytes);
            assert_eq!(read(&bytes).as_deref(), Some(text));
        }
        for wrong in [&b""[..], b"\0\x01\0\0\0\0\0\0", b"\0\0\0\0\x12\0\0\0", b"\0\x01\0\0\0\0\0\0\x7f\xff"] {
            assert_eq!(read(wrong), None);
        }
    }
}
