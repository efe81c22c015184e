//! Dates and times: days and microseconds, and how they are written.

use arrow_schema::TimeUnit;

/// The microseconds of a day.
pub const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Returns the microseconds of a number of units; what is finer is cut off, towards the past.
pub fn micros(value: i64, unit: &TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => value.saturating_mul(1_000_000),
        TimeUnit::Millisecond => value.saturating_mul(1_000),
        TimeUnit::Microsecond => value,
        TimeUnit::Nanosecond => value.div_euclid(1_000),
    }
}

/// Returns a day as `2026-11-22`. Years before the first one end with ` BC`, which is for the caller to write.
pub fn date(days: i64) -> (String, bool) {
    let (year, month, day) = civil(days);
    let is_before = year <= 0;
    let year = if is_before { 1 - year } else { year };
    (format!("{year:04}-{month:02}-{day:02}"), is_before)
}

/// Returns the nanoseconds of a number of units that [`micros`] cuts off.
pub fn finer(value: i64, unit: &TimeUnit) -> i64 {
    if *unit == TimeUnit::Nanosecond { value.rem_euclid(1_000) } else { 0 }
}

/// Returns a time of day as `17:05:00.25`, without the zeros at the end; `finer` is its nanoseconds beside the microseconds.
pub fn time(micros: i64, finer: i64) -> String {
    let (seconds, fraction) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000) * 1_000 + finer);
    let time = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    match fraction {
        0 => time,
        fraction => format!("{time}.{}", format!("{fraction:09}").trim_end_matches('0')),
    }
}

/// Returns a point in time as `2026-11-22 17:05:00.25`, with `zone` behind the time.
pub fn timestamp(micros: i64, finer: i64, zone: &str) -> String {
    let (date, is_before) = date(micros.div_euclid(MICROS_PER_DAY));
    let time = time(micros.rem_euclid(MICROS_PER_DAY), finer);
    format!("{date} {time}{zone}{}", if is_before { " BC" } else { "" })
}

/// Returns an interval as PostgreSQL writes it: `1 year 2 mons -3 days 04:05:06.7`.
pub fn interval(months: i64, days: i64, micros: i64, finer: i64) -> String {
    let mut parts = Vec::new();
    let mut was_negative = false;
    for (count, unit) in [(months / 12, "year"), (months % 12, "mon"), (days, "day")] {
        if count != 0 {
            let sign = if was_negative && count > 0 { "+" } else { "" };
            let plural = if count == 1 { "" } else { "s" };
            parts.push(format!("{sign}{count} {unit}{plural}"));
            was_negative = count < 0;
        }
    }
    if micros != 0 || finer != 0 || parts.is_empty() {
        // Of a negative number, `finer` is what is missing from the next microsecond.
        let (size, rest) = match (micros, finer) {
            (..0, 1..) => (micros.saturating_add(1).saturating_abs(), 1_000 - finer),
            _ => (micros.saturating_abs(), finer),
        };
        let sign = match micros {
            ..0 => "-",
            _ if was_negative => "+",
            _ => "",
        };
        parts.push(format!("{sign}{}", time(size, rest)));
    }
    parts.join(" ")
}

/// The year, month and day of a day since 1970, in the Gregorian calendar without end or beginning.
fn civil(days: i64) -> (i64, i64, i64) {
    // From 1 March of the year 0, in eras of 400 years.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        let dates = [
            (0, "1970-01-01", false),
            (11_016, "2000-02-29", false),
            (20_779, "2026-11-22", false),
            (-719_528, "0001-01-01", true),
            (-719_162, "0001-01-01", false),
            (2_932_897, "10000-01-01", false),
        ];
        for (days, text, is_before) in dates {
            assert_eq!(date(days), (text.to_owned(), is_before), "{days}");
        }
    }

    #[test]
    fn days_are_those_of_another_calendar() {
        use chrono::{Datelike, NaiveDate};
        let days_to_1970 = NaiveDate::from_ymd_opt(1970, 1, 1).unwrap().num_days_from_ce();
        for days in (-95_000_000..=95_000_000).step_by(997) {
            let date = NaiveDate::from_num_days_from_ce_opt(days_to_1970 + days).unwrap();
            let expected = (i64::from(date.year()), i64::from(date.month()), i64::from(date.day()));
            assert_eq!(civil(days.into()), expected, "{days}");
        }
    }

    #[test]
    fn times_are_written_as_postgresql_writes_them() {
        assert_eq!(timestamp(-1, 0, "+00"), "1969-12-31 23:59:59.999999+00");
        assert_eq!(timestamp(1_500_000, 0, ""), "1970-01-01 00:00:01.5");
        assert_eq!(interval(14, -3, 14_706_700_000, 0), "1 year 2 mons -3 days +04:05:06.7");
        assert_eq!(interval(0, 0, 0, 0), "00:00:00");
        assert_eq!(interval(0, 0, -1, 999), "-00:00:00.000000001");
        assert_eq!(interval(0, 0, -2, 500), "-00:00:00.0000015");
        assert_eq!(time(1, 5), "00:00:00.000001005");
        assert_eq!(interval(0, 0, -1_000_000, 0), "-00:00:01");
        assert_eq!(interval(-1, 1, 0, 0), "-1 mons +1 day");
    }
}
