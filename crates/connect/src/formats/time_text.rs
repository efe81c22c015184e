//! Texts of dates and times as people and programs write them: `2026-01-31 12:30`, `2026-1-5T9:05:08.5Z`,
//! `20260131T123005+0200`, `2026-01-31 24:00:00 Europe/Berlin`.

use arrow_array::temporal_conversions::timestamp_s_to_datetime;
use arrow_array::timezone::Tz;
use arrow_cast::parse::string_to_datetime;

const DAY: i64 = 86_400;
const HOUR: i64 = 3_600;

/// A time as it is written, which its zone makes a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeText<'a> {
    /// Days since 1970.
    pub(super) day: i64,
    /// Seconds since the beginning of that day. There may be 86,400: `24:00` is the end of a day.
    second: i64,
    nanosecond: u32,
    zone: &'a str,
}

impl<'a> TimeText<'a> {
    /// Takes a text apart; `None` if it is not a time.
    pub(super) fn parse(text: &'a str) -> Option<TimeText<'a>> {
        TimeText::in_digits(text).or_else(|| TimeText::in_words(text))
    }

    /// A time in digits, as ISO 8601 and its relatives have it.
    fn in_digits(text: &'a str) -> Option<TimeText<'a>> {
        let mut rest = Rest(text.as_bytes());
        let (day, is_basic) = rest.date()?;
        if rest.0.is_empty() {
            // Eight digits alone may be any number.
            return (!is_basic).then_some(TimeText { day, second: 0, nanosecond: 0, zone: "" });
        }
        match rest.0 {
            [b'T' | b't', after @ ..] => rest.0 = after,
            [b' ', ..] => rest.0 = rest.0.trim_ascii_start(),
            _ => return None,
        }
        let (second, nanosecond) = rest.clock()?;
        let zone = text[text.len() - rest.0.len()..].trim_ascii();
        Some(TimeText { day, second, nanosecond, zone })
    }

    /// Returns whether a time is written in digits.
    pub(super) fn is_in_digits(text: &str) -> bool {
        TimeText::in_digits(text).is_some()
    }

    /// A date whose month is a word, or with slashes or periods behind the year: `31 Jan 2026 12:30`, `January 31, 2026`,
    /// `Sat Jan 31 12:30:05 2026`, `2026-Jan-31`, `2026/01/31`. Which of `01/02/2026` is the month, nobody knows.
    fn in_words(text: &'a str) -> Option<TimeText<'a>> {
        let words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
        let (first, rest) = words.split_first()?;
        // Everything but the clock and the zone is the date.
        let place_of_clock = rest.iter().position(|word| word.contains(':')).map(|at| at + 1);
        let is_year = |word: &str| word.len() == 4 && word.bytes().all(|byte| byte.is_ascii_digit());
        let mut parts: Vec<&str> = Vec::new();
        let mut behind = place_of_clock.map_or(words.len(), |at| at + 1);
        for word in &words[..place_of_clock.unwrap_or(words.len())] {
            parts.extend(word.split(['-', '/', '.']));
        }
        // The year of `ctime`.
        if let Some(year) = words.get(behind).filter(|year| is_year(year) && parts.len() <= 3) {
            parts.push(year);
            behind += 1;
        }
        if !first.starts_with(|char: char| char.is_ascii_digit()) && parts.len() == 4 && is_weekday(parts[0])
        {
            parts.remove(0);
        }
        let [a, b, c] = <[&str; 3]>::try_from(parts).ok()?;
        let (year, month, day) = if is_year(a) {
            (a, month_of(b).or_else(|| number_of(b))?, c)
        } else if let Some(month) = month_of(a) {
            (c, month, b)
        } else {
            (c, month_of(b)?, a)
        };
        let day = days(number_of(year).filter(|_| is_year(year))?, month, number_of(day)?)?;
        let mut time = TimeText { day, second: 0, nanosecond: 0, zone: "" };
        if let Some(at) = place_of_clock {
            // With `PM`, which may stand apart.
            let is_half = |word: &&&str| word.eq_ignore_ascii_case("am") || word.eq_ignore_ascii_case("pm");
            let half = words.get(behind).filter(is_half);
            let clock = half.map_or_else(|| words[at].to_owned(), |half| format!("{} {half}", words[at]));
            let mut rest = Rest(clock.as_bytes());
            (time.second, time.nanosecond) = rest.clock()?;
            // A zone may follow without a blank.
            time.zone = if half.is_none() { &words[at][words[at].len() - rest.0.len()..] } else { "" };
            behind += usize::from(half.is_some());
        }
        match &words[behind.min(words.len())..] {
            [] => Some(time),
            [zone] if place_of_clock.is_some() && time.zone.is_empty() => Some(TimeText { zone, ..time }),
            _ => None,
        }
    }

    /// Returns the nanoseconds since midnight of a time of day: that behind a date counts, and a zone does not.
    pub(super) fn of_day(text: &str) -> Option<i64> {
        let text = text.trim_ascii();
        let clock = text.strip_prefix(['T', 't']).unwrap_or(text);
        let mut rest = Rest(clock.as_bytes());
        let (second, nanosecond) = match rest.clock() {
            Some(found) if is_zone(rest.0) => found,
            _ => {
                let time = TimeText::parse(text).filter(|_| text.contains(':'))?;
                (time.second, time.nanosecond)
            }
        };
        Some(second * 1_000_000_000 + i64::from(nanosecond))
    }

    /// Returns the seconds since 1970, and the nanoseconds within the second; `zone` is that of times without one.
    pub(super) fn point(&self, zone: &Tz, is_utc: bool) -> Option<(i64, u32)> {
        let local = self.day * DAY + self.second;
        let seconds = match self.zone {
            "" if is_utc => local,
            "" => of_zone(local, zone)?,
            "Z" | "z" => local,
            name if name.eq_ignore_ascii_case("utc") || name.eq_ignore_ascii_case("gmt") => local,
            name => match offset(name.as_bytes()) {
                Some(offset) => local - offset,
                None => of_zone(local, &name.parse().ok()?)?,
            },
        };
        Some((seconds, self.nanosecond))
    }
}

/// Whether nothing follows a clock, or a zone.
fn is_zone(rest: &[u8]) -> bool {
    match rest.trim_ascii() {
        [] | b"Z" | b"z" => true,
        zone => {
            offset(zone).is_some() || std::str::from_utf8(zone).is_ok_and(|zone| zone.parse::<Tz>().is_ok())
        }
    }
}

fn number_of(digits: &str) -> Option<i64> {
    digits.parse().ok().filter(|_| digits.len() <= 4 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Whether a word is a name, or its first three letters.
fn is_short_for(name: &str, word: &str) -> bool {
    (word.len() == 3 || word.len() == name.len()) && name[..word.len()].eq_ignore_ascii_case(word)
}

fn month_of(word: &str) -> Option<i64> {
    MONTHS.iter().position(|name| is_short_for(name, word)).map(|at| at as i64 + 1)
}

fn is_weekday(word: &str) -> bool {
    WEEKDAYS.iter().any(|name| is_short_for(name, word))
}

/// The seconds since 1970 of a local time. Where clocks are set back, an hour comes twice, and the second one is meant; where
/// they are set forward, the missing hour continues the time before. Both as in PostgreSQL: the later of two possibilities.
fn of_zone(local: i64, zone: &Tz) -> Option<i64> {
    let point = |local: i64| {
        let text = timestamp_s_to_datetime(local)?.format("%Y-%m-%dT%H:%M:%S").to_string();
        Some(string_to_datetime(zone, &text).ok()?.timestamp())
    };
    let around = || Some((point(local - HOUR)? + HOUR).max(point(local + HOUR)? - HOUR));
    point(local).or_else(around)
}

/// The seconds of `+02`, `-0330`, `+05:30`, `+01:00:30`.
fn offset(zone: &[u8]) -> Option<i64> {
    let (sign, digits) = match zone {
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        _ => return None,
    };
    let mut rest = Rest(digits);
    let (hour, length) = rest.number(2)?;
    let mut seconds = hour * HOUR;
    let has_colon = rest.passes(b':');
    if has_colon || (length == 2 && !rest.0.is_empty()) {
        seconds += rest.below_60()? * 60;
        if has_colon && rest.passes(b':') {
            seconds += rest.below_60()?;
        }
    }
    (rest.0.is_empty() && seconds < DAY).then_some(sign * seconds)
}

/// What is still to be read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn passes(&mut self, wanted: u8) -> bool {
        let is_next = self.0.first() == Some(&wanted);
        self.0 = &self.0[usize::from(is_next)..];
        is_next
    }

    /// The digits that come next, at most this many, and their count.
    fn number(&mut self, digits_max: usize) -> Option<(i64, usize)> {
        let count = self.0.iter().take(digits_max).take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        let value = digits.iter().fold(0, |value, byte| value * 10 + i64::from(byte - b'0'));
        (count > 0).then_some((value, count))
    }

    /// Two digits.
    fn pair(&mut self) -> Option<i64> {
        self.number(2).filter(|(_, count)| *count == 2).map(|(value, _)| value)
    }

    fn below_60(&mut self) -> Option<i64> {
        self.pair().filter(|value| *value < 60)
    }

    /// A date as days since 1970, and whether it is written without hyphens.
    fn date(&mut self) -> Option<(i64, bool)> {
        let before = self.0;
        let is_basic = before.len() >= 8 && before[..8].iter().all(u8::is_ascii_digit);
        if is_basic {
            let (year, month, day) = (self.number(4)?.0, self.pair()?, self.pair()?);
            return Some((days(year, month, day)?, true));
        }
        let sign = if self.passes(b'-') { -1 } else { 1 };
        let is_signed = sign < 0 || self.passes(b'+');
        // A year of more than four digits has a sign.
        let (year, _) = self.number(if is_signed { 6 } else { 4 }).filter(|(_, digits)| *digits >= 4)?;
        let mut part = || if self.passes(b'-') { self.number(2).map(|(value, _)| value) } else { None };
        let (month, day) = (part()?, part()?);
        Some((days(sign * year, month, day)?, false))
    }

    /// A time of day as seconds and nanoseconds: `9:05`, `12:30:05.5`, `123005`, `1:30 PM`.
    fn clock(&mut self) -> Option<(i64, u32)> {
        let has_colons = !(self.0.len() >= 4 && self.0[..4].iter().all(u8::is_ascii_digit));
        let (mut hour, _) = self.number(2)?;
        if has_colons && !self.passes(b':') {
            return None;
        }
        let minute = self.below_60()?;
        let has_second =
            if has_colons { self.passes(b':') } else { self.0.first().is_some_and(u8::is_ascii_digit) };
        let (mut second, mut nanosecond) = (0, 0);
        if has_second {
            // A leap second is the first one of the next minute.
            second = self.number(2)?.0;
            if second > 60 {
                return None;
            }
            if self.passes(b'.') {
                nanosecond = self.fraction()?;
            }
        }
        if let Some(is_afternoon) = self.half_of_day() {
            hour = (1..=12).contains(&hour).then_some(hour % 12 + 12 * i64::from(is_afternoon))?;
        }
        let seconds = hour * HOUR + minute * 60 + second;
        let is_of_day = hour < 24 || (seconds == DAY && nanosecond == 0);
        is_of_day.then_some((seconds, nanosecond))
    }

    /// The nanoseconds of a fraction; digits beyond the ninth are dropped.
    fn fraction(&mut self) -> Option<u32> {
        let (value, digits) = self.number(9)?;
        while self.0.first().is_some_and(u8::is_ascii_digit) {
            self.0 = &self.0[1..];
        }
        u32::try_from(value * 10_i64.pow(9 - digits as u32)).ok()
    }

    /// Whether `PM` comes next, or `AM`; `None`: neither of them.
    fn half_of_day(&mut self) -> Option<bool> {
        let after = self.0.trim_ascii_start();
        let word = after.get(..2)?;
        let is_afternoon = word.eq_ignore_ascii_case(b"pm");
        if !is_afternoon && !word.eq_ignore_ascii_case(b"am")
            || after.get(2).is_some_and(u8::is_ascii_alphabetic)
        {
            return None;
        }
        self.0 = &after[2..];
        Some(is_afternoon)
    }
}

/// Days since 1970 by the Gregorian calendar; `None` if there is no such date.
pub(super) fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_in_month = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if day == 0 || day > days_in_month {
        return None;
    }
    // Years begin in March, so that the leap day is the last one; 719,468 days lie between 0000-03-01 and
    // 1970.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let century = year.div_euclid(100);
    Some(
        year * 365 + year.div_euclid(4) - century + century.div_euclid(4) + (month * 153 + 2) / 5 + day
            - 1
            - 719_468,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(text: &str, zone: &str) -> Option<(i64, u32)> {
        TimeText::parse(text)?.point(&zone.parse().unwrap(), zone == "+00:00")
    }

    /// What PostgreSQL 15 gives for each text, as seconds since 1970.
    #[test]
    fn times_are_read_as_they_are_written_elsewhere() {
        let noon = 1_769_862_600;
        let written = [
            ("2026-01-31 12:30", noon),
            ("2026-01-31T12:30", noon),
            ("2026-01-31T12:30Z", noon),
            ("2026-01-31t12:30z", noon),
            ("2026-01-31   12:30 UTC", noon),
            ("20260131 12:30:05", noon + 5),
            ("20260131T123005", noon + 5),
            ("20260131T123005+0200", noon + 5 - 7200),
            ("2026-01-31 9:05:08", noon - 12_292),
            ("2026-1-5 10:00:00", 1_767_607_200),
            ("2026-01-31 24:00:00", 1_769_904_000),
            ("2026-01-31 24:00", 1_769_904_000),
            ("2026-01-31 23:59:60", 1_769_904_000),
            ("2026-01-31 12:30 PM", noon),
            ("2026-01-31 12:30:00 am", noon - 43_200),
            ("2026-01-31 1:30pm", noon + 3600),
            ("2026-01-31 12:30+02", noon - 7200),
            ("2026-01-31 12:30:00 -03:30", noon + 12_600),
            ("2026-01-31", noon - 45_000),
            ("2026-1-31", noon - 45_000),
            ("2026-01-31 12:30:5", noon + 5),
            ("2026/01/31 12:30", noon),
            ("Jan 31 2026 12:30", noon),
            ("Jan 31, 2026", noon - 45_000),
            ("31 January 2026 12:30:05", noon + 5),
            ("Sat Jan 31 12:30:05 2026", noon + 5),
            ("2026-Jan-31", noon - 45_000),
            ("31 Jan 2026 1:30 pm", noon + 3600),
            ("31 Jan 2026 12:30+02", noon - 7200),
            ("31 Jan 2026 12:30 UTC", noon),
        ];
        for (text, seconds) in written {
            assert_eq!(point(text, "+00:00"), Some((seconds, 0)), "{text}");
        }
        assert_eq!(point("2026-01-31 12:30:05.1234567891", "+00:00"), Some((noon + 5, 123_456_789)));
    }

    #[test]
    fn days_are_those_of_another_calendar() {
        use chrono::{Datelike, NaiveDate};
        let days_to_1970 = i64::from(NaiveDate::from_ymd_opt(1970, 1, 1).unwrap().num_days_from_ce());
        for year in (-262_000..262_000).step_by(41).chain(1890..2110) {
            for (month, day) in (0..14).flat_map(|month| (0..33).map(move |day| (month, day))) {
                let expected = NaiveDate::from_ymd_opt(year, month, day)
                    .map(|date| i64::from(date.num_days_from_ce()) - days_to_1970);
                assert_eq!(days(year.into(), month.into(), day.into()), expected, "{year}-{month}-{day}");
            }
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "17",
            "20260131",
            "2026-01",
            "2026-01-32",
            "2026-13-01",
            "26-01-31",
            "2026-01-31 12",
            "2026-01-31 25:00",
            "2026-01-31 24:00:01",
            "2026-01-31 12:60",
            "2026-01-31 12:30:61",
            "2026-01-31X12:30",
            "2026-01-31 12:30:05.",
            "2026-01-31 13:30 pm",
            "2026-01-31 12:30 Nowhere/X",
            "2026-01-31 12:30+25",
            "2026-01-31 12:30+1:2:3",
            "2026-01-31é",
            "12026-01-31",
            "2026-01-31 12:30Zz",
            "01/31/2026",
            "31.01.2026",
            "Jan 31",
            "31 Foo 2026",
            "Jan 32 2026",
            "31 Jan 26",
            "Jan 31 2026 12:30 UTC UTC",
            "Mon Tue 31 2026",
        ] {
            assert_eq!(point(text, "+00:00"), None, "{text}");
        }
    }

    /// PostgreSQL 15, `SET timezone = 'Europe/Berlin'`, the texts as TIMESTAMP WITH TIME ZONE. Zones have names where the whole
    /// workspace is built.
    #[test]
    fn the_missing_and_the_doubled_hour_are_those_of_postgresql() {
        if "Europe/Berlin".parse::<Tz>().is_err() {
            return;
        }
        assert_eq!(point("2026-01-31 12:30 Europe/Berlin", "+00:00"), Some((1_769_859_000, 0)));
        let berlin = |text: &str| point(text, "Europe/Berlin").map(|(seconds, _)| seconds);
        assert_eq!(berlin("2026-03-29 01:59:59"), Some(1_774_745_999));
        assert_eq!(berlin("2026-03-29 02:30:00"), Some(1_774_747_800));
        assert_eq!(berlin("2026-03-29 03:00:00"), Some(1_774_746_000));
        assert_eq!(berlin("2026-10-25 01:59:59"), Some(1_792_886_399));
        assert_eq!(berlin("2026-10-25 02:30:00"), Some(1_792_891_800));
        assert_eq!(berlin("2026-10-25 03:00:00"), Some(1_792_893_600));
    }
}
