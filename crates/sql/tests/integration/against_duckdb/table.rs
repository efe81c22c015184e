//! Random tables of values at the edges of their types.

use tidemill_testing::duckdb::DuckDb;
use tidemill_testing::random::Random;

/// The types of columns, each under the name that both sides know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Boolean,
    TinyInt,
    SmallInt,
    Int,
    BigInt,
    Unsigned,
    Double,
    Real,
    Decimal(u8, u8),
    Text,
    Timestamp,
    Date,
    Time,
}

impl Type {
    /// Its name in declarations and casts.
    pub fn name(self) -> String {
        match self {
            Type::Boolean => "BOOLEAN".into(),
            Type::TinyInt => "TINYINT".into(),
            Type::SmallInt => "SMALLINT".into(),
            Type::Int => "INT".into(),
            Type::BigInt => "BIGINT".into(),
            Type::Unsigned => "INT UNSIGNED".into(),
            Type::Double => "DOUBLE".into(),
            Type::Real => "REAL".into(),
            Type::Decimal(precision, scale) => format!("DECIMAL({precision}, {scale})"),
            Type::Text => "VARCHAR".into(),
            Type::Timestamp => "TIMESTAMP".into(),
            Type::Date => "DATE".into(),
            Type::Time => "TIME".into(),
        }
    }

    /// The same for DuckDB.
    pub fn duck_name(self) -> String {
        match self {
            Type::Unsigned => "UINTEGER".into(),
            other => other.name(),
        }
    }
}

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: &'static str,
    pub data_type: Type,
    /// DuckDB's literals, of which each row has one.
    values: &'static [&'static str],
    /// Whether NULL is among them.
    nullable: bool,
}

const TINY: &[&str] = &["0", "1", "-1", "127", "-128", "7"];
const SMALL: &[&str] = &["0", "1", "-1", "32767", "-32768", "12"];
const INTEGERS: &[&str] = &["0", "1", "-1", "2147483647", "-2147483648", "100", "3"];
const BIG: &[&str] = &[
    "0",
    "1",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "3000000000",
    "-3000000000",
    "2147483648",
    "5",
    "255",
    "9007199254740993",
];
const UNSIGNED: &[&str] = &["0", "1", "4294967295", "2147483648", "3", "200"];
/// What keys and groups are made of.
const FEW: &[&str] = &["0", "1", "2", "3", "-1"];
const MILD: &[&str] = &["0.5", "-1.25", "3", "4", "-2.75", "0", "100.125", "7.5", "-0.5", "12"];
const WILD: &[&str] = &[
    "'nan'",
    "'inf'",
    "'-inf'",
    "'-0.0'",
    "0",
    "1.5",
    "-1.5",
    "1.7976931348623157e308",
    "-1.7976931348623157e308",
    "5e-324",
    "2147483647.5",
    "3",
    "4",
    "1e19",
    "0.1",
];
const WILD_REAL: &[&str] =
    &["'nan'", "'inf'", "'-inf'", "'-0.0'", "0", "0.1", "3.4028235e38", "-7.25", "16777217", "2"];
const MONEY: &[&str] =
    &["0.00", "1.50", "-1.50", "99999999.99", "-99999999.99", "2.00", "0.01", "3.00", "-0.01", "0.05"];
const LARGE: &[&str] =
    &["0", "123456789012.345678", "-123456789012.345678", "0.000001", "2", "-0.5", "999999999999.999999"];
const TEXTS: &[&str] = &[
    "''",
    "'a'",
    "'A'",
    "'ab'",
    "'b'",
    "'ä'",
    "'Ärger'",
    "'日本'",
    "'😀'",
    "'a%b'",
    "'a_b'",
    "' a '",
    "'e\u{301}'",
    "'null'",
    "'a\\b'",
    "'it''s'",
    "'two\nlines'",
    "'abcabcabcabcabcabcabc'",
];
/// What casts are tried on.
const NUMERALS: &[&str] = &[
    "'12'",
    "'-7'",
    "'+5'",
    "'abc'",
    "''",
    "'3000000000'",
    "'9223372036854775808'",
    "'-128'",
    "'007'",
    "'2020-02-29'",
    "'2021-02-29'",
    "'true'",
    "'1'",
    "'99'",
];
const TIMES: &[&str] = &[
    "'1970-01-01 00:00:00'",
    "'1969-12-31 23:59:59.999999'",
    "'2024-02-29 12:34:56.789'",
    "'2024-12-31 23:59:59.999999'",
    "'2025-01-01 00:00:00'",
    "'1677-09-21 00:12:43.145225'",
    "'1678-01-01 00:00:00'",
    "'2262-04-11 23:47:16.854775'",
    "'2261-12-31 23:59:59'",
    "'2000-03-01 00:00:00'",
    "'1900-02-28 13:00:00'",
    "'2026-10-25 01:30:00'",
];
const DAYS: &[&str] = &[
    "'1970-01-01'",
    "'1969-12-31'",
    "'2024-02-29'",
    "'2025-01-01'",
    "'1900-03-01'",
    "'2262-04-11'",
    "'1677-09-22'",
    "'2000-12-31'",
    "'2024-12-30'",
];
const CLOCKS: &[&str] = &["'00:00:00'", "'23:59:59.999999'", "'12:00:00'", "'06:30:15.5'"];

const fn column(name: &'static str, data_type: Type, values: &'static [&'static str]) -> Column {
    Column { name, data_type, values, nullable: true }
}

/// The columns of every table, after `id`.
pub const COLUMNS: &[Column] = &[
    column("k", Type::Int, FEW),
    column("b", Type::Boolean, &["true", "false"]),
    column("i8", Type::TinyInt, TINY),
    column("i16", Type::SmallInt, SMALL),
    column("i32", Type::Int, INTEGERS),
    column("i64", Type::BigInt, BIG),
    column("u32", Type::Unsigned, UNSIGNED),
    column("f", Type::Double, MILD),
    column("d", Type::Double, WILD),
    column("r", Type::Real, WILD_REAL),
    column("p", Type::Decimal(10, 2), MONEY),
    column("q", Type::Decimal(18, 6), LARGE),
    column("s", Type::Text, TEXTS),
    column("w", Type::Text, NUMERALS),
    column("ts", Type::Timestamp, TIMES),
    column("day", Type::Date, DAYS),
    column("clock", Type::Time, CLOCKS),
    Column { name: "moment", data_type: Type::Timestamp, values: &[], nullable: false },
];

/// A table: its name, and the literals of its rows.
#[derive(Clone)]
pub struct Table {
    pub name: &'static str,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Rows of random values; `moment` ascends, so that no row is late and none has another's time.
    pub fn random(name: &'static str, rows: usize, random: &mut Random) -> Table {
        // Times around 1970, so that windows before it are met, in steps that are often none.
        let mut at_ms = -20_000;
        let mut row = |id: usize| {
            at_ms += random.one_of(&[1, 2, 250, 1000, 3999, 5000, 60_000]);
            let values = COLUMNS.iter().map(|column| match column.values {
                [] => format!("make_timestamp({at_ms}000)"),
                _ if column.nullable && random.is_once_in(8) => "NULL".to_string(),
                values => format!("CAST({} AS {})", random.one_of(values), column.data_type.duck_name()),
            });
            std::iter::once(id.to_string()).chain(values).collect()
        };
        Table { name, rows: (0..rows).map(&mut row).collect() }
    }

    /// Makes it in DuckDB, and writes it to a Parquet file, which we read.
    pub fn create(&self, folder: &std::path::Path) -> String {
        let name = self.name;
        let path = folder.join(format!("{name}.parquet"));
        format!("{}COPY {name} TO '{}' (FORMAT parquet);", self.statements(), path.display())
    }

    fn statements(&self) -> String {
        let columns =
            COLUMNS.iter().map(|column| format!("{} {}", column.name, column.data_type.duck_name()));
        let columns: Vec<String> = std::iter::once("id BIGINT".to_string()).chain(columns).collect();
        let mut script = format!("CREATE OR REPLACE TABLE {} ({});\n", self.name, columns.join(", "));
        let rows: Vec<String> = self.rows.iter().map(|row| format!("({})", row.join(", "))).collect();
        if !rows.is_empty() {
            script.push_str(&format!("INSERT INTO {} VALUES\n{};\n", self.name, rows.join(",\n")));
        }
        script
    }

    /// Declares it for us, as a table, or as a stream that ends.
    pub fn declare(&self, kind: &str, folder: &std::path::Path) -> String {
        let columns = COLUMNS.iter().map(|column| format!("{} {}", column.name, column.data_type.name()));
        let mut columns: Vec<String> = std::iter::once("id BIGINT".to_string()).chain(columns).collect();
        if kind == "SOURCE" {
            columns.push("WATERMARK FOR moment AS moment".into());
        }
        let path = folder.join(format!("{}.parquet", self.name));
        format!("CREATE {kind} {} ({}) WITH (path = '{}');\n", self.name, columns.join(", "), path.display())
    }

    /// Puts it into DuckDB.
    pub fn load(&self, duckdb: &mut DuckDb, folder: &std::path::Path) {
        duckdb.run(&self.create(folder));
    }
}
