//! Intervals, differences of times, and numbers with many digits.

use super::expression::Expressions;
use super::sql::{Sql, sql};

/// Several of them are equally long.
const LENGTHS: &[&str] = &[
    "1 day",
    "24 hours",
    "25 hours",
    "1 month",
    "30 days",
    "31 days",
    "-1 day",
    "-25 hours",
    "0 seconds",
    "90 minutes",
    "1 hour 30 minutes",
    "1 month -29 days",
    "1 day 01:00:00",
    "365 days",
    "12 months",
    "0.5 seconds",
    "59.999999 seconds",
    "7.5 seconds",
];
const TIMES: &[&str] = &[
    "2024-02-29 12:34:56.789",
    "2024-03-01 12:34:56.789",
    "2024-03-01 13:00:00",
    "1969-12-31 23:59:59.5",
    "1970-01-01 00:00:00",
    "2025-01-01 00:00:07.25",
];
const LONG: &[&str] = &[
    "99999999999999999999.5",
    "99999999999999999999.4",
    "-99999999999999999999.5",
    "12345678901234567.89",
    "12345678.1234567890",
    "123456789012345678901234567",
];
const COMPARISONS: &[&str] = &["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"];
const PARTS: &[&str] = &["day", "hour", "minute", "second", "milliseconds", "microseconds"];

impl Expressions<'_> {
    fn one(&mut self, of: &[&str]) -> Sql {
        Sql::same(self.random.one_of(of))
    }

    fn difference(&mut self) -> Sql {
        sql!("(TIMESTAMP '{}' - TIMESTAMP '{}')", self.one(TIMES), self.one(TIMES))
    }

    fn length(&mut self) -> Sql {
        match self.random.index(4) {
            0 => self.difference(),
            1 => sql!("CASE WHEN {} THEN INTERVAL '{}' END", self.column(&["b"]), self.one(LENGTHS)),
            _ => sql!("INTERVAL '{}'", self.one(LENGTHS)),
        }
    }

    /// What compares intervals, or decimals with numbers of many digits.
    pub fn length_condition(&mut self) -> Sql {
        match self.random.index(8) {
            0 => sql!("({} BETWEEN {} AND {})", self.length(), self.length(), self.length()),
            1 => sql!("({} IN ({}, {}))", self.length(), self.length(), self.length()),
            2 => sql!("(CASE {} WHEN {} THEN 1 ELSE 2 END = 1)", self.length(), self.length()),
            3 | 4 => sql!(
                "(CAST('{}' AS DECIMAL(38, 10)) {} {})",
                self.one(LONG),
                self.one(COMPARISONS),
                self.one(LONG)
            ),
            5 => sql!(
                "({} {} CAST('{}' AS DECIMAL(38, 10)))",
                self.long_decimal(),
                self.one(COMPARISONS),
                self.one(LONG)
            ),
            _ => sql!("({} {} {})", self.length(), self.one(COMPARISONS), self.length()),
        }
    }

    /// A part of the difference of two times, or of an interval, as BIGINT.
    pub fn length_part(&mut self) -> Sql {
        match self.random.index(3) {
            0 => sql!("CAST(extract(epoch FROM {}) * 1000000 AS BIGINT)", self.difference()),
            1 => sql!("CAST(extract({} FROM {}) AS BIGINT)", self.one(PARTS), self.difference()),
            _ => sql!("CAST(extract({} FROM INTERVAL '{}') AS BIGINT)", self.one(PARTS), self.one(LENGTHS)),
        }
    }

    /// A number of many digits as DECIMAL.
    fn long_decimal(&mut self) -> Sql {
        sql!("CAST({} AS DECIMAL(38, {}))", self.one(&LONG[3..5]), self.one(&["2", "7", "10"]))
    }
}
