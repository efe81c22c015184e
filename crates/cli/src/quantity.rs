//! Numbers in human-readable form.

use std::time::Duration;

/// `2017184` as `2,017,184`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun: `1 event`, `2,017,184 events`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// With three digits and a letter: `950`, `12.3 k`, `2.40 M`.
pub(crate) fn short(number: f64) -> String {
    let (number, letter) = match number {
        number if number < 999.5 => return format!("{number:.0}"),
        number if number < 999_500.0 => (number / 1e3, "k"),
        number if number < 999_500_000.0 => (number / 1e6, "M"),
        number => (number / 1e9, "G"),
    };
    format!("{} {letter}", three_digits(number))
}

/// With three digits and its noun: `1 row`, `12.3 k rows`.
#[cfg(feature = "sql")]
pub(crate) fn counted_short(number: f64, noun: &str) -> String {
    let text = short(number);
    let plural = if text == "1" { "" } else { "s" };
    format!("{text} {noun}{plural}")
}

/// With three digits and a unit: `870 us`, `12.3 ms`, `2.40 s`.
pub(crate) fn time(duration: Duration) -> String {
    let micros = duration.as_nanos() as f64 / 1e3;
    match micros {
        micros if micros < 999.5 => format!("{micros:.0} us"),
        micros if micros < 999_500.0 => format!("{} ms", three_digits(micros / 1e3)),
        micros => format!("{} s", three_digits(micros / 1e6)),
    }
}

/// With three digits and a unit: `18.2 GB`.
pub(crate) fn bytes(number: u64) -> String {
    format!("{}B", short(number as f64))
}

/// A second of the simulated run as `1:02:03`.
pub(crate) fn clock(second: u32) -> String {
    format!("{}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// `part` of `whole` in percent.
pub(crate) fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.0} %", 100.0 * part / whole) } else { "-".to_owned() }
}

fn three_digits(number: f64) -> String {
    match number {
        number if number < 9.995 => format!("{number:.2}"),
        number if number < 99.95 => format!("{number:.1}"),
        number => format!("{number:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_separators() {
        assert_eq!([0, 999, 1000, 2_017_184].map(count), ["0", "999", "1,000", "2,017,184"]);
    }

    #[test]
    fn one_is_no_plural() {
        assert_eq!(
            [0, 1, 2000].map(|number| counted(number, "event")),
            ["0 events", "1 event", "2,000 events"]
        );
    }

    #[cfg(feature = "sql")]
    #[test]
    fn one_in_short_is_no_plural_either() {
        let numbers = [0.4, 1.0, 1.3, 1.6, 1000.0];
        let texts = numbers.map(|number| counted_short(number, "row"));
        assert_eq!(texts, ["0 rows", "1 row", "1 row", "2 rows", "1.00 k rows"]);
    }

    #[test]
    fn short_numbers_have_three_digits() {
        let numbers = [0.0, 999.4, 999.6, 12_345.0, 999_499.0, 2.4e6, 3.0e9];
        assert_eq!(numbers.map(short), ["0", "999", "1.00 k", "12.3 k", "999 k", "2.40 M", "3.00 G"]);
    }

    #[test]
    fn times_have_a_unit() {
        let times = [Duration::from_nanos(1_500), Duration::from_micros(12_340), Duration::from_secs(150)];
        assert_eq!(times.map(time), ["2 us", "12.3 ms", "150 s"]);
        assert_eq!(clock(3723), "1:02:03");
    }
}
