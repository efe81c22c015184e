//! Expressions whose sides have different types, and functions that round.

use super::expression::Expressions;
use super::sql::{Sql, both, sql};

const NUMBERS: &[&str] = &["k", "i8", "i16", "i32", "i64", "u32", "p", "q", "f", "d", "r"];
/// Without the REAL: beside a DECIMAL it is a REAL in DuckDB, which has seven digits, and a DOUBLE here.
const NUMBERS_BESIDE_OTHERS: &[&str] = &["k", "i8", "i16", "i32", "i64", "u32", "p", "q", "f", "d"];
const DIGITS: &[&str] = &["0", "1", "2"];

impl Expressions<'_> {
    /// A number computed from numbers of different types.
    pub fn mixed(&mut self, depth: u32) -> Sql {
        let (one, other) = (self.some_number(depth), self.some_number(0));
        match self.random.index(8) {
            0 => sql!("CASE WHEN {} THEN {} ELSE {} END", self.condition(0), one, other),
            1 => sql!(
                "CASE WHEN {} THEN {} WHEN {} THEN {} END",
                self.condition(0),
                one,
                self.condition(0),
                other
            ),
            2 => sql!("coalesce({}, {})", one, other),
            3 => sql!("coalesce({}, {}, 0.5)", one, other),
            4 => sql!("nullif({}, {})", self.column(NUMBERS), self.column(NUMBERS)),
            5 => self.rounded(),
            6 => {
                let (one, other) = (self.column(&["k", "i8", "p"]), self.column(&["f", "k", "p"]));
                sql!("({} + {})", one, other)
            }
            _ => sql!("({} - {})", self.column(&["k", "i8"]), self.column(&["p", "f"])),
        }
    }

    fn some_number(&mut self, depth: u32) -> Sql {
        match self.random.index(4) {
            0 => self.whole(depth),
            1 => self.float(depth),
            2 => {
                // A quotient of decimals is a decimal here, with its digits, and a DOUBLE in DuckDB. Once it is a DOUBLE
                // here, too, because of what stands beside it, it does not tell how many digits it had.
                let decimal = self.decimal(depth);
                if decimal.ours.contains(" / ") { self.decimal(0) } else { decimal }
            }
            _ => self.column(NUMBERS_BESIDE_OTHERS),
        }
    }

    fn rounded(&mut self) -> Sql {
        let digits = Sql::same(self.random.one_of(DIGITS));
        match self.random.index(6) {
            0 => sql!("round({}, {})", self.column(&["p", "q"]), digits),
            1 => sql!("round({}, {})", self.column(&["f"]), digits),
            2 => sql!("floor({})", self.column(&["p", "q", "k"])),
            3 => sql!("ceil({})", self.column(&["p", "q", "k"])),
            4 => sql!("trunc({})", self.column(&["p", "q", "f"])),
            _ => sql!("sign({})", self.column(&["p", "f", "k"])),
        }
    }

    /// A part of a time that day, month and year do not have.
    pub fn fine_part(&mut self) -> Sql {
        let column = self.column(&["ts", "moment"]);
        match self.random.index(4) {
            0 => sql!("CAST(extract(second FROM {}) AS BIGINT)", column),
            1 => sql!("CAST(extract(isodow FROM {}) AS BIGINT)", column),
            2 => both(|ours| {
                if ours {
                    format!("CAST(floor(extract(epoch FROM {})) AS BIGINT)", column.ours)
                } else {
                    format!("CAST(floor(extract(epoch FROM {})) AS BIGINT)", column.duckdb)
                }
            }),
            _ => sql!("CAST(extract(minute FROM {}) AS BIGINT)", column),
        }
    }

    /// Days and intervals: a TIMESTAMP.
    pub fn day_and_interval(&mut self) -> Sql {
        let interval = Sql::same(self.random.one_of(&["1 day", "1 month", "36 days", "1 year", "13 months"]));
        let day = self.random.one_of(&["DATE '2024-02-29'", "DATE '1970-01-31'", "DATE '2023-12-31'"]);
        let sign = Sql::same(self.random.one_of(&["+", "-"]));
        if self.random.is_once_in(2) {
            sql!("CAST({} {} INTERVAL '{}' AS TIMESTAMP)", Sql::same(day), sign, interval)
        } else {
            sql!("CAST(({} {} INTERVAL '{}') AS TIMESTAMP)", self.column(&["moment"]), sign, interval)
        }
    }
}
