//! Times as PostgreSQL's settings have them: a number of milliseconds, or a number with a unit.

use std::time::Duration;

/// The units, with their microseconds; the largest one first.
const UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1000),
    ("us", 1),
];

/// The longest time, in milliseconds.
const MILLISECONDS_MAX: f64 = i32::MAX as f64;

/// The milliseconds that a text says; the error says what is wrong with it.
pub(crate) fn milliseconds(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "'{text}' is not a time; write milliseconds, or a unit: 500, '500ms', '2s', '1min', 0 for none"
        )
    };
    let trimmed = text.trim();
    let end =
        trimmed.find(|letter: char| !(letter.is_ascii_digit() || letter == '.')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let unit = match unit.trim() {
        "" => "ms",
        unit => unit,
    };
    let (_, us) = UNITS.iter().find(|(known, _)| *known == unit).ok_or_else(wrong)?;
    let milliseconds = (number * *us as f64 / 1000.0).round();
    if milliseconds <= MILLISECONDS_MAX {
        Ok(milliseconds as u64)
    } else {
        Err(format!("'{text}' is longer than {MILLISECONDS_MAX} ms"))
    }
}

/// The text of a time, in the largest unit in which it is a whole number.
pub(crate) fn shown(milliseconds: u64) -> String {
    let us = milliseconds * 1000;
    match UNITS.iter().find(|(_, unit)| us > 0 && us.is_multiple_of(*unit)) {
        Some((unit, size)) => format!("{}{unit}", us / size),
        None => "0".to_owned(),
    }
}

/// The time that a setting's text says; `None`: there is no limit.
pub(crate) fn time(text: &str) -> Option<Duration> {
    milliseconds(text).ok().filter(|milliseconds| *milliseconds > 0).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_shown_as_postgresql_does() {
        for (text, expected) in [
            ("0", "0"),
            ("200", "200ms"),
            ("1000", "1s"),
            ("1500", "1500ms"),
            ("60s", "1min"),
            ("90 s", "90s"),
            ("1.5s", "1500ms"),
            ("2h", "2h"),
            ("1d", "1d"),
            ("1600us", "2ms"),
        ] {
            assert_eq!(shown(milliseconds(text).unwrap()), expected, "{text}");
        }
        for wrong in ["", "x", "-1", "5 weeks", "1S", "30d", "1.2.3s", "nan"] {
            assert!(milliseconds(wrong).is_err(), "{wrong}");
        }
        assert_eq!(time("0"), None);
        assert_eq!(time("2min"), Some(Duration::from_secs(120)));
    }
}
