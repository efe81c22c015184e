//! Intervals as PostgreSQL writes and reads them: `1 year 2 mons -3 days +04:05:06.7`, `3 4:05:06`, `1-2`, `1h30m`, `@ 6 months ago`, and as
//! ISO 8601 writes them: `P1Y2M-3DT4H5M6.7S`.

/// Returns an interval in units, which Arrow reads, if it is written in another way; `None` if there is nothing to change, or it is
/// not such an interval.
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
    let given: Vec<&str> = text.split_ascii_whitespace().collect();
    let (given, is_ago) = match given.as_slice() {
        [given @ .., ago] if ago.eq_ignore_ascii_case("ago") && !given.is_empty() => (given, true),
        given => (given, false),
    };
    let given = given.strip_prefix(&["@"]).unwrap_or(given);
    let last = given.len().checked_sub(1)?;
    let mut words: Vec<String> = Vec::with_capacity(given.len());
    let mut sign = "";
    for (at, word) in given.iter().enumerate() {
        // A sign may stand apart.
        if ["-", "+"].contains(word) && sign.is_empty() {
            sign = word;
            continue;
        }
        let word = format!("{}{word}", std::mem::take(&mut sign));
        let is_before_clock = at + 1 == last && given[last].contains(':');
        if at == last && word.contains(':') {
            words.push(clock_in_units(&word)?);
        } else if let Some(years) = years_in_units(&word) {
            words.push(years);
        } else if is_before_clock && is_whole(&word) {
            words.push(format!("{word} days"));
        } else if let Some(parts) = compact_in_units(&word) {
            words.push(parts);
        } else if let (true, Some(count)) = (is_millennium(&word), words.last_mut()) {
            *count = format!("{}000", count.parse::<i32>().ok()?);
            words.push("years".to_owned());
        } else {
            words.push(word);
        }
    }
    // PostgreSQL writes the sign where it changes; Arrow does not know `+`.
    let all = words.join(" ");
    let words = all.split(' ').map(|word| word.strip_prefix('+').unwrap_or(word));
    let words: Vec<String> = words.map(|word| if is_ago { negated(word) } else { word.to_owned() }).collect();
    let changed = words.join(" ");
    let is_same =
        changed == given.join(" ") && !is_ago && given.len() == text.split_ascii_whitespace().count();
    (!is_same && sign.is_empty()).then_some(changed)
}

/// A number of the other sign; a unit as it is.
fn negated(word: &str) -> String {
    match word.strip_prefix('-') {
        Some(number) => number.to_owned(),
        None if word.starts_with(|char: char| char.is_ascii_digit() || char == '.') => format!("-{word}"),
        None => word.to_owned(),
    }
}

fn without_sign(word: &str) -> (&str, &str) {
    match word.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", word.strip_prefix('+').unwrap_or(word)),
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_whole(word: &str) -> bool {
    is_digits(without_sign(word).1)
}

/// `1-2`: years and months.
fn years_in_units(word: &str) -> Option<String> {
    let (sign, digits) = without_sign(word);
    let (years, months) =
        digits.split_once('-').filter(|(years, months)| is_digits(years) && is_digits(months))?;
    let is_month = months.parse::<u8>().is_ok_and(|months| months < 12);
    is_month.then(|| format!("{sign}{years} years {sign}{months} months"))
}

/// `1h30m`: numbers and units without blanks.
fn compact_in_units(word: &str) -> Option<String> {
    let (sign, mut rest) = without_sign(word);
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let number = &rest[..rest.find(|char: char| char.is_ascii_alphabetic())?];
        let is_number = number.split('.').count() <= 2 && number.split('.').all(is_digits);
        rest = &rest[number.len()..];
        let unit = &rest[..rest.find(|char: char| !char.is_ascii_alphabetic()).unwrap_or(rest.len())];
        rest = &rest[unit.len()..];
        if !is_number || unit.eq_ignore_ascii_case("e") {
            return None;
        }
        // Only the first number has the sign.
        let sign = if parts.is_empty() { sign } else { "" };
        parts.push(format!("{sign}{number} {unit}"));
    }
    (!parts.is_empty()).then(|| parts.join(" "))
}

fn is_millennium(word: &str) -> bool {
    ["millennium", "millenniums", "millennia", "mil", "mils"]
        .iter()
        .any(|unit| word.eq_ignore_ascii_case(unit))
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
        let others = [
            ("1-2", "1 years 2 months"),
            ("-1-2", "-1 years -2 months"),
            ("3 4:05:06", "3 days 4 hours 5 minutes 06 seconds"),
            ("1h30m", "1 h 30 m"),
            ("6 months ago", "-6 months"),
            ("@ 1 hour", "1 hour"),
            ("- 1 day", "-1 day"),
            ("2 millennia", "2000 years"),
        ];
        for (text, expected) in cases.into_iter().chain(others) {
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
