//! Queries that are odd or wrong, made of templates and pieces: none may panic, end in a fault of ours, or say in a
//! message or a header what only programmers of the planner understand.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tidemill_connect::memory::MemorySink;
use tidemill_engine::{Cause, Fault, Sink};
use tidemill_sql::{Planner, Prepared, Reply, parse};

use crate::language::support::planner;

/// `$` is each of the expressions.
const TEMPLATES: &[&str] = &[
    "SELECT $ FROM t",
    "SELECT $",
    "SELECT id FROM t WHERE $",
    "SELECT id FROM t WHERE $ = $ AND id > 1",
    "SELECT id FROM t ORDER BY $",
    "SELECT $, count(*) FROM t GROUP BY $",
    "SELECT count(*) FROM t GROUP BY k HAVING $",
    "SELECT k, sum($) FROM t GROUP BY k",
    "SELECT count(DISTINCT $), max($) FROM t",
    "SELECT sum(id) FILTER (WHERE $) FROM t",
    "SELECT t.id FROM t JOIN u ON $",
    "SELECT id, (SELECT $ FROM u) FROM t",
    "SELECT id FROM t WHERE id IN (SELECT $ FROM u)",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE $)",
    "SELECT sum(id) OVER (PARTITION BY $ ORDER BY at) FROM t",
    "SELECT sum($) OVER (ORDER BY at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
    "SELECT CASE WHEN $ THEN 1 ELSE $ END FROM t",
    "SELECT abs($), upper($) FROM t",
    "SELECT id FROM t LIMIT $",
    "SELECT $ FROM t UNION ALL SELECT id FROM u",
    "SELECT * FROM tumble(TABLE(t), $, INTERVAL '1 second')",
    "SELECT * FROM sequence(count => $)",
    "SELECT CAST($ AS DATE), CAST($ AS BIGINT) FROM t",
    "SELECT * FROM (VALUES ($, 1)) AS v (a, b)",
    "CREATE SOURCE s (id BIGINT, c AS $) WITH (path = '/nonexistent/file.csv')",
];

const EXPRESSIONS: &[&str] = &[
    "id",
    "t.id",
    "nothing",
    "t.nothing",
    "other.id",
    "u.w",
    "1",
    "-1",
    "0",
    "1.5",
    "'a'",
    "''",
    "NULL",
    "TRUE",
    "*",
    "t.*",
    "flag",
    "text",
    "at",
    "list",
    "list[1]",
    "list['a']",
    "text.a",
    "id + text",
    "id + at",
    "at - at",
    "at + INTERVAL '1 day'",
    "INTERVAL '1 day'",
    "INTERVAL '1 nonsense'",
    "DATE '2026-01-01'",
    "DATE 'nonsense'",
    "CAST(id AS NOTHING)",
    "CAST(text AS BIGINT)",
    "CAST(NULL AS BIGINT[])",
    "nosuch(id)",
    "abs()",
    "abs(id, id)",
    "abs(*)",
    "count(*)",
    "count()",
    "count(id, k)",
    "sum(text)",
    "sum(sum(id))",
    "sum(id) OVER ()",
    "sum(id) OVER w",
    "row_number()",
    "row_number() OVER (ORDER BY at)",
    "lag(id) OVER (ORDER BY at)",
    "lag(id, id) OVER (ORDER BY at)",
    "ntile(0) OVER (ORDER BY at)",
    "percentile_cont(0.5) WITHIN GROUP (ORDER BY x)",
    "percentile_cont(2) WITHIN GROUP (ORDER BY x)",
    "array_agg(id ORDER BY x)",
    "string_agg(text, ',')",
    "grouping(k)",
    "random()",
    "now()",
    "(SELECT 1)",
    "(SELECT id FROM u)",
    "(SELECT id, w FROM u)",
    "(SELECT w FROM u WHERE u.id = t.id)",
    "(SELECT max(w) FROM u WHERE u.id < t.id)",
    "EXISTS (SELECT 1 FROM u WHERE u.id = t.id)",
    "id IN (1, 'a', NULL)",
    "id IN (SELECT id FROM u)",
    "id NOT IN (SELECT id FROM u)",
    "id = ANY (SELECT id FROM u)",
    "id > ALL (SELECT id FROM u)",
    "id BETWEEN 'a' AND TRUE",
    "text LIKE 1",
    "text LIKE 'a' ESCAPE 'bc'",
    "text ~ '('",
    "text SIMILAR TO 'a'",
    "(1, 2)",
    "(id, k) = (1, 2)",
    "ROW(1, 2)",
    "STRUCT(1, 'a')",
    "{'a': 1}",
    "MAP {'a': 1}",
    "[1, 'a']",
    "[]",
    "unnest(list)",
    "unnest(id)",
    "unnest([1, 2]) + 1",
    "to_char(at, 'YYYY')",
    "to_char(at, 'nonsense')",
    "date_format(at, '%Q')",
    "to_timestamp('x')",
    "to_timestamp(text, 'YYYY-MM-DD')",
    "extract(nonsense FROM at)",
    "extract(year FROM id)",
    "date_trunc('nonsense', at)",
    "date_trunc(text, at)",
    "date_bin(INTERVAL '0 seconds', at)",
    "position('a' IN id)",
    "substring(text FROM 'a')",
    "trim(BOTH id FROM text)",
    "overlay(text PLACING 'a' FROM 1)",
    "regexp_replace(text, '(', '')",
    "regexp_match(text, '[')",
    "coalesce()",
    "nullif(id)",
    "CASE id WHEN 1 THEN 'a' WHEN 2 THEN 2 END",
    "NOT id",
    "NOT flag",
    "- text",
    "+ text",
    "! flag",
    "~ id",
    "id / 0",
    "id % 0",
    "id ^ 2",
    "id # 1",
    "id << 100",
    "id || text",
    "id AND flag",
    "id IS TRUE",
    "id IS DISTINCT FROM text",
    "9223372036854775808",
    "99999999999999999999999999999999999999999",
    "1e400",
    "X'zz'",
    "x'00ff'",
    "current_date",
    "current_user",
    "@x",
    "@@version",
    ":name",
    "arrow_typeof(id)",
    "arrow_cast(id, 'Nonsense')",
    "arrow_cast(id, 'Int8')",
    "struct(id)['c0']",
    "get_field(list, 'a')",
    "named_struct('a', 1).b",
    "make_array(id, text)",
    "array_element(id, 1)",
    "generate_series(1, 10)",
    "range(1, 0, 0)",
    "repeat('a', -1)",
    "lpad(text, -1)",
    "chr(-1)",
    "to_hex(text)",
    "encode(text, 'nonsense')",
    "decode('zz', 'hex')",
    "digest(text, 'nonsense')",
    "log(-1)",
    "factorial(-1)",
    "gcd(text, 1)",
    "round(x, text)",
    "power(id, 100000)",
    "make_date(2026, 13, 40)",
    "nth_value(id, 0) OVER (ORDER BY at)",
    "first_value(id) IGNORE NULLS OVER (ORDER BY at)",
    "sum(id) OVER (ORDER BY at RANGE BETWEEN 'a' PRECEDING AND CURRENT ROW)",
    "sum(id) OVER (ORDER BY text RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)",
    "sum(id) OVER (ROWS BETWEEN CURRENT ROW AND 1 PRECEDING)",
    "max(list)",
    "min(STRUCT(id))",
    "avg(at)",
    "bool_and(id)",
    "corr(id)",
    "approx_percentile_cont(id)",
    "tumble(at, INTERVAL '1 second')",
    "tumble(id, 1)",
];

/// Whole queries.
const QUERIES: &[&str] = &[
    "SELECT * FROM t, t",
    "SELECT * FROM t NATURAL JOIN u",
    "SELECT * FROM t JOIN u USING (nothing)",
    "SELECT * FROM t JOIN u USING (id)",
    "SELECT id FROM t JOIN u ON t.id = u.id",
    "SELECT * FROM t FULL JOIN u ON t.id = u.id",
    "SELECT * FROM t RIGHT JOIN u ON t.id < u.id",
    "SELECT * FROM t, LATERAL (SELECT w FROM u WHERE u.id = t.id)",
    "SELECT * FROM t LEFT JOIN LATERAL (SELECT sum(w) FROM u WHERE u.id = t.id) ON TRUE",
    "SELECT * FROM t EXCEPT SELECT * FROM u",
    "SELECT id FROM t INTERSECT ALL SELECT id FROM u",
    "SELECT id FROM t UNION SELECT text FROM t",
    "SELECT list FROM t UNION ALL SELECT id FROM u",
    "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r WHERE i < 5) SELECT * FROM r",
    "WITH a AS (SELECT 1), a AS (SELECT 2) SELECT * FROM a",
    "WITH a (x, y) AS (SELECT 1) SELECT * FROM a",
    "SELECT * FROM (SELECT 1) AS a (x, y)",
    "SELECT * FROM (VALUES (1), (1, 2)) AS v",
    "SELECT * FROM (VALUES (1), ('a')) AS v",
    "SELECT * FROM unnest([1, 2])",
    "SELECT * FROM unnest()",
    "SELECT * FROM nosuch",
    "SELECT * FROM nosuch(1)",
    "SELECT * FROM tumble(t)",
    "SELECT * FROM tumble(TABLE(nosuch), at, INTERVAL '1 second')",
    "SELECT * FROM hop(TABLE(t), at, INTERVAL '1 second', INTERVAL '0 seconds')",
    "SELECT * FROM session(TABLE(t), text, INTERVAL '1 second')",
    "SELECT * FROM late(TABLE(t))",
    "SELECT * FROM splitstream(TABLE(t))",
    "SELECT * FROM mergestream(t)",
    "SELECT * FROM postfilter((SELECT id FROM t))",
    "SELECT * FROM adaptive_regions(TABLE(t))",
    "SELECT * FROM sequence(rate => 'a')",
    "SELECT * FROM '/nonexistent/*.csv'",
    "SELECT * FROM 'nonexistent.parquet'",
    "SELECT id FROM t GROUP BY ALL",
    "SELECT id, sum(x) FROM t GROUP BY ALL",
    "SELECT id FROM t GROUP BY 3",
    "SELECT id FROM t GROUP BY 0",
    "SELECT id FROM t ORDER BY 3",
    "SELECT id FROM t ORDER BY ALL",
    "SELECT k, sum(id) FROM t GROUP BY ROLLUP (k) ORDER BY 1",
    "SELECT grouping(k), sum(id) FROM t GROUP BY CUBE (k)",
    "SELECT DISTINCT ON (k) k, id FROM t ORDER BY k, id",
    "SELECT DISTINCT k FROM t ORDER BY id",
    "SELECT * EXCLUDE (nothing) FROM t",
    "SELECT * EXCLUDE (id, k, at, text, x, flag, list) FROM t",
    "SELECT * REPLACE (1 AS nothing) FROM t",
    "SELECT sum(id) AS s FROM t WHERE s > 1",
    "SELECT id AS a, a + 1 FROM t",
    "SELECT id FROM t QUALIFY row_number() OVER (ORDER BY id) = 1",
    "SELECT id FROM t QUALIFY id = 1",
    "SELECT sum(id) OVER w FROM t WINDOW w AS (ORDER BY at), w AS (ORDER BY id)",
    "SELECT id FROM t LIMIT -1",
    "SELECT id FROM t LIMIT 'a'",
    "SELECT id FROM t LIMIT (SELECT 1)",
    "SELECT id FROM t LIMIT 1 OFFSET -1",
    "SELECT id FROM t LIMIT 0",
    "SELECT id FROM t OFFSET 100",
    "SELECT id FROM t WHERE 1 = 0",
    "SELECT count(*), sum(id), max(text) FROM t WHERE 1 = 0",
    "SELECT t FROM t",
    "SELECT t.t.id FROM t",
    "SELECT a.b.c.d.id FROM t",
    "SELECT id FROM a.b.c.d",
    "SELECT \"\" FROM t",
    "SELECT id AS \"\" FROM t",
    "SELECT id AS 'x' FROM t",
    "FROM t |> WHERE nothing > 1",
    "FROM t |> AGGREGATE sum(id) GROUP BY k |> ORDER BY k",
    "FROM t |> SELECT id |> WHERE k = 1",
    "FROM t |> EXTEND id + 1",
    "FROM t |> JOIN u ON t.id = u.id",
    "FROM t |> UNION ALL (SELECT * FROM u)",
    "EXPLAIN SELECT nothing FROM t",
    "EXPLAIN SELECT sum(id) FROM t GROUP BY k",
    "DESCRIBE nothing",
    "CREATE VIEW v AS SELECT nothing FROM t",
    "CREATE MATERIALIZED VIEW v AS SELECT id FROM t ORDER BY id",
    "CREATE MATERIALIZED VIEW v PRIMARY KEY (nothing) AS SELECT id FROM t",
    "CREATE SINK s WITH (path = '/nonexistent/x/y.csv') AS SELECT nothing FROM t",
    "INSERT INTO nothing SELECT id FROM t",
];

/// What no user should read.
const INTERNAL: &[&str] = &[
    " bug",
    "panicked",
    "LeftSemi",
    "LeftAnti",
    "LeftMark",
    "OuterReferenceColumn",
    "Ident {",
    "Ident(",
    "Identifier(",
    "ObjectName",
    "Some(",
    "None)",
    "Field {",
    "Column {",
    "Span(",
    "Location(",
    "ValueWithSpan",
    "SingleQuotedString",
    "match_condition",
    "Int64(",
    "Utf8(",
    "Float64(",
    "Boolean(",
    "Utf8View",
    "IntervalMonthDayNano",
    "TimestampNanosecond(",
    "BinaryExpr",
    "ScalarFunction",
    "AggregateFunction",
    "LogicalPlan",
    "sqltorel",
    "ast node",
    "DataFusion",
    "SchemaError",
    "TypeSignature",
    "Coercible",
    "as written",
    "\u{1f}",
    "Physical plan",
    "physical plan",
    "DataType",
    "RawAggregate",
    "ExprPlanner",
    "UDF",
];

fn leaks(text: &str) -> Option<&'static str> {
    INTERNAL.iter().find(|piece| text.contains(**piece)).copied()
}

fn run(prepared: Prepared) -> Result<(), Cause> {
    let (mut sinks, mut kept): (Vec<Box<dyn Sink>>, Vec<_>) = (Vec::new(), Vec::new());
    for output in prepared.outputs() {
        let (sink, rows) = MemorySink::new(&output.schema, 10_000);
        sinks.push(Box::new(sink));
        kept.push(rows);
    }
    prepared.open(sinks)?.start()?.wait().map(|_| ())
}

/// What is wrong with what is said about a query.
fn wrong(planner: &mut Planner, query: &str) -> Option<String> {
    let reply = match parse(query, "q.sql") {
        Err(error) => Err(error),
        Ok(statements) => statements
            .iter()
            .map(|statement| planner.execute(statement))
            .next()
            .unwrap_or_else(|| panic!("no statement: {query}")),
    };
    let prepared = match reply {
        Err(error) => {
            // The line of the script is the user's own.
            let said = format!("{}\n{}", error.message, error.hint.as_deref().unwrap_or_default());
            return leaks(&said).map(|piece| format!("'{piece}' in the message:\n{error}"));
        }
        Ok(Reply::Query(prepared) | Reply::Analyze(prepared)) => prepared,
        Ok(Reply::Rows(rows)) => {
            let header =
                rows.schema().fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>().join(" | ");
            return leaks(&header).map(|piece| format!("'{piece}' in the header: {header}"));
        }
        Ok(_) => return None,
    };
    for output in prepared.outputs() {
        let names = output.schema.fields().iter().map(|field| field.name().clone());
        let header = names.collect::<Vec<_>>().join(" | ");
        if let Some(piece) = leaks(&header) {
            return Some(format!("'{piece}' in the header: {header}"));
        }
    }
    match run(*prepared) {
        Ok(()) => None,
        Err(Cause { fault: Fault::Bug, message: text, .. }) => Some(format!("a bug: {text}")),
        Err(cause) => leaks(&cause.to_string()).map(|piece| format!("'{piece}' in the failure: {cause}")),
    }
}

fn check(queries: impl Iterator<Item = String>) {
    let mut planner = planner();
    let mut found = Vec::new();
    let mut count = 0;
    for query in queries {
        count += 1;
        match catch_unwind(AssertUnwindSafe(|| wrong(&mut planner, &query))) {
            Ok(None) => {}
            Ok(Some(said)) => found.push(format!("{query}\n{said}")),
            Err(_) => found.push(format!("{query}\nit panics")),
        }
    }
    assert!(found.is_empty(), "{} of {count}:\n\n{}", found.len(), found.join("\n\n"));
}

#[test]
fn odd_queries_get_plain_answers() {
    check(QUERIES.iter().map(|query| (*query).to_string()));
}

#[test]
fn odd_expressions_get_plain_answers() {
    // Each template with each tenth piece, and each piece with some templates; all of them on demand.
    let all = std::env::var_os("TIDEMILL_WRONG_QUERIES").is_some();
    let pieces = TEMPLATES.iter().enumerate().flat_map(|(row, template)| {
        let chosen =
            EXPRESSIONS.iter().enumerate().filter(move |(column, _)| all || (row + column) % 10 == 0);
        chosen.map(|(_, piece)| template.replace('$', piece))
    });
    check(pieces);
}
