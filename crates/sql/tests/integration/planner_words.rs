//! What a user gets to read is SQL: no words of the planner, of its programmers, or of its types, in whatever is wrong with a statement. Every
//! function with arguments of every type, every expression in every place, every relation in every query; each as a query, and as the
//! definition of a view over a stream.

use tidemill_sql::{Planner, Reply, parse};

/// Words that nobody who writes SQL knows. Each stands between other letters, or at an end.
const WORDS: [&str; 44] = [
    "this is a bug",
    "planner failed",
    "no installed planner",
    "LogicalPlan",
    "DataFusion",
    "physical plan",
    "coerce",
    "coerced",
    "coercion",
    "ScalarValue",
    "UserDefined",
    "Signature",
    "signature",
    "downcast",
    "panicked",
    "Internal error",
    "Utf8",
    "LargeUtf8",
    "Utf8View",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "Float16",
    "Float32",
    "Float64",
    "Date32",
    "Date64",
    "Time64",
    "Decimal128",
    "Decimal256",
    "Timestamp",
    "Interval",
    "Duration",
    "List",
    "Struct",
    "Map",
    "Dictionary",
    "PGCustomBinaryOperator",
    "MonthDayNano",
];

const DEFINED: &str = "
    CREATE VIEW t AS SELECT * FROM
        (VALUES (1, 'a', TIMESTAMP '2026-01-01 10:00', ARRAY[1, 2], named_struct('x', 1))) AS t(n, s, at, l, st);
    CREATE VIEW u AS SELECT * FROM t;
    CREATE SOURCE src (n BIGINT, s VARCHAR, at TIMESTAMP, l BIGINT[], st STRUCT<x BIGINT>, WATERMARK FOR at AS at)
        WITH (connector = 'http', listen = '127.0.0.1:0', format = 'ndjson');
";

const ARGUMENTS: [&str; 23] = [
    "1",
    "1.5",
    "'a'",
    "true",
    "NULL",
    "DATE '2026-01-01'",
    "TIMESTAMP '2026-01-01 10:00'",
    "INTERVAL '1 day'",
    "ARRAY[1,2]",
    "ARRAY['a']",
    "{a: 1}",
    "'\\x00'::bytea",
    "TIME '10:00'",
    "CAST(1 AS SMALLINT)",
    "CAST(1.5 AS DECIMAL(10,2))",
    "MAP(['a'],[1])",
    "*",
    "(SELECT 1)",
    "n",
    "s",
    "at",
    "l",
    "st",
];

const EXPRESSIONS: [&str; 127] = [
    "n",
    "s",
    "at",
    "l",
    "st",
    "st.x",
    "1",
    "'a'",
    "NULL",
    "true",
    "n + 1",
    "n + s",
    "at - at",
    "at + INTERVAL '1 day'",
    "count(*)",
    "sum(n)",
    "max(at)",
    "row_number() OVER (ORDER BY n)",
    "sum(n) OVER (PARTITION BY s)",
    "lag(n) OVER ()",
    "unnest(l)",
    "(SELECT 1)",
    "(SELECT n FROM u)",
    "(SELECT max(n) FROM u WHERE u.n < t.n)",
    "EXISTS (SELECT 1 FROM u WHERE u.n = t.n)",
    "n IN (SELECT n FROM u)",
    "n IN (1, 'a', at)",
    "CASE WHEN n THEN 1 END",
    "CASE n WHEN s THEN at ELSE l END",
    "CAST(s AS INT)",
    "CAST(l AS TEXT)",
    "CAST(st AS BIGINT)",
    "CAST(n AS TIMESTAMP)",
    "now()",
    "ARRAY[n, s]",
    "l[1]",
    "l['a']",
    "st['x']",
    "n BETWEEN s AND at",
    "s LIKE n",
    "at AT TIME ZONE s",
    "at AT TIME ZONE 'UTC'",
    "extract(foo FROM at)",
    "extract(hour FROM n)",
    "date_trunc(s, at)",
    "*",
    "t.*",
    "n::interval",
    "s::bytea",
    "l || s",
    "l || 1",
    "- s",
    "NOT n",
    "~ s",
    "n & s",
    "s ~ '('",
    "coalesce(n, at)",
    "greatest(n, l)",
    "nullif(at, n)",
    "GROUPING(n)",
    "array_agg(n ORDER BY s)",
    "string_agg(n, ',')",
    "percentile_cont(0.5) WITHIN GROUP (ORDER BY n)",
    "mode() WITHIN GROUP (ORDER BY n)",
    "count(DISTINCT n, s)",
    "sum(s)",
    "avg(at)",
    "min(l)",
    "first_value(n)",
    "first_value(n ORDER BY at)",
    "nth_value(n, 2) OVER (ORDER BY n ROWS 1 PRECEDING)",
    "sum(n) FILTER (WHERE s)",
    "sum(sum(n))",
    "sum(n) OVER (ORDER BY sum(n))",
    "$1",
    "?",
    "foo(n)",
    "n.x",
    "t.zzz",
    "zzz",
    "\"N\"",
    "(n, s)",
    "(n, s) = (1, 'a')",
    "ROW(n, s)",
    "{a: n}",
    "MAP(['a'], [n])",
    "n IS TRUE",
    "s IS JSON",
    "interval '1 foo'",
    "DATE 'foo'",
    "INTERVAL n DAY",
    "position(n IN s)",
    "substring(n FROM s)",
    "overlay(s PLACING n FROM 1)",
    "trim(n)",
    "s COLLATE \"C\"",
    "n OPERATOR(pg_catalog.+) 1",
    "x'0G'",
    "1e999",
    "99999999999999999999999999",
    "0.1 + 1e30",
    "ARRAY[]",
    "ARRAY[1, 'a', at]",
    "tumble(at, INTERVAL '1 minute')",
    "window_start",
    "generate_series(1, n)",
    "pg_typeof(n)",
    "arg_max(n, at)",
    "every(n > 1)",
    "variance(n)",
    "mod(n, 2)",
    "some(n)",
    "datediff('day', at, at)",
    "u.n",
    "ANY(l)",
    "n = ANY(l)",
    "n = ANY(s)",
    "n > ALL(SELECT n FROM u)",
    "s = ALL(ARRAY[1])",
    "(SELECT n, s FROM u)",
    "(SELECT * FROM u)",
    "NOT EXISTS (SELECT 1)",
    "struct(n, s)",
    "TRY_CAST(s AS FOO)",
    "CAST(n AS FOO(1))",
    "CAST(n AS DECIMAL(99,1))",
    "n AS m",
];

const PLACES: [&str; 31] = [
    "SELECT {} FROM {F}",
    "SELECT n FROM {F} WHERE {}",
    "SELECT n, count(*) AS c FROM {F} GROUP BY n, {}",
    "SELECT count(*) AS c FROM {F} GROUP BY n HAVING {}",
    "SELECT n FROM {F} ORDER BY {}",
    "SELECT n FROM {F} LIMIT {}",
    "SELECT n FROM {F} OFFSET {}",
    "SELECT DISTINCT {} FROM {F}",
    "SELECT DISTINCT ON ({}) n FROM {F}",
    "SELECT sum({}) AS x FROM {F}",
    "SELECT n, max({}) AS x FROM {F} GROUP BY n",
    "SELECT count(*) FILTER (WHERE {}) AS x FROM {F}",
    "SELECT row_number() OVER (PARTITION BY {} ORDER BY n) AS x FROM {F}",
    "SELECT row_number() OVER (ORDER BY {}) AS x FROM {F}",
    "SELECT n FROM {F} QUALIFY {}",
    "SELECT n FROM {F} JOIN u ON {}",
    "SELECT n FROM {F} LEFT JOIN u ON {}",
    "SELECT {} FROM {F} UNION ALL SELECT n FROM u",
    "SELECT n FROM {F} EXCEPT SELECT {} FROM u t",
    "SELECT n FROM {F} WHERE n IN ({})",
    "SELECT n FROM {F} WHERE n = {}",
    "SELECT CASE WHEN n > 0 THEN {} ELSE 1 END AS x FROM {F}",
    "SELECT abs({}) AS x FROM {F}",
    "SELECT * FROM (SELECT {} AS x FROM {F}) AS q",
    "SELECT n FROM {F} WHERE EXISTS (SELECT 1 FROM u WHERE {})",
    "SELECT n FROM {F}, LATERAL (SELECT {} AS z) AS q",
    "SELECT x FROM {F}, unnest({}) AS q(x)",
    "SELECT n, {} AS x FROM {F} GROUP BY n",
    "SELECT array_agg({} ORDER BY n) AS x FROM {F}",
    "WITH w AS (SELECT {} AS x FROM {F}) SELECT x FROM w",
    "VALUES ({})",
];

const RELATIONS: [&str; 38] = [
    "t",
    "t, u",
    "t JOIN u ON t.n = u.n",
    "t JOIN u USING (n)",
    "t JOIN u USING (zzz)",
    "t NATURAL JOIN u",
    "t LEFT JOIN u ON t.n",
    "t FULL JOIN u USING (n)",
    "t JOIN u ON t.n < u.n",
    "t CROSS JOIN u",
    "t, LATERAL (SELECT * FROM u WHERE u.n = t.n) x",
    "t, unnest(t.l) AS x(y)",
    "unnest(ARRAY[1,2]) AS t(n)",
    "(SELECT * FROM t) t",
    "(VALUES (1, 'a')) AS t(n, s)",
    "(VALUES (1), ('a')) AS t(n)",
    "(VALUES (1, 2), (3)) AS t(n)",
    "tumble(t, at, INTERVAL '1 minute') t",
    "tumble(TABLE(t), n, INTERVAL '1 minute') t",
    "hop(TABLE(t), at, 1) t",
    "tumble(TABLE(src), at, INTERVAL '1 minute') t",
    "session(TABLE(src), at, INTERVAL '1 month') t",
    "generate_series(1, 3) AS t(n)",
    "foo() t",
    "nope t",
    "src t",
    "src t JOIN u ON t.n = u.n",
    "src t JOIN src u ON t.n = u.n",
    "t TABLESAMPLE BERNOULLI (10)",
    "t FOR SYSTEM_TIME AS OF now()",
    "ONLY t",
    "late(TABLE(t)) t",
    "late(TABLE(src)) t",
    "sequence(count => 3) t",
    "sequence(counts => 3) t",
    "'/nope/x.csv' t",
    "pg_catalog.pg_class t",
    "t AS t(a, b, c, d, e, f, g)",
];

const STATEMENTS: [&str; 49] = [
    "SHOW COLUMNS FROM t",
    "SHOW COLUMNS",
    "COPY t TO '/tmp/x.csv'",
    "COPY (SELECT 1) TO STDOUT",
    "DESCRIBE nope",
    "DROP VIEW nope",
    "ALTER VIEW nope SET (x = 1)",
    "ALTER TABLE t ADD COLUMN x INT",
    "CREATE TABLE x (a INT)",
    "CREATE TABLE x AS SELECT 1",
    "CREATE TEMP TABLE x (a INT)",
    "CREATE INDEX i ON t (n)",
    "CREATE SCHEMA x",
    "CREATE TYPE x AS ENUM ('a')",
    "CREATE SOURCE x (a FOO) WITH (connector = 'http')",
    "CREATE SOURCE x (a MAP<INT,INT>) WITH (connector = 'file', path = '/nope')",
    "CREATE SOURCE x (a STRUCT<b INT>) WITH (connector = 'file', path = '/nope.csv', format = 'csv')",
    "CREATE SINK x WITH (connector = 'nope') AS SELECT 1",
    "CREATE SINK x WITH (connector = 'file') AS SELECT 1",
    "CREATE FUNCTION f(a FOO) RETURNS BIGINT AS 'a'",
    "CREATE FUNCTION f(a BIGINT) RETURNS VARCHAR AS 'a'",
    "CREATE FUNCTION f(a BIGINT) RETURNS TABLE (b BIGINT) AS 'SELECT s FROM t'",
    "CREATE AGGREGATE a (x BIGINT) RETURNS BIGINT STATE (y BIGINT) LANGUAGE wasm AS '/nope'",
    "CREATE PROCESS p AS SELECT 1",
    "CREATE POOL p WITH (workers = 'a')",
    "CREATE PLACES p (1, 'a')",
    "SET workers = 'a'",
    "SET foo = 1",
    "SUBSCRIBE t",
    "STOP nope",
    "EXPLAIN",
    "UPDATE t SET n = 1",
    "DELETE FROM t",
    "TRUNCATE t",
    "INSERT INTO t VALUES (1)",
    "INSERT INTO src VALUES (1)",
    "GRANT SELECT ON t TO x",
    "SELECT 1 FROM",
    "SELECT FROM t",
    "SELECT * t",
    "SELECT 1 +",
    "SELECT (1",
    "SELECT 'a",
    "VALUES (1), (1, 2)",
    "VALUES (1), ('a')",
    "TABLE t",
    "CALL foo()",
    "MERGE INTO t USING u ON t.n = u.n WHEN MATCHED THEN DELETE",
    "DECLARE c CURSOR FOR SELECT 1",
];

fn planner() -> Planner {
    let mut planner = Planner::new();
    for statement in &parse(DEFINED, "test").unwrap() {
        planner.execute(statement).map(drop).unwrap_or_else(|error| panic!("{error}"));
    }
    planner
}

/// What a statement says if it is refused, and what EXPLAIN says.
fn said(planner: &mut Planner, text: &str) -> Option<String> {
    let error = match parse(text, "test") {
        Err(error) => error,
        Ok(statements) => {
            let mut error = None;
            for statement in &statements {
                match planner.execute(statement) {
                    Ok(Reply::Text(explained)) => return Some(explained),
                    Ok(_) => {}
                    Err(refused) => error = error.or(Some(refused)),
                }
            }
            error?
        }
    };
    Some(format!("{}\n{}", error.message, error.hint.unwrap_or_default()))
}

/// The first word of the list in a text.
fn found(text: &str) -> Option<&'static str> {
    let is_letter = |char: Option<char>| char.is_some_and(|char| char.is_alphanumeric() || char == '_');
    WORDS.into_iter().find(|word| {
        text.match_indices(word).any(|(at, _)| {
            !is_letter(text[..at].chars().next_back()) && !is_letter(text[at + word.len()..].chars().next())
        })
    })
}

fn check(statements: impl Iterator<Item = String>, at_least: usize) {
    let mut planner = planner();
    let (mut asked, mut refused, mut wrong) = (0, 0, Vec::new());
    for text in statements {
        asked += 1;
        let Some(said) = said(&mut planner, &text) else { continue };
        refused += 1;
        if let Some(word) = found(&said) {
            wrong.push(format!("{word}: {text}\n    {}", said.replace('\n', "\n    ")));
        }
    }
    assert!(asked >= at_least && refused * 4 > asked, "{refused} of {asked} were refused");
    let shown = wrong[..wrong.len().min(25)].join("\n");
    assert!(wrong.is_empty(), "{} of {refused} refusals:\n{shown}", wrong.len());
}

#[test]
fn functions_with_any_arguments() {
    let statement = parse("SHOW FUNCTIONS", "test").unwrap().remove(0);
    let Ok(Reply::Rows(rows)) = Planner::new().execute(&statement) else { panic!("functions are listed") };
    let names = datafusion::arrow::array::AsArray::as_string::<i32>(rows.column(0)).clone();
    let names: Vec<String> = names.iter().flatten().map(str::to_owned).collect();
    let calls = names.into_iter().enumerate().flat_map(|(at, name)| {
        let argument = move |place: usize| ARGUMENTS[(at * 7 + place * 5) % ARGUMENTS.len()];
        let none = std::iter::once(format!("{name}()"));
        let one = ARGUMENTS.iter().map({
            let name = name.clone();
            move |argument| format!("{name}({argument})")
        });
        let more = (0..4).flat_map({
            let name = name.clone();
            move |turn| {
                let (a, b, c) = (argument(turn), argument(turn + 3), argument(2 * turn + 1));
                [
                    format!("{name}({a}, {b})"),
                    format!("{name}({a}, {b}, {c})"),
                    format!("{name}({a}) OVER (ORDER BY n)"),
                    format!("{name}({b}) FILTER (WHERE n > 0)"),
                    format!("{name}({c}) WITHIN GROUP (ORDER BY n)"),
                ]
            }
        });
        none.chain(one).chain(more).collect::<Vec<_>>()
    });
    check(calls.map(|call| format!("SELECT {call} FROM t")), 10_000);
}

#[test]
fn expressions_in_any_place() {
    let queries = PLACES.into_iter().flat_map(|place| {
        EXPRESSIONS.into_iter().enumerate().flat_map(move |(at, expression)| {
            let query = place.replace("{}", expression);
            let query =
                if query.contains("JOIN u") { query.replace("SELECT n ", "SELECT t.n ") } else { query };
            let mut statements = vec![query.replace("{F}", "t")];
            if query.contains("{F}") {
                let view = if at % 2 == 0 { "MATERIALIZED VIEW" } else { "VIEW" };
                statements
                    .push(format!("CREATE OR REPLACE {view} found AS {}", query.replace("{F}", "src t")));
            }
            if at % 7 == 0 {
                statements.push(format!("EXPLAIN {}", statements[0]));
            }
            statements
        })
    });
    check(queries, 6_000);
}

#[test]
fn relations_in_any_query_and_other_statements() {
    let queries = RELATIONS.into_iter().flat_map(|relation| {
        [
            "SELECT * FROM {}",
            "SELECT count(*) AS c FROM {}",
            "SELECT n, count(*) AS c FROM {} GROUP BY n",
            "SELECT * FROM {} ORDER BY 1 LIMIT 1",
            "SELECT DISTINCT n FROM {}",
        ]
        .into_iter()
        .flat_map(move |query| {
            let query = query.replace("{}", relation);
            [
                format!("EXPLAIN {query}"),
                format!("CREATE OR REPLACE VIEW found AS {query}"),
                format!("CREATE OR REPLACE MATERIALIZED VIEW found AS {query}"),
            ]
        })
    });
    check(queries.chain(STATEMENTS.into_iter().map(str::to_owned)), 400);
}
