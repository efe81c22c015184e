//! Lengths of time as people write them.

/// Units with their names and lengths; months and years have none.
const UNITS: &[(&[&str], i64)] = &[
    (&["ns", "nanosecond", "nanoseconds"], 1),
    (&["us", "microsecond", "microseconds"], 1_000),
    (&["ms", "millisecond", "milliseconds"], 1_000_000),
    (&["s", "sec", "second", "seconds"], 1_000_000_000),
    (&["m", "min", "minute", "minutes"], 60_000_000_000),
    (&["h", "hour", "hours"], 3_600_000_000_000),
    (&["d", "day", "days"], 86_400_000_000_000),
    (&["w", "week", "weeks"], 604_800_000_000_000),
];

/// The nanoseconds of `20 ms`, `1.5 seconds`, `1 minute 30 seconds`; `None` if it is no length of time, or one
/// that does not fit.
///
/// ```
/// assert_eq!(tidemill_sql::duration_ns("1 minute 30 seconds"), Some(90_000_000_000));
/// assert_eq!(tidemill_sql::duration_ns("20ms"), Some(20_000_000));
/// assert_eq!(tidemill_sql::duration_ns("soon"), None);
/// ```
pub fn parse_ns(text: &str) -> Option<i64> {
    let mut rest = text.trim();
    let mut total_ns: i64 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number = &rest[..digits];
        rest = rest[digits..].trim_start();
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = rest[..letters].to_ascii_lowercase();
        rest = rest[letters..].trim_start();
        let unit_ns = UNITS.iter().find(|(names, _)| names.contains(&unit.as_str()))?.1;
        total_ns = total_ns.checked_add(multiply(number, unit_ns)?)?;
    }
    Some(total_ns)
}

/// `number` times a unit, exactly where the number has no fraction.
fn multiply(number: &str, unit_ns: i64) -> Option<i64> {
    if let Ok(whole) = number.parse::<i64>() {
        return whole.checked_mul(unit_ns);
    }
    let product = number.parse::<f64>().ok()? * unit_ns as f64;
    (product < i64::MAX as f64).then_some(product.round() as i64)
}

/// A length as people read it: in the largest unit in which it is whole.
pub(crate) fn display_ns(length_ns: i64) -> String {
    let whole = |unit_ns: i64| length_ns % unit_ns == 0 && length_ns != 0;
    let unit = UNITS.iter().rev().find(|(names, unit_ns)| names[0] != "w" && whole(*unit_ns));
    match unit {
        Some((names, unit_ns)) => format!("{} {}", length_ns / unit_ns, names[0]),
        None => format!("{length_ns} ns"),
    }
}
