//! Intervals as PostgreSQL writes them: `1 year 2 mons -3 days +04:05:06.7`, and as ISO 8601 does: `P1Y2M-3DT4H5M6.7S`.

/// An interval in units, which Arrow reads, if it is written with colons or as in ISO 8601; `None` if there is nothing to
/// change, or it is not such an interval.
///
/// ```
/// use tidemill_connect::formats::interval_in_units;
/// let interval = interval_in_units("1 day -02:03:04.5");
/// assert_eq!(interval.as_deref(), Some("1 day -2 hours -3 minutes -04.5 seconds"));
/// assert_eq!(interval_in_units("PT8H42M57S").as_deref(), Some("8 hours 42 minutes 57 seconds"));
/// assert_eq!(interval_in_units("1 day"), None);
/// ```
pub fn interval_in_units(text: &str) -> Option<String> {
    let iso = text.trim_ascii();
    if let Some((sign, parts)) = iso
        .strip_prefix('P')
        .map(|parts| ("", parts))
        .or_else(|| iso.strip_prefix("-P").map(|parts| ("-", parts)))
    {
        return iso_in_units(sign, parts);
    }
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

/// `1Y2M-3DT4H5M6.7S`, with a sign for all parts.
fn iso_in_units(sign: &str, parts: &str) -> Option<String> {
    let (dates, times) = match parts.split_once('T') {
        Some((_, "")) => return None,
        Some((dates, times)) => (dates, times),
        None => (parts, ""),
    };
    let mut units = Vec::new();
    let known = [
        (dates, [('Y', "years"), ('M', "months"), ('W', "weeks"), ('D', "days")].as_slice()),
        (times, [('H', "hours"), ('M', "minutes"), ('S', "seconds")].as_slice()),
    ];
    for (mut parts, mut names) in known {
        while !parts.is_empty() {
            let (number, rest) = parts.split_at(parts.find(|char: char| char.is_ascii_alphabetic())?);
            let letter = rest.chars().next()?;
            // Each unit comes once, the larger ones first.
            let place = names.iter().position(|(known, _)| *known == letter)?;
            units.push(format!("{} {}", signed(sign, number)?, names[place].1));
            (parts, names) = (&rest[1..], &names[place + 1..]);
        }
    }
    (!units.is_empty()).then(|| units.join(" "))
}

/// A number with its own sign and the one in front of all.
fn signed(sign: &str, number: &str) -> Option<String> {
    let (own, digits) = match number.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let sign = if own == sign { "" } else { "-" };
    (is_number(whole) && is_number(fraction)).then(|| format!("{sign}{digits}"))
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
            ("P1Y2M-3DT4H5M6.7S", "1 years 2 months -3 days 4 hours 5 minutes 6.7 seconds"),
            ("-P1WT-5S", "-1 weeks 5 seconds"),
            ("P0D", "0 days"),
            ("PT31377S", "31377 seconds"),
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
            "P",
            "PT",
            "P1",
            "P1S",
            "PT1D",
            "P1D2Y",
            "P1DT",
            "P--1D",
            "P1.D",
        ] {
            assert_eq!(interval_in_units(text), None, "{text}");
        }
    }
}
