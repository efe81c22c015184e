//! Clauses that the SQL parser reads: each is refused at its place, or changes the result.

use tidemill_sql::parse;

use crate::language::support::{names, planner, run, shown};

/// A query, the piece of it that is marked, and a piece of the hint.
const REFUSED: &[(&str, &str, &str)] = &[
    ("SELECT id FROM t TABLESAMPLE BERNOULLI (10)", "TABLESAMPLE", "md5"),
    ("SELECT id FROM t TABLESAMPLE (10 PERCENT) REPEATABLE (1)", "TABLESAMPLE", "md5"),
    ("SELECT id FROM t SAMPLE 0.1", "SAMPLE", "md5"),
    ("SELECT id FROM (SELECT id FROM t) AS x TABLESAMPLE SYSTEM (1)", "TABLESAMPLE", "md5"),
    ("SELECT id FROM (SELECT id FROM t TABLESAMPLE SYSTEM (1)) AS x", "TABLESAMPLE", "md5"),
    ("SELECT id FROM t WHERE id IN (SELECT id FROM u TABLESAMPLE SYSTEM (1))", "TABLESAMPLE", "md5"),
    ("SELECT id FROM t PREWHERE id > 1", "PREWHERE", "WHERE"),
    ("SELECT k, count(*) FROM t GROUP BY k WITH ROLLUP", "WITH ROLLUP", "ROLLUP (a, b)"),
    ("SELECT k, count(*) FROM t GROUP BY k WITH CUBE", "WITH CUBE", "CUBE (a, b)"),
    ("SELECT k, count(*) FROM t GROUP BY k WITH TOTALS", "WITH TOTALS", "second query"),
    ("SELECT id INTO x FROM t", "INTO", "CREATE VIEW"),
    ("SELECT id FROM t UNION ALL SELECT id INTO x FROM u", "INTO", "CREATE VIEW"),
    ("SELECT TOP 3 id FROM t", "TOP", "LIMIT"),
    ("SELECT TOP (3) PERCENT id FROM t", "TOP", "LIMIT"),
    ("SELECT id FROM t ORDER BY id FETCH FIRST 2 ROWS WITH TIES", "FETCH", "LIMIT"),
    ("SELECT id FROM t FETCH FIRST 2 PERCENT ROWS ONLY", "FETCH", "LIMIT"),
    ("SELECT id FROM t FOR UPDATE", "FOR", "locked"),
    ("SELECT id FROM t FOR SHARE NOWAIT", "FOR", "locked"),
    ("SELECT id FROM t FOR JSON AUTO", "FOR", "format"),
    ("SELECT id FROM t SETTINGS max_threads = 3", "SETTINGS", "SET"),
    ("SELECT id FROM t FORMAT JSONCompact", "FORMAT", "format"),
    ("SELECT id FROM t LIMIT 2 BY k", "k", "ROW_NUMBER"),
    ("SELECT id FROM t CLUSTER BY id", "CLUSTER BY", "workers"),
    ("SELECT id FROM t DISTRIBUTE BY id", "DISTRIBUTE BY", "workers"),
    ("SELECT id FROM t SORT BY id", "SORT BY", "ORDER BY"),
    ("SELECT id FROM t START WITH id = 1 CONNECT BY PRIOR id = k", "START WITH", "join"),
    ("SELECT id FROM t LATERAL VIEW explode(id) x AS y", "LATERAL VIEW", "unnest"),
    ("SELECT id FROM t ORDER BY id WITH FILL", "WITH FILL", "no rows"),
    ("SELECT id FROM t ORDER BY id INTERPOLATE", "INTERPOLATE", "no rows"),
    ("SELECT id FROM t UNION ALL SELECT id FROM u ORDER BY ALL", "ALL", "columns"),
    ("SELECT id FROM t MINUS SELECT id FROM u", "MINUS", "EXCEPT"),
    ("TABLE t", "TABLE", "SELECT * FROM t"),
    ("WITH x AS MATERIALIZED (SELECT id FROM t) SELECT id FROM x", "MATERIALIZED", ""),
    ("WITH x AS NOT MATERIALIZED (SELECT id FROM t) SELECT id FROM x", "NOT", ""),
    (
        "WITH RECURSIVE x AS (SELECT id FROM t UNION ALL SELECT id FROM u LIMIT 1) SELECT id FROM x",
        "LIMIT",
        "RECURSIVE",
    ),
    ("SELECT id FROM t WITH (NOLOCK)", ")", ""),
    ("SELECT id FROM t FOR SYSTEM_TIME AS OF '2020-01-01'", "SYSTEM_TIME", ""),
    ("SELECT id FROM t AS x (id INT)", "id", "CAST"),
    ("SELECT * FROM UNNEST([1, 2]) WITH OFFSET", "WITH OFFSET", "remove"),
    ("SELECT * FROM t WITH ORDINALITY", "WITH ORDINALITY", "row_number"),
    ("SELECT * FROM t PIVOT (sum(id) FOR k IN (1, 2))", "PIVOT", "FILTER"),
    ("SELECT * FROM t UNPIVOT (v FOR n IN (id, k))", "UNPIVOT", "UNION ALL"),
    ("SELECT id FROM t JOIN u", "u", "CROSS JOIN"),
    ("SELECT t.id FROM t LEFT JOIN u", "u", "CROSS JOIN"),
    ("SELECT t.id FROM t GLOBAL JOIN u ON t.id = u.id", "GLOBAL", "workers"),
    ("SELECT t.id FROM t ASOF JOIN u MATCH_CONDITION (t.id >= u.id) ON t.id = u.w", "u", "last_value"),
    ("SELECT t.id FROM t SEMI JOIN u ON t.id = u.id", "u", "LEFT SEMI"),
    ("SELECT t.id FROM t CROSS APPLY u", "u", "JOIN"),
    ("SELECT * RENAME (id AS x) FROM t", "RENAME", "AS"),
    ("SELECT * ILIKE 'i%' FROM t", "ILIKE", "columns"),
    ("SELECT sum(id) OVER (w ORDER BY at) FROM t WINDOW w AS (PARTITION BY k)", "w", "OVER"),
    ("SELECT id FROM t WINDOW w AS (PARTITION BY k) QUALIFY sum(id) OVER w > 1", "w", "OVER"),
    ("SELECT id FROM t WINDOW w AS (PARTITION BY k) ORDER BY sum(id) OVER w", "w", "OVER"),
    ("SELECT string_agg(text, ',' LIMIT 1) FROM t", "LIMIT", "array_slice"),
    ("SELECT any_value(id HAVING MAX k) FROM t", "HAVING", "ROW_NUMBER"),
    ("SELECT quantile(0.5)(id) FROM t", "quantile(0.5)(id", "one list"),
    ("SELECT array(SELECT id FROM u) FROM t", "SELECT id FROM u", "parentheses"),
    ("SELECT count(* EXCLUDE (id)) FROM t", "count", "columns"),
    ("SELECT text COLLATE \"de\" FROM t", "text COLLATE \"de\"", "lower"),
    ("SELECT at AT TIME ZONE text FROM t", "text", "Europe"),
    ("SELECT CAST(id AS FLOAT(54)) FROM t", "FLOAT", "DOUBLE"),
    ("SELECT CAST(id AS FLOAT(7, 2)) FROM t", "FLOAT", "DECIMAL"),
    ("SELECT CAST(id AS DOUBLE(7, 2)) FROM t", "DOUBLE", "DECIMAL"),
    ("SELECT CAST(id AS INT(11)) FROM t", "INT", "remove the width"),
    ("SELECT TRY_CAST(id AS BIGINT(20) UNSIGNED) FROM t", "BIGINT", "remove the width"),
    ("SELECT CAST(id AS DECIMAL(50, 2)) FROM t", "DECIMAL", "DECIMAL(38, 10)"),
    ("SELECT CAST(id AS DECIMAL(2, 5)) FROM t", "DECIMAL", "number of all digits"),
    ("SELECT CAST(id AS DECIMAL(2, -1)) FROM t", "DECIMAL", "number of all digits"),
    ("SELECT CAST(text AS TIMESTAMP(2)) FROM t", "TIMESTAMP", "TIMESTAMP"),
    ("SELECT CAST(text AS TIME(3)) FROM t", "TIME", "TIME"),
    ("SELECT CAST(text AS TIME WITH TIME ZONE) FROM t", "TIME", "instant"),
    ("SELECT CAST(text AS INTERVAL(3)) FROM t", "INTERVAL", "INTERVAL"),
    ("SELECT CAST([text] AS VARCHAR(2)[]) FROM t", "VARCHAR", "left(text, 2)"),
    ("SELECT CAST(list AS STRUCT<a INT(3)>) FROM t", "STRUCT", "remove the width"),
    ("SELECT CAST([text] AS CHARACTER VARYING(3)[]) FROM t", "CHARACTER", "VARCHAR"),
    ("SELECT CAST([text] AS JSONB[]) FROM t", "JSONB", "VARCHAR"),
    ("SELECT CAST(text AS VARCHAR(0)) FROM t", "VARCHAR", "a length from 1"),
    ("SELECT CAST(text AS BIGNIT) FROM t", "BIGNIT", "did you mean BIGINT?"),
    ("SELECT TIMESTAMP(2) '2020-01-01 00:00:00' FROM t", "'2020-01-01 00:00:00'", "TIMESTAMP"),
    ("CREATE SOURCE x (a VARCHAR(0)) WITH (path = 'x.csv')", "VARCHAR(0)", "VARCHAR"),
    (
        "CREATE SOURCE x (n BIGINT, a VARCHAR(20) AS CAST(n AS VARCHAR)) WITH (path = 'x.csv')",
        "VARCHAR(20)",
        "VARCHAR",
    ),
    ("CREATE SOURCE x (a BIGINT, b INT(11) AS a) WITH (path = 'x.csv')", "INT(11)", "remove the width"),
    ("CREATE TABLE x (a BIGNIT) WITH (path = 'x.csv')", "BIGNIT", "did you mean BIGINT?"),
    ("CREATE TABLE x (a STRUCT<b DATETIME>) WITH (path = 'x.csv')", "STRUCT<b DATETIME>", "TIMESTAMP"),
    ("SELECT TRY_CAST(text AS DATE FORMAT 'YYYY') FROM t", "text", "to_"),
    ("SELECT text RLIKE 'a' FROM t", "RLIKE", "~"),
    ("SELECT text LIKE ANY ('a', 'b') FROM t", "text LIKE ANY ('a', 'b'", "OR"),
    ("SELECT CONVERT(text, DATE) FROM t", "text", "CAST"),
    ("SELECT floor(at TO DAY) FROM t", "at", "date_trunc"),
    ("SELECT at + INTERVAL '1-2' YEAR TO MONTH FROM t", "'1-2'", "1 day"),
    ("SELECT id FROM t WHERE id = $1", "$1", "value"),
    ("SELECT id FROM t WHERE id = ?", "?", "value"),
    ("SELECT N'a' FROM t", "N'a'", "single quotes"),
    ("SELECT id, FROM t |> AGGREGATE sum(id) AS s DESC GROUP BY k", "FROM", ""),
    ("FROM t |> TABLESAMPLE BERNOULLI (10 PERCENT)", "TABLESAMPLE", "md5"),
    ("FROM t |> AGGREGATE sum(id) AS s DESC GROUP BY k", "sum(id", "ORDER BY"),
    ("FROM t |> DROP k", "DROP", "SELECT"),
    ("FROM t |> RENAME k AS l", "RENAME", "SELECT"),
    ("SELECT FROM t", "FROM", ""),
    // What a function that is computed row by row cannot mean.
    ("SELECT abs(DISTINCT id) FROM t", "abs", "remove"),
    ("SELECT abs(id) FILTER (WHERE k = 1) FROM t", "abs", "CASE"),
    ("SELECT abs(id) OVER (ORDER BY at) FROM t", "abs", "remove"),
    ("SELECT abs(id ORDER BY k) FROM t", "abs", "remove"),
    ("SELECT abs(id) IGNORE NULLS FROM t", "abs", "remove"),
    ("SELECT upper(text) WITHIN GROUP (ORDER BY k) FROM t", "upper", "remove"),
    ("SELECT row_number() FILTER (WHERE k = 1) OVER (ORDER BY at) FROM t", "row_number", "WHERE"),
    ("SELECT lag(DISTINCT id) OVER (ORDER BY at) FROM t", "lag", "remove"),
    ("SELECT row_number() IGNORE NULLS OVER (ORDER BY at) FROM t", "row_number", "remove"),
    ("SELECT sum(id) IGNORE NULLS OVER (ORDER BY at) FROM t", "sum", "remove"),
];

/// Two queries, the second with a clause more: their results differ.
const CHANGES: &[(&str, &str)] = &[
    ("SELECT k FROM t", "SELECT DISTINCT k FROM t"),
    ("SELECT id FROM t", "SELECT id FROM t LIMIT 2"),
    ("SELECT id FROM t ORDER BY id DESC LIMIT 2", "SELECT id FROM t ORDER BY id DESC LIMIT 2 OFFSET 1"),
    ("SELECT id FROM t ORDER BY id DESC LIMIT 2", "SELECT id FROM t ORDER BY id DESC LIMIT 1, 2"),
    ("SELECT id FROM t", "SELECT id FROM t WHERE id > 1"),
    ("SELECT k, count(*) FROM t GROUP BY k", "SELECT k, count(*) FROM t GROUP BY k HAVING k > 1"),
    ("SELECT k, count(*) FROM t GROUP BY k", "SELECT k, count(*) FROM t GROUP BY ROLLUP (k)"),
    ("SELECT k, count(*) FROM t GROUP BY k", "SELECT k, count(*) FROM t GROUP BY CUBE (k)"),
    ("SELECT k, count(*) FROM t GROUP BY k", "SELECT k, count(*) FROM t GROUP BY GROUPING SETS ((k), ())"),
    ("SELECT * FROM t", "SELECT * EXCLUDE (k) FROM t"),
    ("SELECT * FROM t", "SELECT * EXCEPT (k) FROM t"),
    ("SELECT * FROM t", "SELECT * REPLACE (k + 1 AS k) FROM t"),
    ("SELECT count(k) AS n FROM t", "SELECT count(DISTINCT k) AS n FROM t"),
    ("SELECT sum(id) AS n FROM t", "SELECT sum(id) FILTER (WHERE k = 1) AS n FROM t"),
    ("SELECT id FROM t", "SELECT id FROM t EXCEPT SELECT id FROM u"),
    ("SELECT id FROM t", "SELECT id FROM t INTERSECT SELECT id FROM u"),
    ("SELECT id FROM t", "SELECT id FROM t UNION ALL SELECT id FROM u"),
    ("SELECT id FROM t UNION ALL SELECT id FROM u", "SELECT id FROM t UNION SELECT id FROM u"),
    ("SELECT t.id FROM t JOIN u ON t.id = u.id", "SELECT t.id FROM t JOIN u ON t.id = u.w"),
    ("SELECT t.id FROM t JOIN u ON t.id = u.id", "SELECT t.id FROM t LEFT JOIN u ON t.id = u.id"),
    ("SELECT t.id FROM t JOIN u ON t.id = u.id", "SELECT t.id FROM t LEFT ANTI JOIN u ON t.id = u.id"),
    ("SELECT trim('xax') AS x FROM t", "SELECT trim(BOTH 'x' FROM 'xax') AS x FROM t"),
    ("FROM t", "FROM t |> WHERE id > 1"),
    ("FROM t", "FROM t |> LIMIT 2"),
    ("FROM t", "FROM t |> EXTEND id + 1 AS next"),
    ("FROM t", "FROM t |> AGGREGATE sum(id) AS s GROUP BY k"),
];

/// The names and rows of a query, sorted, as text.
fn answer(query: &str) -> (Vec<String>, Vec<String>) {
    let rows = run(&mut planner(), query).unwrap_or_else(|error| panic!("{query}: {error}"));
    (names(&rows), shown(&rows))
}

#[test]
fn what_no_one_plans_is_refused_at_its_place() {
    let mut wrong = Vec::new();
    for (query, marked, hint) in REFUSED {
        let error = match parse(query, "test.sql") {
            Err(error) => error,
            Ok(statements) => match planner().execute(&statements[0]) {
                Err(error) => error,
                Ok(_) => {
                    wrong.push(format!("not refused: {query}"));
                    continue;
                }
            },
        };
        let place = &query[error.span.bytes()];
        if place != *marked {
            wrong.push(format!("marked '{place}' instead of '{marked}':\n{error}"));
        }
        if !error.hint.as_deref().unwrap_or_default().contains(hint) {
            wrong.push(format!("no hint with '{hint}':\n{error}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn what_is_planned_changes_the_result() {
    for (without, with) in CHANGES {
        assert_ne!(answer(without), answer(with), "{with}");
    }
}

#[test]
fn a_query_that_begins_with_from_selects_all_columns() {
    assert_eq!(answer("FROM t"), answer("SELECT * FROM t"));
    assert_eq!(answer("FROM t LIMIT 2"), answer("SELECT * FROM t LIMIT 2"));
    assert_eq!(answer("WITH x AS (FROM t) SELECT id FROM x"), answer("SELECT id FROM t"));
    assert_eq!(answer("FROM t SELECT id"), answer("SELECT id FROM t"));
}
