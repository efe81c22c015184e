//! Random queries whose columns are always `x`, `y` (numbers) and `z` (a text), so that each can be a part of another one. Whatever SQL
//! leaves open is not asked: orders are total, but for equal rows.

use tidemill_testing::random::Random;

/// How deep queries are nested.
const DEPTH: u64 = 3;

pub fn random(random: &mut Random) -> String {
    let depth = 1 + random.below(DEPTH);
    relation(random, depth)
}

fn relation(random: &mut Random, depth: u64) -> String {
    if depth == 0 {
        let table = random.one_of(&["t1", "t1", "t2", "s"]);
        return format!("SELECT id AS x, a AS y, t AS z FROM {table}");
    }
    let inner = |random: &mut Random| {
        let depth = random.below(depth);
        relation(random, depth)
    };
    match random.below(20) {
        0 => {
            let (input, condition) = (inner(random), condition(random, "q"));
            format!("SELECT x, y, z FROM ({input}) AS q WHERE {condition}")
        }
        1 => {
            let input = inner(random);
            let column = random.one_of(&["x + 1", "y - x", "CASE WHEN y > 1 THEN x END", "coalesce(y, 0)"]);
            format!("SELECT {column} AS x, y, coalesce(z, 'none') AS z FROM ({input}) AS q")
        }
        2..=4 => {
            let (left, right) = (inner(random), inner(random));
            let kind = random.one_of(&["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
            let on = random.one_of(&["l.x = r.x", "l.x = r.y", "l.y = r.y AND l.z = r.z"]);
            let more = random.one_of(&["", "", " AND l.y < r.y", " AND l.y IS NOT NULL", " AND r.z <> 'p'"]);
            format!(
                "SELECT coalesce(l.x, r.x) AS x, r.y AS y, coalesce(l.z, r.z) AS z
                 FROM ({left}) AS l {kind} ({right}) AS r ON {on}{more}"
            )
        }
        5 => {
            let (left, right) = (inner(random), inner(random));
            let predicate = random.one_of(&[
                "x IN (SELECT y FROM (R) AS r)",
                "y IN (SELECT y FROM (R) AS r)",
                "y NOT IN (SELECT y FROM (R) AS r)",
                "x NOT IN (SELECT y FROM (R) AS r WHERE r.y IS NOT NULL)",
                "EXISTS (SELECT 1 FROM (R) AS r WHERE r.x = l.x)",
                "NOT EXISTS (SELECT 1 FROM (R) AS r WHERE r.x = l.x AND r.y > l.y)",
                "EXISTS (SELECT 1 FROM (R) AS r WHERE r.y = l.y AND r.z = l.z)",
            ]);
            let predicate = predicate.replace("(R)", &format!("({right})"));
            format!("SELECT x, y, z FROM ({left}) AS l WHERE {predicate}")
        }
        6 | 7 => {
            let input = inner(random);
            let value = random.one_of(&[
                "sum(y)",
                "count(*)",
                "count(y)",
                "min(y)",
                "max(y)",
                "count(DISTINCT y)",
                "sum(y) FILTER (WHERE z = 'p')",
                "sum(DISTINCT y)",
            ]);
            let text = random.one_of(&["min(z)", "max(z)", "CAST(avg(y) > 1 AS VARCHAR)"]);
            let having = random.one_of(&["", "", " HAVING count(*) > 1", " HAVING sum(y) > 0"]);
            let (key, group) = random.one_of(&[
                ("x", " GROUP BY x"),
                ("x", " GROUP BY x"),
                ("max(x)", ""),
                ("max(x)", " GROUP BY z"),
            ]);
            let having = if group.is_empty() { "" } else { having };
            format!(
                "SELECT {key} AS x, CAST({value} AS BIGINT) AS y, {text} AS z FROM ({input}) AS q{group}{having}"
            )
        }
        8 => {
            let input = inner(random);
            format!("SELECT DISTINCT x, y, z FROM ({input}) AS q")
        }
        9 => {
            let (left, right) = (inner(random), inner(random));
            let operator = random.one_of(&[
                "UNION ALL",
                "UNION ALL",
                "UNION",
                "INTERSECT",
                "EXCEPT",
                "INTERSECT ALL",
                "EXCEPT ALL",
            ]);
            format!("SELECT x, y, z FROM ({left}) AS l {operator} SELECT x, y, z FROM ({right}) AS r")
        }
        10 => {
            let input = inner(random);
            let order = random.one_of(&["x, y, z", "y DESC, x, z", "z, x DESC, y"]);
            let order: Vec<String> = order
                .split(", ")
                .map(|by| format!("{by} NULLS {}", random.one_of(&["FIRST", "LAST"])))
                .collect();
            let (order, limit) = (order.join(", "), 1 + random.below(5));
            let offset = random.one_of(&["", "", " OFFSET 2"]);
            format!(
                "SELECT x, y, z FROM (SELECT x, y, z FROM ({input}) AS q ORDER BY {order} LIMIT {limit}{offset}) AS q"
            )
        }
        11 => {
            let input = inner(random);
            let value = random.one_of(&[
                "row_number() OVER (PARTITION BY x ORDER BY y NULLS FIRST, z NULLS FIRST)",
                "rank() OVER (PARTITION BY z ORDER BY y NULLS FIRST)",
                "dense_rank() OVER (ORDER BY y DESC NULLS LAST)",
                "count(*) OVER (PARTITION BY x)",
                "sum(y) OVER (PARTITION BY z)",
                "lag(y) OVER (PARTITION BY x ORDER BY y NULLS FIRST, z NULLS FIRST)",
                "lead(y) OVER (ORDER BY x NULLS FIRST, y NULLS FIRST, z NULLS FIRST)",
                "sum(y) OVER (PARTITION BY x ORDER BY y NULLS FIRST, z NULLS FIRST
                 ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
            ]);
            let condition = random.one_of(&["", "", " WHERE y <= 2"]);
            format!(
                "SELECT x, y, z FROM (SELECT x, CAST({value} AS BIGINT) AS y, z FROM ({input}) AS q) AS q{condition}"
            )
        }
        12 => {
            let input = inner(random);
            let order = random.one_of(&["y NULLS FIRST, z NULLS FIRST", "y DESC NULLS LAST, z NULLS LAST"]);
            format!(
                "SELECT x, y, z FROM (SELECT DISTINCT ON (x) x, y, z FROM ({input}) AS q ORDER BY x, {order}) AS q"
            )
        }
        13 => {
            let input = inner(random);
            let sets = random.one_of(&["ROLLUP (x, z)", "CUBE (x, z)", "GROUPING SETS ((x), (z), ())"]);
            format!("SELECT x, CAST(sum(y) AS BIGINT) AS y, z FROM ({input}) AS q GROUP BY {sets}")
        }
        14 => {
            let input = inner(random);
            let order = random.one_of(&["y NULLS FIRST, z NULLS FIRST", "z DESC NULLS LAST, y NULLS LAST"]);
            format!(
                "SELECT x, first_value(y ORDER BY {order}) AS y, string_agg(z, '-' ORDER BY {order}) AS z
                 FROM ({input}) AS q GROUP BY x"
            )
        }
        17 | 18 => {
            let (left, right) = (inner(random), inner(random));
            let rows = random.one_of(&[
                "SELECT max(y) AS y FROM (R) AS r WHERE r.x < l.x",
                "SELECT y FROM (R) AS r WHERE r.x = l.y",
                "SELECT y FROM (R) AS r WHERE r.x = l.x ORDER BY y NULLS FIRST LIMIT 2",
                "SELECT count(*) AS y FROM (R) AS r WHERE r.y > l.y",
            ]);
            let rows = rows.replace("(R)", &format!("({right})"));
            let join = random.one_of(&["CROSS JOIN", "CROSS JOIN", "LEFT JOIN"]);
            let on = if join == "LEFT JOIN" { " ON true" } else { "" };
            format!("SELECT l.x, r.y, l.z FROM ({left}) AS l {join} LATERAL ({rows}) AS r{on}")
        }
        15 | 16 => {
            let input = inner(random);
            let (open, close) =
                random.one_of(&[("[tumble]", "[/tumble]"), ("[hop]", "[/hop]"), ("[session]", "[/session]")]);
            // Sessions are of what rows are grouped by, here by the text.
            let group =
                if open == "[session]" { "z, window_start, window_end" } else { "window_start, window_end" };
            let z = if open == "[session]" { "z" } else { "max(z)" };
            let x = random.one_of(&["window_start", "window_end"]);
            let y = random.one_of(&["count(*)", "sum(y)", "max(x)"]);
            format!(
                "SELECT CAST(date_part('epoch', {x}) AS BIGINT) - 946684800 AS x, CAST({y} AS BIGINT) AS y, {z} AS z
                 FROM {open}SELECT x, y, z, TIMESTAMP '2000-01-01' + x * INTERVAL '1 second' AS moment
                 FROM ({input}) AS q{close}
                 GROUP BY {group}"
            )
        }
        _ => {
            let (left, right) = (inner(random), inner(random));
            let value = random.one_of(&[
                "(SELECT count(*) FROM (R) AS r)",
                "(SELECT max(y) FROM (R) AS r)",
                "(SELECT count(*) FROM (R) AS r WHERE r.x = l.x)",
                "(SELECT CAST(sum(r.y) AS BIGINT) FROM (R) AS r WHERE r.x = l.x)",
                "(SELECT count(*) FROM (R) AS r WHERE r.x < l.x)",
                "(SELECT max(r.y) FROM (R) AS r WHERE r.y < l.y AND r.z <> l.z)",
                "(SELECT r.y FROM (R) AS r WHERE r.x = l.x ORDER BY r.y NULLS FIRST LIMIT 1)",
            ]);
            let value = value.replace("(R)", &format!("({right})"));
            format!("SELECT x, CAST({value} AS BIGINT) AS y, z FROM ({left}) AS l")
        }
    }
}

fn condition(random: &mut Random, of: &str) -> String {
    let condition =
        random.one_of(&["Q.y > 0", "Q.y IS NULL", "Q.z = 'p'", "Q.x < Q.y", "Q.x > 3 OR Q.z IS NULL"]);
    condition.replace('Q', of)
}

/// What is written differently here and in DuckDB.
const WINDOWS: [(&str, &str, &str); 6] = [
    ("[tumble]", "tumble((", "(SELECT *, window_start + INTERVAL '3 seconds' AS window_end
        FROM (SELECT *, time_bucket(INTERVAL '3 seconds', moment, TIMESTAMP '1970-01-01') AS window_start FROM ("),
    ("[/tumble]", "), moment, INTERVAL '3 seconds')", ") AS w) AS w WHERE moment IS NOT NULL) AS w"),
    ("[hop]", "hop((", "(SELECT *, window_start + INTERVAL '5 seconds' AS window_end FROM (SELECT *,
        unnest([0, 1, 2]) * INTERVAL '-2 seconds' + time_bucket(INTERVAL '2 seconds', moment, TIMESTAMP '1970-01-01')
        AS window_start FROM ("),
    (
        "[/hop]",
        "), moment, INTERVAL '2 seconds', INTERVAL '5 seconds')",
        ") AS w) AS w WHERE window_start + INTERVAL '5 seconds' > moment) AS w",
    ),
    ("[session]", "session((", "(SELECT *, min(moment) OVER (PARTITION BY z, session) AS window_start,
        max(moment) OVER (PARTITION BY z, session) + INTERVAL '2 seconds' AS window_end FROM (SELECT *,
        sum(begins) OVER (PARTITION BY z ORDER BY moment ROWS UNBOUNDED PRECEDING) AS session FROM (SELECT *,
        CASE WHEN moment - lag(moment) OVER (PARTITION BY z ORDER BY moment) <= INTERVAL '2 seconds'
        THEN 0 ELSE 1 END AS begins
        FROM ("),
    (
        "[/session]",
        "), moment, INTERVAL '2 seconds')",
        ") AS w WHERE moment IS NOT NULL) AS w) AS w) AS w",
    ),
];

/// A query as it is written here.
pub fn ours(sql: &str) -> String {
    WINDOWS.iter().fold(sql.to_owned(), |sql, (mark, ours, _)| sql.replace(mark, ours))
}

/// A query as DuckDB reads it.
pub fn for_duckdb(sql: &str) -> String {
    WINDOWS.iter().fold(sql.to_owned(), |sql, (mark, _, duckdb)| sql.replace(mark, duckdb))
}
