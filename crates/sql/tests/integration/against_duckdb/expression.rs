//! Random expressions of known types. What both sides mean differently by the same words is left out here or written in
//! the words of each; see `differences.rs`.

use super::sql::{Sql, both, side, sql};
use super::table::{COLUMNS, Type};
use tidemill_testing::random::Random;

/// Makes expressions over the columns of one table, or of one behind another.
pub struct Expressions<'a> {
    pub random: &'a mut Random,
    /// What stands before names, as `t.`.
    pub qualifiers: &'a [&'static str],
}

const NUMBERS: &[&str] = &["k", "i8", "i16", "i32", "i64", "u32", "f", "d", "p", "q"];
const WHOLE: &[&str] = &["k", "i8", "i16", "i32", "i64", "u32"];
/// Those whose sums and products are far from the end of BIGINT.
const SMALL: &[&str] = &["k", "i8", "i16"];
const COMPARISONS: &[&str] = &["=", "<>", "<", "<=", ">", ">="];
const CONSTANTS: &[&str] = &[
    "0",
    "1",
    "-1",
    "3",
    "5",
    "100",
    "127",
    "128",
    "-128",
    "-129",
    "255",
    "256",
    "32767",
    "32768",
    "65536",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "4294967295",
    "4294967296",
    "3000000000",
    "99999999",
    "100000000",
    "9007199254740993",
    "9223372036854775807",
];
const FRACTIONS: &[&str] =
    &["0.5", "1.5", "-1.5", "0.01", "2.0", "3.0", "0.005", "2147483647.5", "99999999.99", "-0.5"];
const SMALL_FRACTIONS: &[&str] = &["0.5", "1.5", "-1.5", "0.01", "2.0", "0.005", "99999999.99"];
const DOUBLES: &[&str] = &["nan", "inf", "-inf", "-0.0", "0.0", "1e300", "5e-324", "4.0", "0.1"];
const TIMES: &[&str] = &[
    "1970-01-01 00:00:00",
    "2024-02-29 12:34:56.789",
    "2025-01-01 00:00:00",
    "1678-01-01 00:00:00",
    "2261-12-31 23:59:59",
    "1900-02-28 13:00:00",
    "2024-02-29 00:00:00",
];
const DAYS: &[&str] = &["1970-01-01", "2024-02-29", "2025-01-01", "1900-03-01", "1969-12-31", "2000-12-31"];
const YEARS: &[&str] =
    &["0", "1", "1600", "1677", "1678", "1969", "1970", "2024", "2025", "2262", "2263", "3000", "9999", "-5"];
const WORDS: &[&str] =
    &["", "a", "ab", "ä", "日本", "12", "-7", "007", "null", "A", "a%b", "true", "3000000000"];
const PATTERNS: &[&str] =
    &["a%", "%a", "%", "", "_", "__", "%b%", "a_b", "%日%", "%ä%", "A%", "%1%", "%-_", "a%c"];

impl Expressions<'_> {
    pub fn column(&mut self, names: &[&str]) -> Sql {
        let qualifier = self.random.one_of(self.qualifiers);
        Sql::same(format!("{qualifier}{}", self.random.one_of(names)))
    }

    fn constant(&mut self, constants: &[&str]) -> Sql {
        Sql::same(self.random.one_of(constants))
    }

    fn literal(&mut self, data_type: &str, constants: &[&str]) -> Sql {
        Sql::same(format!("{data_type} '{}'", self.random.one_of(constants)))
    }

    fn word(&mut self) -> Sql {
        Sql::same(format!("'{}'", self.random.one_of(WORDS)))
    }

    fn number(&mut self, depth: u32) -> Sql {
        match self.random.index(7) {
            0 | 1 => self.column(NUMBERS),
            6 => self.mixed(depth),
            2 => self.whole(depth),
            3 => self.float(depth),
            4 => self.decimal(depth),
            _ => self.constant(CONSTANTS),
        }
    }

    fn number_constant(&mut self) -> Sql {
        match self.random.index(4) {
            0 => self.constant(FRACTIONS),
            1 => sql!("CAST('{}' AS DOUBLE)", self.constant(DOUBLES)),
            _ => self.constant(CONSTANTS),
        }
    }

    /// BIGINT.
    pub fn whole(&mut self, depth: u32) -> Sql {
        if depth == 0 {
            return match self.random.index(4) {
                0 => sql!("CAST({} AS BIGINT)", self.constant(CONSTANTS)),
                1 => self.column(&["i64"]),
                _ => sql!("CAST({} AS BIGINT)", self.column(WHOLE)),
            };
        }
        let deeper = depth - 1;
        match self.random.index(17) {
            16 => self.length_part(),
            14 => self.number_of_text(deeper),
            15 => self.fine_part(),
            0 => sql!("({} + {})", self.small(), self.small()),
            1 => sql!("({} - {})", self.small(), self.whole(0)),
            2 => sql!("({} * {})", self.small(), self.small()),
            3 => {
                let (one, other) = (self.whole(deeper), self.small());
                both(|ours| {
                    let operator = if ours { "/" } else { "//" };
                    format!("({} {operator} nullif({}, 0))", side(&one, ours), side(&other, ours))
                })
            }
            4 => sql!("({} % nullif({}, 0))", self.whole(deeper), self.small()),
            5 => sql!("abs({})", self.small()),
            6 => sql!("(-{})", self.small()),
            7 => sql!("CAST(length({}) AS BIGINT)", self.text(deeper)),
            8 => self.part(deeper),
            9 => self.case(depth, Self::whole),
            10 => sql!("TRY_CAST({} AS BIGINT)", self.column(&["i8", "i64", "u32", "w", "b"])),
            11 => sql!("nullif({}, {})", self.whole(deeper), self.whole(0)),
            12 => self.choice(deeper, Self::whole),
            _ => self.whole(0),
        }
    }

    fn small(&mut self) -> Sql {
        if self.random.is_once_in(4) {
            sql!("CAST({} AS BIGINT)", self.constant(&["0", "1", "-1", "2", "7", "10"]))
        } else {
            sql!("CAST({} AS BIGINT)", self.column(SMALL))
        }
    }

    /// A part of a time, as BIGINT.
    fn part(&mut self, depth: u32) -> Sql {
        let part =
            self.constant(&["year", "month", "day", "hour", "minute", "doy", "dow", "quarter", "week"]);
        sql!("CAST(extract({} FROM {}) AS BIGINT)", part, self.timestamp(depth))
    }

    /// DOUBLE.
    pub fn float(&mut self, depth: u32) -> Sql {
        if depth == 0 {
            return match self.random.index(5) {
                0 => sql!("CAST('{}' AS DOUBLE)", self.constant(DOUBLES)),
                1 | 2 => self.column(&["d"]),
                _ => self.column(&["f"]),
            };
        }
        let deeper = depth - 1;
        match self.random.index(15) {
            13 => sql!("({} + {})", self.decimal(0), self.float(0)),
            0 => sql!("({} + {})", self.float(deeper), self.float(0)),
            1 => sql!("({} - {})", self.float(deeper), self.float(0)),
            2 => sql!("({} * {})", self.float(deeper), self.float(0)),
            3 => sql!("({} / {})", self.float(deeper), self.float(0)),
            4 => sql!("abs({})", self.float(deeper)),
            5 => sql!("floor({})", self.float(deeper)),
            6 => sql!("ceil({})", self.float(deeper)),
            7 => {
                let value = self.float(deeper);
                // Halves are rounded to even, as in PostgreSQL.
                both(|ours| {
                    let value = side(&value, ours);
                    if ours { format!("round({value})") } else { format!("round_even({value}, 0)") }
                })
            }
            8 => sql!("(-{})", self.float(deeper)),
            9 => self.case(depth, Self::float),
            10 => sql!("CAST({} AS DOUBLE)", self.column(&["i32", "i64", "u32", "p", "q", "r"])),
            11 => self.choice(deeper, Self::float),
            12 => sql!("nullif({}, {})", self.float(deeper), self.float(0)),
            _ => sql!("sqrt(abs({}))", self.float(deeper)),
        }
    }

    /// DECIMAL.
    pub fn decimal(&mut self, depth: u32) -> Sql {
        if depth == 0 {
            return match self.random.index(4) {
                0 => sql!("CAST({} AS DECIMAL(10, 2))", self.constant(SMALL_FRACTIONS)),
                1 => self.column(&["q"]),
                _ => self.column(&["p"]),
            };
        }
        let deeper = depth - 1;
        match self.random.index(11) {
            0 => sql!("({} + {})", self.decimal(deeper), self.decimal(0)),
            1 => sql!("({} - {})", self.decimal(deeper), self.decimal(0)),
            2 => sql!("({} * {})", self.column(&["p"]), self.decimal(0)),
            3 => sql!("abs({})", self.decimal(deeper)),
            4 => sql!("(-{})", self.decimal(deeper)),
            5 => sql!("CAST({} AS DECIMAL(12, 1))", self.column(&["p"])),
            6 => sql!("TRY_CAST({} AS DECIMAL(7, 1))", self.column(&["p", "q", "i32", "i64", "f"])),
            7 => self.case(depth, Self::decimal),
            8 => self.choice(deeper, Self::decimal),
            9 => sql!("({} / nullif({}, 0))", self.column(&["p"]), self.column(&["p", "k", "q"])),
            _ => self.decimal(0),
        }
    }

    pub fn text(&mut self, depth: u32) -> Sql {
        if depth == 0 {
            return if self.random.is_once_in(4) { self.word() } else { self.column(&["s", "w"]) };
        }
        let deeper = depth - 1;
        match self.random.index(18) {
            15..=17 => self.text_function(deeper),
            0 => sql!("upper({})", self.text(deeper)),
            1 => sql!("lower({})", self.text(deeper)),
            2 => sql!("({} || {})", self.text(deeper), self.text(0)),
            3 => sql!(
                "substr({}, {}, {})",
                self.text(deeper),
                self.constant(&["1", "2", "3"]),
                self.constant(&["0", "1", "4"])
            ),
            4 => sql!("trim({})", self.text(deeper)),
            5 => sql!("replace({}, {}, {})", self.text(deeper), Sql::same("'a'"), self.word()),
            6 => sql!("left({}, {})", self.text(deeper), self.constant(&["0", "1", "2", "100"])),
            7 => sql!("right({}, {})", self.text(deeper), self.constant(&["0", "1", "2", "100"])),
            8 => sql!("CAST({} AS VARCHAR)", self.whole(deeper)),
            9 => sql!("CAST({} AS VARCHAR)", self.column(&["b", "p", "i8", "u32", "day"])),
            10 => self.case(depth, Self::text),
            11 => self.choice(deeper, Self::text),
            12 => sql!("concat({}, {})", self.text(deeper), self.text(0)),
            13 => sql!("nullif({}, {})", self.text(deeper), self.text(0)),
            _ => sql!(
                "split_part({}, {}, {})",
                self.text(deeper),
                Sql::same("'a'"),
                self.constant(&["1", "2"])
            ),
        }
    }

    pub fn timestamp(&mut self, depth: u32) -> Sql {
        if depth == 0 {
            return match self.random.index(5) {
                0 => self.literal("TIMESTAMP", TIMES),
                1 => self.column(&["moment"]),
                _ => self.column(&["ts"]),
            };
        }
        let deeper = depth - 1;
        match self.random.index(8) {
            7 => self.day_and_interval(),
            0 => {
                let part = self.constant(&["'hour'", "'day'", "'month'", "'minute'", "'second'"]);
                // Not near 1677, where the beginning of the month is out of reach.
                sql!("date_trunc({}, {})", part, self.column(&["moment"]))
            }
            1 => sql!("({} + INTERVAL {})", self.column(&["moment"]), self.interval()),
            2 => sql!("({} - INTERVAL {})", self.column(&["moment"]), self.interval()),
            3 => sql!("CAST({} AS TIMESTAMP)", self.column(&["day"])),
            4 => self.case(depth, Self::timestamp),
            5 => self.choice(deeper, Self::timestamp),
            _ => self.timestamp(0),
        }
    }

    fn interval(&mut self) -> Sql {
        self.constant(&[
            "'1 day'",
            "'3 hours'",
            "'1 month'",
            "'90 seconds'",
            "'1 year'",
            "'250 milliseconds'",
            "'7 days'",
        ])
    }

    pub fn day(&mut self, depth: u32) -> Sql {
        match self.random.index(5) {
            0 => self.literal("DATE", DAYS),
            1 if depth > 0 => sql!("CAST({} AS DATE)", self.timestamp(depth - 1)),
            2 if depth > 0 => self.case(depth, Self::day),
            _ => self.column(&["day"]),
        }
    }

    fn case(&mut self, depth: u32, of: fn(&mut Self, u32) -> Sql) -> Sql {
        let (when, then) = (self.condition(depth - 1), of(self, depth - 1));
        match self.random.index(4) {
            0 => sql!("CASE WHEN {} THEN {} END", when, then),
            1 => {
                let base = self.column(&["d", "k", "p"]);
                sql!("CASE {} WHEN {} THEN {} ELSE {} END", base, self.number_constant(), then, of(self, 0))
            }
            _ => sql!("CASE WHEN {} THEN {} ELSE {} END", when, then, of(self, 0)),
        }
    }

    fn choice(&mut self, depth: u32, of: fn(&mut Self, u32) -> Sql) -> Sql {
        let name = self.constant(&["coalesce", "coalesce", "greatest", "least"]);
        sql!("{}({}, {})", name, of(self, depth), of(self, 0))
    }

    /// BOOLEAN.
    pub fn condition(&mut self, depth: u32) -> Sql {
        if depth == 0 {
            return self.simple_condition();
        }
        let deeper = depth - 1;
        match self.random.index(8) {
            0 => sql!("({} AND {})", self.condition(deeper), self.condition(deeper)),
            1 => sql!("({} OR {})", self.condition(deeper), self.condition(deeper)),
            2 => sql!("(NOT {})", self.condition(deeper)),
            3 => sql!("({} IS NULL)", self.condition(deeper)),
            4 => self.case(depth, Self::condition),
            _ => self.simple_condition(),
        }
    }

    fn simple_condition(&mut self) -> Sql {
        let operator = self.constant(COMPARISONS);
        match self.random.index(22) {
            17..=19 => self.text_condition(),
            20 | 21 => self.length_condition(),
            0 | 1 => sql!("({} {} {})", self.number(1), operator, self.number_constant()),
            2 => sql!("({} {} {})", self.column(NUMBERS), operator, self.number(1)),
            3 | 4 => self.cast_compared(),
            5 => {
                let part = self.constant(&["year", "month", "day", "hour", "dow", "doy"]);
                let of = self.random.one_of(&["ts", "ts", "day"]);
                // DuckDB knows hours of dates, too; here it would be the same as of timestamps.
                let part = if of == "day" { Sql::same("year") } else { part };
                sql!("(extract({} FROM {}) {} {})", part, self.column(&[of]), operator, self.constant(YEARS))
            }
            6 => sql!("({} {} {})", self.timestamp(1), operator, self.literal("TIMESTAMP", TIMES)),
            7 => sql!("({} {} {})", self.day(1), operator, self.literal("DATE", DAYS)),
            8 => sql!("({} {} {})", self.text(1), operator, self.text(0)),
            9 => sql!("({} LIKE '{}')", self.text(1), self.constant(PATTERNS)),
            10 => self.list(),
            11 => self.range(),
            12 => sql!("({} IS NULL)", self.any(1)),
            13 => sql!("({} IS NOT DISTINCT FROM {})", self.column(NUMBERS), self.number_constant()),
            14 => self.column(&["b"]),
            15 => sql!(
                "(date_trunc('{}', {}) {} {})",
                self.constant(&["day", "month", "year"]),
                self.column(&["moment"]),
                operator,
                self.literal("TIMESTAMP", TIMES)
            ),
            _ => sql!("(floor({}) {} {})", self.float(0), operator, self.number_constant()),
        }
    }

    /// A cast against a constant, which DataFusion's rules like to turn round.
    fn cast_compared(&mut self) -> Sql {
        let to_numbers: &[Type] = &[
            Type::TinyInt,
            Type::SmallInt,
            Type::Int,
            Type::BigInt,
            Type::Unsigned,
            Type::Double,
            Type::Decimal(10, 2),
            Type::Decimal(5, 1),
            Type::Decimal(20, 3),
        ];
        let from = self
            .random
            .one_of(&["i8", "i16", "i32", "i64", "u32", "p", "q", "w", "ts", "day", "b", "constant"]);
        let (value, to): (Sql, &[Type]) = match from {
            "ts" => (self.column(&["ts"]), &[Type::Date]),
            "day" => (self.column(&["day"]), &[Type::Timestamp, Type::Text]),
            "b" => (self.column(&["b"]), &[Type::Int, Type::Text]),
            "w" => {
                (self.column(&["w"]), &[Type::Int, Type::TinyInt, Type::Date, Type::Unsigned, Type::BigInt])
            }
            "constant" => {
                (self.constant(CONSTANTS), &[Type::Int, Type::TinyInt, Type::SmallInt, Type::Decimal(5, 1)])
            }
            "p" | "q" => (
                self.column(&[from]),
                &[Type::Double, Type::Decimal(5, 1), Type::Decimal(10, 2), Type::Decimal(20, 3)],
            ),
            column if self.random.is_once_in(6) => (self.column(&[column]), &[Type::Text]),
            column => (self.column(&[column]), to_numbers),
        };
        let to = self.random.one_of(to);
        let constant = |random: &mut Self| match to {
            Type::Date => random.literal("DATE", DAYS),
            Type::Timestamp => random.literal("TIMESTAMP", TIMES),
            Type::Text => random.word(),
            Type::Double | Type::Decimal(_, _) => random.number_constant(),
            _ => random.constant(CONSTANTS),
        };
        let cast = both(|ours| {
            let name = if ours { to.name() } else { to.duck_name() };
            format!("TRY_CAST({} AS {name})", side(&value, ours))
        });
        match self.random.index(4) {
            0 => sql!("({} IN ({}, {}))", cast, constant(self), constant(self)),
            1 => sql!("({} IS DISTINCT FROM {})", cast, constant(self)),
            _ => sql!("({} {} {})", cast, self.constant(COMPARISONS), constant(self)),
        }
    }

    fn list(&mut self) -> Sql {
        let negated = self.constant(&["IN", "NOT IN"]);
        match self.random.index(4) {
            0 => sql!("({} {} ({}, {}))", self.text(0), negated, self.word(), self.word()),
            1 => sql!("({} {} ({}, NULL))", self.column(WHOLE), negated, self.constant(CONSTANTS)),
            2 => sql!(
                "({} {} ({}, {}, {}))",
                self.column(&["d", "f"]),
                negated,
                self.number_constant(),
                self.number_constant(),
                self.number_constant()
            ),
            _ => sql!(
                "({} {} ({}, {}, {}))",
                self.column(NUMBERS),
                negated,
                self.constant(CONSTANTS),
                self.constant(CONSTANTS),
                self.constant(FRACTIONS)
            ),
        }
    }

    fn range(&mut self) -> Sql {
        let negated = self.constant(&["BETWEEN", "NOT BETWEEN"]);
        match self.random.index(3) {
            0 => sql!(
                "({} {} {} AND {})",
                self.number(1),
                negated,
                self.number_constant(),
                self.number_constant()
            ),
            1 => sql!(
                "({} {} {} AND {})",
                self.timestamp(1),
                negated,
                self.literal("TIMESTAMP", TIMES),
                self.literal("TIMESTAMP", TIMES)
            ),
            _ => sql!("({} {} {} AND {})", self.text(0), negated, self.word(), self.word()),
        }
    }

    /// An expression of any type.
    pub fn any(&mut self, depth: u32) -> Sql {
        match self.random.index(9) {
            8 => self.mixed(depth),
            0 => self.whole(depth),
            1 => self.float(depth),
            2 => self.decimal(depth),
            3 => self.text(depth),
            4 => self.timestamp(depth),
            5 => self.day(depth),
            6 => self.condition(depth),
            _ => {
                let names: Vec<&str> = COLUMNS.iter().map(|column| column.name).collect();
                self.column(&names)
            }
        }
    }
}
