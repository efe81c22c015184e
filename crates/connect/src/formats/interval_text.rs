//! Intervals as PostgreSQL writes them: `1 year 2 mons -3 days +04:05:06.7`.

/// An interval with its hours, minutes and seconds in units, which Arrow reads, if PostgreSQL would write them with colons; `None` if
/// there is nothing to change, or it is not such an interval.
///
/// ```
/// use tidemill_connect::formats::interval_in_units;
/// let interval = interval_in_units("1 day -02:03:04.5");
/// assert_eq!(interval.as_deref(), Some("1 day -2 hours -3 minutes -04.5 seconds"));
/// assert_eq!(interval_in_units("1 day"), None);
/// ```
pub fn interval_in_units(text: &str) -> Option<String> {
    let mut words: Vec<String> = text.split_ascii_whitespace().map(str::to_owned).collect();
    let is_signed = words.iter().any(|word| word.starts_with('+'));
    match words.last().filter(|word| word.contains(':')).map(|clock| clock_in_units(clock)) {
        Some(clock) => *words.last_mut()? = clock?,
        None if !is_signed => return None,
        None => {}
    }
    // PostgreSQL writes the sign where it changes; Arrow does not know `+`.
    let words = words.iter().map(|word| word.strip_prefix('+').unwrap_or(word));
    Some(words.collect::<Vec<_>>().join(" "))
}

/// `-04:05:06.7`; without the seconds, these are hours and minutes.
fn clock_in_units(clock: &str) -> Option<String> {
    let (sign, digits) = match clock.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", clock.strip_prefix('+').unwrap_or(clock)),
    };
    let parts: Vec<&str> = digits.split(':').collect();
    let (hours, minutes, seconds) = match parts.as_slice() {
        [hours, minutes] => (hours, minutes, &"0"),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_below_60 = |part: &str| part.parse::<u8>().is_ok_and(|part| part < 60);
    let is_clock = [hours, minutes, whole, fraction].into_iter().all(is_number)
        && fraction.len() <= 9
        && is_below_60(minutes)
        && is_below_60(whole);
    let hours: u64 = hours.parse().ok()?;
    let minutes: u8 = minutes.parse().ok()?;
    let seconds = if fraction == "0" { whole.to_owned() } else { format!("{whole}.{fraction}") };
    is_clock.then(|| format!("{sign}{hours} hours {sign}{minutes} minutes {sign}{seconds} seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_postgresql_writes_is_read() {
        let cases = [
            ("00:00:01", "0 hours 0 minutes 01 seconds"),
            ("-00:00:00.25", "-0 hours -0 minutes -00.25 seconds"),
            ("1 year 2 mons -3 days +04:05:06.7", "1 year 2 mons -3 days 4 hours 5 minutes 06.7 seconds"),
            ("-1 mons +1 day", "-1 mons 1 day"),
            ("100:30", "100 hours 30 minutes 0 seconds"),
        ];
        for (text, expected) in cases {
            assert_eq!(interval_in_units(text).as_deref(), Some(expected), "{text}");
        }
        for text in [
            "",
            "1 hour",
            "00:60:00",
            "00:00:61",
            "1:2:3:4",
            ":",
            "1:",
            "a:b",
            "00:00:00.1234567891",
            "--1:00",
        ] {
            assert_eq!(interval_in_units(text), None, "{text}");
        }
    }
}
