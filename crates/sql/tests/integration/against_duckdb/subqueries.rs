//! Queries within queries.

use super::expression::Expressions;
use super::query::{SAME_TYPE_KEYS, filter};
use super::sql::{Sql, sql};
use tidemill_testing::random::Random;

/// Whole numbers and decimals.
const EXACT: &[&str] = &["k", "i8", "i32", "p"];

pub fn subqueries(random: &mut Random) -> Sql {
    let key = Sql::same(random.one_of(SAME_TYPE_KEYS));
    let value = Sql::same(random.one_of(EXACT));
    let not = Sql::same(random.one_of(&["", "NOT "]));
    let operator = Sql::same(random.one_of(&["<", "<=", "=", "<>", ">"]));
    let aggregate = Sql::same(random.one_of(&["max", "min", "count", "sum", "avg"]));
    let mut of = Expressions { random, qualifiers: &[""] };
    let inner = filter(&mut of);
    let of_t = Expressions { random, qualifiers: &["t."] };
    match of_t.random.index(15) {
        // With NULL among the values.
        0 => sql!("SELECT t.id FROM t WHERE t.{} {}IN (SELECT {} FROM u{})", key.clone(), not, key, inner),
        1 => sql!(
            "SELECT t.id FROM t WHERE {}EXISTS (SELECT 1 FROM u WHERE u.{} = t.{} AND u.{} {} t.{})",
            not,
            key.clone(),
            key,
            value.clone(),
            operator,
            value
        ),
        2 => sql!(
            "SELECT t.id, (SELECT {}(u.{}) FROM u WHERE u.{} = t.{}) AS v FROM t",
            aggregate,
            value,
            key.clone(),
            key
        ),
        3 => sql!(
            "SELECT id FROM t WHERE {} {} (SELECT {}({}) FROM u{})",
            value.clone(),
            operator,
            aggregate,
            value,
            inner
        ),
        4 => sql!(
            "SELECT max(n) AS a, count(*) AS b, sum(n) AS c FROM \
             (SELECT {} AS g, count(*) AS n FROM t{} GROUP BY {}) AS x",
            key.clone(),
            inner,
            key
        ),
        5 => sql!(
            "SELECT x.g, x.n, y.m FROM (SELECT {} AS g, count(*) AS n FROM t GROUP BY {}) AS x FULL JOIN \
             (SELECT {} AS g, max({}) AS m FROM u GROUP BY {}) AS y ON x.g = y.g",
            key.clone(),
            key.clone(),
            key.clone(),
            value,
            key
        ),
        6 => sql!(
            "SELECT t.id, u.id AS other FROM t {} u ON t.{} = u.{}",
            Sql::same(of_t.random.one_of(&["FULL JOIN", "RIGHT JOIN", "FULL JOIN"])),
            key.clone(),
            key
        ),
        // The column that both sides share has the value of the side that has the row.
        11 => sql!(
            "SELECT {}, t.id, u.id AS other FROM t {} u USING ({})",
            key.clone(),
            Sql::same(of_t.random.one_of(&["JOIN", "LEFT JOIN"])),
            key
        ),
        12 => sql!(
            "SELECT id FROM t WHERE {} {} {} (SELECT {} FROM u{})",
            value.clone(),
            operator,
            Sql::same(of_t.random.one_of(&["ANY", "ALL"])),
            value,
            inner
        ),
        13 => sql!(
            "SELECT {} AS a, count(*) AS n, grouping({}) AS b, sum({}) AS c FROM t{} GROUP BY {} (k, {})",
            key.clone(),
            key.clone(),
            value,
            inner,
            Sql::same(of_t.random.one_of(&["ROLLUP", "CUBE"])),
            key
        ),
        14 => sql!(
            "SELECT * FROM (SELECT {} AS g FROM t{} UNION SELECT {} FROM u) AS x ORDER BY g NULLS LAST LIMIT 3",
            key.clone(),
            inner,
            key
        ),
        7 => sql!(
            "SELECT {} AS g, count(*) AS n FROM t GROUP BY {} HAVING count(*) {} (SELECT count(*) / 4 FROM u)",
            key.clone(),
            key,
            operator
        ),
        8 => sql!(
            "SELECT id, CASE WHEN {} {}IN (SELECT {} FROM u{}) THEN 1 WHEN {} IS NULL THEN 2 ELSE 3 END AS c FROM t",
            key.clone(),
            not,
            key.clone(),
            inner,
            key
        ),
        9 => sql!(
            "SELECT a.id, b.id AS other FROM t AS a {} t AS b ON a.{} = b.{} AND a.id {} b.id",
            Sql::same(of_t.random.one_of(&["JOIN", "LEFT JOIN"])),
            key.clone(),
            key,
            operator
        ),
        _ => sql!(
            "SELECT DISTINCT {} AS g FROM t WHERE {} {}IN (SELECT max({}) FROM u GROUP BY k)",
            key,
            value.clone(),
            not,
            value
        ),
    }
}

/// Sets, with columns of types that differ.
pub fn mixed_sets(of: &mut Expressions<'_>) -> Sql {
    let operator = of.random.one_of(&["UNION", "UNION ALL", "EXCEPT", "INTERSECT"]);
    let pairs: &[(&str, &str)] = &[
        ("k", "i64"),
        ("i8", "p"),
        ("p", "q"),
        ("k", "f"),
        ("i32", "u32"),
        ("p", "f"),
        ("day", "moment"),
        ("s", "w"),
        ("f", "r"),
        ("k", "k"),
        ("d", "d"),
    ];
    let (one, other) = of.random.one_of(pairs);
    let (first, second) = (filter(of), filter(of));
    sql!(
        "SELECT {} AS c FROM t{} {} SELECT {} FROM u{}",
        Sql::same(one),
        first,
        Sql::same(operator),
        Sql::same(other),
        second
    )
}
