//! Parses durations and sizes in human notation.

use datafusion::sql::sqlparser::ast;

const DURATIONS: &str = "ns, us, ms, s, min, h, d or w, as in '20 ms', '5 seconds' or '1 hour 30 minutes'";

/// The nanoseconds of `20 ms`, `5 seconds`, `1.5 h`, `1 hour 30 minutes`.
///
/// # Errors
/// Why the text is not a duration, without a place.
///
/// ```
/// assert_eq!(tidemill_sql::parse_duration_ns("20 ms"), Ok(20_000_000));
/// ```
pub fn parse_duration_ns(text: &str) -> Result<i64, String> {
    let mut total_ns = 0_i128;
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(format!("an empty duration; use {DURATIONS}"));
    }
    while !rest.is_empty() {
        let (number, unit, behind) = next_amount(rest);
        let unit_ns = unit_ns(unit).map_err(|why| format!("'{text}' is not a duration: {why}"))?;
        let part =
            scale(number, unit_ns).ok_or_else(|| format!("'{text}' is not a duration; use {DURATIONS}"))?;
        total_ns = total_ns.saturating_add(part);
        rest = behind;
    }
    i64::try_from(total_ns).map_err(|_| format!("'{text}' is longer than 292 years, the longest duration"))
}

/// The bytes of `64`, `64 KB`, `256 MB`, `1.5 GiB`. Units are powers of 1024, with or without the `i`.
///
/// # Errors
/// Why the text is not a size, without a place.
///
/// ```
/// assert_eq!(tidemill_sql::parse_bytes("256 MB"), Ok(256 << 20));
/// ```
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let why = || format!("'{text}' is not a size; use B, KB, MB, GB or TB, as in '256 MB'");
    let (number, unit, rest) = next_amount(text.trim());
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" | "byte" | "bytes" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(why()),
    };
    if !rest.is_empty() {
        return Err(why());
    }
    let bytes = scale(number, 1_i128 << shift).ok_or_else(why)?;
    u64::try_from(bytes).map_err(|_| why())
}

/// The nanoseconds of an `INTERVAL '5 seconds'` or `INTERVAL '5' SECOND`.
pub(crate) fn interval_ns(interval: &ast::Interval) -> Result<i64, String> {
    let text = match interval.value.as_ref() {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) | ast::Value::DoubleQuotedString(text) => text.clone(),
            ast::Value::Number(number, _) => number.clone(),
            _ => return Err(format!("INTERVAL needs a string; use {DURATIONS}")),
        },
        _ => return Err(format!("INTERVAL needs a string; use {DURATIONS}")),
    };
    if interval.last_field.is_some() {
        return Err(format!("an INTERVAL of two fields cannot be read; use {DURATIONS}"));
    }
    match &interval.leading_field {
        Some(field) => parse_duration_ns(&format!("{text} {field}")),
        None => parse_duration_ns(&text),
    }
}

/// Splits `20 ms rest` into number, unit and rest.
fn next_amount(text: &str) -> (&str, &str, &str) {
    let is_number = |char: char| char.is_ascii_digit() || matches!(char, '.' | '+' | '-' | '_');
    let number_end = text.find(|char| !is_number(char)).unwrap_or(text.len());
    let (number, rest) = text.split_at(number_end);
    let rest = rest.trim_start();
    let unit_end = rest.find(|char: char| !char.is_alphabetic()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(unit_end);
    (number, unit, rest.trim_start())
}

fn unit_ns(unit: &str) -> Result<i128, String> {
    const SECOND: i128 = 1_000_000_000;
    Ok(match unit.to_lowercase().as_str() {
        "ns" | "nanosecond" | "nanoseconds" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" | "microsecond" | "microseconds" => 1_000,
        "ms" | "millisecond" | "milliseconds" => 1_000_000,
        "s" | "sec" | "secs" | "second" | "seconds" => SECOND,
        "m" | "min" | "mins" | "minute" | "minutes" => 60 * SECOND,
        "h" | "hour" | "hours" => 3_600 * SECOND,
        "d" | "day" | "days" => 86_400 * SECOND,
        "w" | "week" | "weeks" => 604_800 * SECOND,
        "month" | "months" | "year" | "years" | "mon" | "y" => {
            return Err("months and years differ in length; use days".to_owned());
        }
        "" => return Err(format!("the unit is missing; use {DURATIONS}")),
        _ => return Err(format!("unknown unit `{unit}`; use {DURATIONS}")),
    })
}

/// A decimal number times an integer unit, rounded down; `None` if it is not a number or too large.
fn scale(number: &str, unit: i128) -> Option<i128> {
    let (negative, digits) = match number.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    if (whole.is_empty() && fraction.is_empty()) || !plain(whole) || !plain(fraction) || fraction.len() > 15 {
        return None;
    }
    let whole: i128 = format!("0{}", whole.replace('_', "")).parse().ok()?;
    let fraction = fraction.replace('_', "");
    let divisor = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part: i128 = format!("0{fraction}").parse().ok()?;
    let total = whole.checked_mul(unit)?.checked_add(part.checked_mul(unit)? / divisor)?;
    Some(if negative { -total } else { total })
}

/// A duration in human notation: in the largest unit of which it is a whole number.
pub(crate) fn display_ns(length_ns: i64) -> String {
    const UNITS: [(&str, i64); 7] = [
        ("d", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("min", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ];
    let unit = UNITS.iter().find(|(_, unit_ns)| length_ns != 0 && length_ns % unit_ns == 0);
    let (name, unit_ns) = unit.unwrap_or(&("ns", 1));
    format!("{} {name}", length_ns / unit_ns)
}
