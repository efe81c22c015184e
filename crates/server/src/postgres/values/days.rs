//! The days from which PostgreSQL counts.

use tidemill_sql::value_text::calendar::MICROS_PER_DAY;

/// The days from 1 January 1970 to 1 January 2000, from which PostgreSQL counts.
pub(super) const DAYS_TO_2000: i64 = 10_957;

/// The days since 1970 of a date, and the microseconds of a time of day, from what PostgreSQL counts from 2000.
pub(super) fn since_1970(micros_since_2000: i64) -> i64 {
    micros_since_2000.saturating_add(DAYS_TO_2000 * MICROS_PER_DAY)
}
