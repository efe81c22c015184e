//! Random materialized views, in our words and in DuckDB's.

use tidemill_testing::random::Random;

/// The type of a column, as far as queries care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Int,
    Float,
    Decimal,
    Text,
    Time,
    Bool,
}

/// A view.
#[derive(Clone, Debug)]
pub struct View {
    pub name: String,
    /// Behind the name: ` PRIMARY KEY (k)`.
    pub key: &'static str,
    /// Options, as they stand in `WITH (...)`.
    pub options: Vec<String>,
    pub ours: String,
    /// Over the tables of the rows in time, `s`, `t` and `u`, and the watermarks `wm_s`, `wm_t` and `wm`.
    pub duckdb: String,
    pub columns: Vec<(String, Kind)>,
    /// Whether it has `x`, `y` and `k`, by which rows are found.
    pub is_store: bool,
    /// If it keeps only the rows of this many seconds, and perhaps some older ones.
    pub recent_seconds: Option<u32>,
}

/// A query in both words, with its columns.
pub struct Query {
    pub ours: String,
    pub duckdb: String,
    pub columns: Vec<(String, Kind)>,
}

impl Query {
    pub fn same(text: String, columns: Vec<(String, Kind)>) -> Query {
        Query { ours: text.clone(), duckdb: text, columns }
    }
}

impl View {
    pub fn new(name: &str, query: Query) -> View {
        let Query { ours, duckdb, columns } = query;
        View {
            name: name.to_owned(),
            key: "",
            options: Vec::new(),
            ours,
            duckdb,
            columns,
            is_store: false,
            recent_seconds: None,
        }
    }

    /// All rows of a source that are in time.
    pub fn all_rows(source: &str) -> View {
        let names = ["n", "ts", "k", "g", "v", "d", "p", "b", "x", "y"];
        let kinds = [
            Kind::Int,
            Kind::Time,
            Kind::Int,
            Kind::Text,
            Kind::Int,
            Kind::Float,
            Kind::Decimal,
            Kind::Bool,
            Kind::Float,
            Kind::Float,
        ];
        let columns = names.iter().zip(kinds).map(|(name, kind)| named(name, kind)).collect();
        View::new(&format!("raw_{source}"), Query::same(format!("SELECT * FROM {source}"), columns))
    }

    /// The names of its columns, but for the one that a store adds.
    pub fn names(&self) -> String {
        self.columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
    }

    pub fn create(&self) -> String {
        let with = if self.options.is_empty() {
            String::new()
        } else {
            format!(" WITH ({})", self.options.join(", "))
        };
        format!("CREATE MATERIALIZED VIEW {}{}{with} AS {}", self.name, self.key, self.ours)
    }
}

pub fn named(name: &str, kind: Kind) -> (String, Kind) {
    (name.to_owned(), kind)
}

const CONDITIONS: &[&str] = &[
    "k > 2",
    "v % 3 = 0",
    "g IS NOT NULL AND g <> 'b'",
    "d < 10.5",
    "b",
    "NOT b",
    "p >= 1.5",
    "g LIKE 'a%'",
    "k IN (1, 2, 5)",
    "v BETWEEN -20 AND 50",
    "coalesce(k, -1) < 2",
    "k IS NULL OR v > 0",
    "d + v > 0",
    "g > 'a' OR b",
];

/// Those whose last digit is the same in any order of the rows, because readers group by them.
const AGGREGATES: &[(&str, Kind)] = &[
    ("count(*)", Kind::Int),
    ("count(v)", Kind::Int),
    ("sum(v)", Kind::Int),
    ("min(v)", Kind::Int),
    ("max(d)", Kind::Float),
    ("avg(v)", Kind::Float),
    ("avg(d)", Kind::Float),
    ("sum(d)", Kind::Float),
    ("count(DISTINCT k)", Kind::Int),
    ("count(DISTINCT g)", Kind::Int),
    ("sum(p)", Kind::Decimal),
    ("min(p)", Kind::Decimal),
    ("min(g)", Kind::Text),
    ("max(ts)", Kind::Time),
    ("min(n)", Kind::Int),
    ("count(*) FILTER (WHERE b)", Kind::Int),
    ("sum(v) FILTER (WHERE k > 2)", Kind::Int),
    ("max(g)", Kind::Text),
    ("sum(DISTINCT v)", Kind::Int),
    ("count(DISTINCT p)", Kind::Int),
    ("avg(DISTINCT k)", Kind::Float),
    ("bool_or(b)", Kind::Bool),
    ("bool_and(v > 0)", Kind::Bool),
];

const KEYS: &[(&str, Kind)] = &[
    ("g", Kind::Text),
    ("k", Kind::Int),
    ("b", Kind::Bool),
    ("k % 2", Kind::Int),
    ("date_trunc('minute', ts)", Kind::Time),
    ("p", Kind::Decimal),
];

/// ` WHERE ...` or nothing.
pub fn filter(random: &mut Random) -> String {
    match random.index(3) {
        0 => format!(" WHERE {}", random.one_of(CONDITIONS)),
        1 => format!(" WHERE {} AND {}", condition(random), condition(random)),
        _ => String::new(),
    }
}

pub fn condition(random: &mut Random) -> String {
    format!("({})", random.one_of(CONDITIONS))
}

/// Aggregates with names, each with a comma before it.
pub fn aggregates(random: &mut Random, columns: &mut Vec<(String, Kind)>) -> String {
    let mut text = String::new();
    for number in 0..2 + random.index(3) {
        let (aggregate, kind) = random.one_of(AGGREGATES);
        text += &format!(", {aggregate} AS a{number}");
        columns.push((format!("a{number}"), kind));
    }
    text
}

/// Keys of groups with their names, each with a comma behind it, and the expressions alone.
fn keys(random: &mut Random, columns: &mut Vec<(String, Kind)>) -> (String, String) {
    let (mut named, mut plain) = (String::new(), Vec::new());
    for number in 0..1 + random.index(2) {
        let (key, kind) = random.one_of(KEYS);
        named += &format!("{key} AS g{number}, ");
        plain.push(key);
        columns.push((format!("g{number}"), kind));
    }
    (named, plain.join(", "))
}

pub fn source(random: &mut Random) -> &'static str {
    random.one_of(&["s", "t", "u"])
}

/// Rows that are filtered and computed.
pub fn rows(random: &mut Random) -> Query {
    const COMPUTED: &[(&str, Kind)] = &[
        ("v + 1", Kind::Int),
        ("coalesce(g, '-') || 'x'", Kind::Text),
        ("d * 2", Kind::Float),
        ("CASE WHEN b THEN k ELSE v END", Kind::Int),
        ("upper(g)", Kind::Text),
        ("abs(v)", Kind::Int),
        ("p + 1", Kind::Decimal),
        ("ts + INTERVAL '1 second'", Kind::Time),
        ("k > v", Kind::Bool),
    ];
    let mut columns = vec![named("n", Kind::Int), named("k", Kind::Int), named("ts", Kind::Time)];
    let mut text = "SELECT n, k, ts".to_owned();
    for number in 0..2 {
        let (expression, kind) = random.one_of(COMPUTED);
        text += &format!(", {expression} AS e{number}");
        columns.push((format!("e{number}"), kind));
    }
    let (source, filter) = (source(random), filter(random));
    Query::same(format!("{text} FROM {source}{filter}"), columns)
}

/// Groups, or one row of all.
pub fn groups(random: &mut Random) -> Query {
    let mut columns = Vec::new();
    let (named, plain) = match random.index(5) {
        0 => (String::new(), String::new()),
        _ => keys(random, &mut columns),
    };
    let group = if plain.is_empty() { String::new() } else { format!(" GROUP BY {plain}") };
    let aggregates = aggregates(random, &mut columns);
    let aggregates = aggregates.strip_prefix(", ").unwrap_or_default();
    Query::same(
        format!("SELECT {named}{aggregates} FROM {}{}{group}", source(random), filter(random)),
        columns,
    )
}

pub fn distinct(random: &mut Random) -> Query {
    let mut columns = Vec::new();
    let (keys, _) = keys(random, &mut columns);
    let keys = keys.trim_end_matches(", ");
    Query::same(format!("SELECT DISTINCT {keys} FROM {}{}", source(random), filter(random)), columns)
}

/// Two streams one after the other, row by row.
pub fn union(random: &mut Random) -> Query {
    let columns =
        vec![named("n", Kind::Int), named("k", Kind::Int), named("v", Kind::Int), named("g", Kind::Text)];
    let (one, other) = (source(random), source(random));
    Query::same(
        format!(
            "SELECT n, k, v, g FROM {one}{} UNION ALL SELECT n, v AS k, k AS v, 'u' AS g FROM {other}{}",
            filter(random),
            filter(random)
        ),
        columns,
    )
}
