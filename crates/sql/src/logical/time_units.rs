//! The names of units of time and of parts of times, as PostgreSQL reads them.

/// A unit, or a part that is not a unit, such as the day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimePart {
    Nanosecond,
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    IsoYear,
    Julian,
    Epoch,
    Timezone,
    TimezoneHour,
    TimezoneMinute,
}

use TimePart::{
    Century, Day, DayOfWeek, DayOfYear, Decade, Epoch, Hour, IsoDayOfWeek, IsoYear, Julian, Microsecond,
    Millennium, Millisecond, Minute, Month, Nanosecond, Quarter, Second, Timezone, TimezoneHour,
    TimezoneMinute, Week, Year,
};

/// The names of each; the first is the one that messages use.
const NAMES: [(TimePart, &[&str]); 23] = [
    (Nanosecond, &["nanosecond", "nanoseconds", "ns"]),
    (Microsecond, &["microsecond", "microseconds", "us", "usec", "usecs", "usecond", "useconds"]),
    (Millisecond, &["millisecond", "milliseconds", "ms", "msec", "msecs", "msecond", "mseconds"]),
    (Second, &["second", "seconds", "s", "sec", "secs"]),
    (Minute, &["minute", "minutes", "m", "min", "mins"]),
    (Hour, &["hour", "hours", "h", "hr", "hrs"]),
    (Day, &["day", "days", "d"]),
    (Week, &["week", "weeks", "w"]),
    (Month, &["month", "months", "mon", "mons"]),
    (Quarter, &["quarter", "qtr"]),
    (Year, &["year", "years", "y", "yr", "yrs"]),
    (Decade, &["decade", "decades", "dec", "decs"]),
    (Century, &["century", "centuries", "c", "cent"]),
    (Millennium, &["millennium", "millenium", "millennia", "mil", "mils"]),
    (DayOfWeek, &["dow"]),
    (IsoDayOfWeek, &["isodow"]),
    (DayOfYear, &["doy"]),
    (IsoYear, &["isoyear"]),
    (Julian, &["julian", "j", "jd"]),
    (Epoch, &["epoch"]),
    (Timezone, &["timezone"]),
    (TimezoneHour, &["timezone_hour", "timezone_h"]),
    (TimezoneMinute, &["timezone_minute", "timezone_m"]),
];

impl TimePart {
    /// Returns the part of that name, in any case.
    pub(crate) fn named(name: &str) -> Option<TimePart> {
        let name = name.trim().to_ascii_lowercase();
        NAMES.iter().find(|(_, names)| names.contains(&name.as_str())).map(|(part, _)| *part)
    }

    /// Returns its name.
    pub(crate) fn name(self) -> &'static str {
        NAMES.iter().find(|(part, _)| *part == self).map_or("", |(_, names)| names[0])
    }

    /// Tells whether times can be truncated to it.
    pub(crate) fn truncates(self) -> bool {
        NAMES[1..14].iter().any(|(part, _)| *part == self)
    }

    /// Lists the names of all parts, or of those to which times can be truncated.
    pub(crate) fn listed(only_units: bool) -> String {
        let parts = NAMES.iter().filter(|(part, _)| !only_units || part.truncates());
        parts.map(|(_, names)| names[0]).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the first year of the decade, century or millennium of a year, as PostgreSQL counts them: the 21st century begins with
/// 2001. Years count as in ISO 8601, where 0 is 1 BC.
pub(super) fn first_year(part: TimePart, year: i32) -> i32 {
    match part {
        Decade => year.div_euclid(10) * 10,
        Century => (year - 1).div_euclid(100) * 100 + 1,
        Millennium => (year - 1).div_euclid(1000) * 1000 + 1,
        _ => year,
    }
}

/// Returns the number of the decade, century or millennium of a year; there is no century 0.
pub(super) fn number_of(part: TimePart, year: i32) -> i32 {
    let counted = |years: i32| {
        let number = (year - 1).div_euclid(years) + 1;
        if year > 0 { number } else { number - 1 }
    };
    match part {
        Decade => year.div_euclid(10),
        Century => counted(100),
        Millennium => counted(1000),
        _ => year,
    }
}
