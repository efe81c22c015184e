//! Queries put together of parts that change each other's meaning: outer joins with further conditions, sets of groups,
//! limits within queries, what depends on the row outside.

use super::expression::Expressions;
use super::query::{KEYS, SAME_TYPE_KEYS, aggregates, filter};
use super::sql::{Sql, sql};
use tidemill_testing::random::Random;

const ORDERS: &[&str] = &["d", "p", "k", "ts", "s", "moment", "r", "day"];

pub fn shapes(random: &mut Random) -> Sql {
    match random.index(6) {
        0 => outer_joins(random),
        1 => three_tables(random),
        2 => grouping_sets(random),
        3 => limits(random),
        4 => chained_sets(random),
        _ => correlated(random),
    }
}

fn of<'a>(random: &'a mut Random, qualifiers: &'a [&'static str]) -> Expressions<'a> {
    Expressions { random, qualifiers }
}

/// NULL is equal to nothing, and what does not meet its condition is kept alone, on the side that is kept.
fn outer_joins(random: &mut Random) -> Sql {
    let key = random.one_of(SAME_TYPE_KEYS);
    let kind = random.one_of(&["LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "FULL JOIN"]);
    let equal = random.one_of(&["=", "=", "IS NOT DISTINCT FROM"]);
    let residual = match random.index(5) {
        0 => of(random, &["t."]).condition(1),
        1 => of(random, &["u."]).condition(1),
        2 => of(random, &["t.", "u."]).condition(1),
        3 => Sql::same(random.one_of(&["t.i8 < u.i8", "t.p >= u.p", "t.id <> u.id", "t.moment > u.moment"])),
        _ => Sql::same("1 = 1"),
    };
    let join = sql!(
        "t {} u ON t.{} {} u.{} AND {}",
        Sql::same(kind),
        Sql::same(key),
        Sql::same(equal),
        Sql::same(key),
        residual
    );
    match random.index(4) {
        0 => sql!(
            "SELECT t.{} AS g, count(*) AS n, count(u.id) AS m, sum(t.k) AS s FROM {} GROUP BY t.{}",
            Sql::same(key),
            join,
            Sql::same(key)
        ),
        1 => sql!(
            "SELECT t.id, u.id AS other FROM {} WHERE {}",
            join,
            Sql::same(random.one_of(&[
                "u.id IS NULL",
                "t.id IS NULL",
                "t.b OR u.b",
                "t.b IS NULL",
                "coalesce(t.k, u.k) > 1",
                "NOT (t.k = u.k)",
            ]))
        ),
        _ => sql!(
            "SELECT t.id, u.id AS other, coalesce(t.{}, u.{}) AS v FROM {}",
            Sql::same(key),
            Sql::same(key),
            join
        ),
    }
}

fn three_tables(random: &mut Random) -> Sql {
    let (one, other) = (random.one_of(SAME_TYPE_KEYS), random.one_of(SAME_TYPE_KEYS));
    let kinds = ["JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN"];
    let (first, second) = (random.one_of(&kinds), random.one_of(&kinds));
    let third =
        sql!("(SELECT {} AS x, count(*) AS n FROM t GROUP BY {}) AS g", Sql::same(other), Sql::same(other));
    sql!(
        "SELECT t.id, u.id AS other, g.n FROM t {} u ON t.{} = u.{} {} {} ON g.x = {}",
        Sql::same(first),
        Sql::same(one),
        Sql::same(one),
        Sql::same(second),
        third,
        Sql::same(format!("{}.{other}", random.one_of(&["t", "u"])))
    )
}

fn grouping_sets(random: &mut Random) -> Sql {
    let (one, other) = (random.one_of(KEYS), random.one_of(&["w", "i16", "moment"]));
    let sets = random.one_of(&[
        "(A), (B), ()",
        "(A, B), (A)",
        "(A), (A)",
        "(A, B), ()",
        "(B), (A, B), (A), ()",
        "(A)",
    ]);
    let sets = sets.replace('A', one).replace('B', other);
    let having = match random.index(4) {
        0 => Sql::same(" HAVING count(*) > 1"),
        1 => Sql::same(format!(" HAVING grouping({one}) = 0")),
        2 => Sql::same(" HAVING sum(k) > (SELECT avg(k) FROM u)"),
        _ => Sql::same(""),
    };
    let mut of = of(random, &[""]);
    // A key that is in no set is an error.
    let all = if sets.contains(other) { format!("{one}, {other}") } else { one.to_owned() };
    let grouping = if sets.contains(other) { format!("grouping({other})") } else { "0".to_owned() };
    sql!(
        "SELECT {}, grouping({}) AS ga, {} AS gb, {} FROM t{} GROUP BY GROUPING SETS ({}){}",
        Sql::same(all),
        Sql::same(one),
        Sql::same(grouping),
        aggregates(&mut of, 2),
        filter(&mut of),
        Sql::same(sets),
        having
    )
}

/// Rows in an order that is total, so that the first ones are known.
fn first_of(table: &'static str, random: &mut Random) -> Sql {
    let order = Sql::same(format!(
        "{} {} NULLS {}, id",
        random.one_of(ORDERS),
        random.one_of(&["ASC", "DESC"]),
        random.one_of(&["FIRST", "LAST"])
    ));
    let limit = Sql::same(random.one_of(&[
        "LIMIT 3",
        "LIMIT 5 OFFSET 2",
        "OFFSET 4",
        "LIMIT 0",
        "LIMIT 1000 OFFSET 1",
    ]));
    let mut of = of(random, &[""]);
    sql!("SELECT * FROM {}{} ORDER BY {} {}", Sql::same(table), filter(&mut of), order, limit)
}

fn limits(random: &mut Random) -> Sql {
    let (first, second) = (first_of("t", random), first_of("u", random));
    let key = random.one_of(SAME_TYPE_KEYS);
    match random.index(7) {
        0 => {
            let mut of = of(random, &[""]);
            sql!("SELECT {} FROM ({}) AS x{}", aggregates(&mut of, 3), first, filter(&mut of))
        }
        1 => sql!(
            "SELECT x.id, y.id AS other FROM ({}) AS x {} ({}) AS y ON x.{} = y.{}",
            first,
            Sql::same(random.one_of(&["JOIN", "LEFT JOIN", "FULL JOIN"])),
            second,
            Sql::same(key),
            Sql::same(key)
        ),
        2 => sql!(
            "SELECT id FROM t WHERE id {} (SELECT id FROM ({}) AS y)",
            Sql::same(random.one_of(&["IN", "NOT IN"])),
            second
        ),
        3 => sql!("(SELECT id FROM ({}) AS x) UNION ALL (SELECT id FROM ({}) AS y)", first, second),
        4 => sql!("SELECT id FROM ({}) AS x ORDER BY id LIMIT 2 OFFSET 1", first),
        5 => sql!(
            "SELECT t.id, (SELECT y.id FROM u AS y WHERE y.{} = t.{} ORDER BY y.id {} LIMIT 1) AS v FROM t",
            Sql::same(key),
            Sql::same(key),
            Sql::same(random.one_of(&["", "DESC"]))
        ),
        _ => sql!(
            "SELECT {} AS g, count(*) AS n FROM ({}) AS x GROUP BY {}",
            Sql::same(key),
            first,
            Sql::same(key)
        ),
    }
}

/// Sets of sets: NULL, NaN and both zeros are each one value.
fn chained_sets(random: &mut Random) -> Sql {
    let columns = random.one_of(&["d", "d, k", "r", "p, d", "s, b", "CAST(d AS REAL)", "k, i8", "f + d"]);
    let kinds = ["UNION", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"];
    let (one, other) = (random.one_of(&kinds), random.one_of(&kinds));
    let mut of = of(random, &[""]);
    let mut side = |table: &str| {
        let filter = filter(&mut of);
        sql!("SELECT {} FROM {}{}", Sql::same(columns), Sql::same(table), filter)
    };
    let (first, second, third) = (side("t"), side("u"), side("t"));
    let (one, other) = (Sql::same(one), Sql::same(other));
    match random.index(4) {
        0 => sql!("{} {} {}", first, one, second),
        1 => sql!("({} {} {}) {} {}", first, one, second, other, third),
        2 => sql!("{} {} ({} {} {})", first, one, second, other, third),
        _ => sql!("SELECT count(*) AS n FROM ({} {} {}) AS x", first, one, second),
    }
}

/// What is asked for each row, of rows among whose values is NULL.
fn correlated(random: &mut Random) -> Sql {
    let (one, other) = (random.one_of(SAME_TYPE_KEYS), random.one_of(SAME_TYPE_KEYS));
    let (one, other) = (|| Sql::same(one), || Sql::same(other));
    let not = Sql::same(random.one_of(&["", "NOT "]));
    let inner = of(random, &["u."]).condition(1);
    let outer = of(random, &["t."]).condition(1);
    match random.index(9) {
        // NOT IN with a further condition fails at the end of a stream, in DataFusion's words.
        0 => sql!(
            "SELECT t.id FROM t WHERE t.{} IN (SELECT u.{} FROM u WHERE u.{} = t.{})",
            one(),
            one(),
            other(),
            other()
        ),
        1 => sql!(
            "SELECT t.id FROM t WHERE {}EXISTS (SELECT 1 FROM u WHERE u.{} = t.{} AND {}) {} {}",
            not,
            one(),
            one(),
            inner,
            Sql::same(random.one_of(&["AND", "OR"])),
            outer
        ),
        2 => sql!("SELECT t.id, {}EXISTS (SELECT 1 FROM u WHERE u.{} = t.{}) AS e FROM t", not, one(), one()),
        3 => sql!(
            "SELECT t.id, (SELECT count(*) FROM u WHERE u.{} = t.{} AND {}) AS n FROM t",
            one(),
            one(),
            inner
        ),
        4 => sql!(
            "SELECT t.id FROM t WHERE (SELECT count(u.{}) FROM u WHERE u.{} = t.{}) {} 0",
            other(),
            one(),
            one(),
            Sql::same(random.one_of(&["=", ">", "<>"]))
        ),
        5 => sql!("SELECT t.id FROM t WHERE t.k > ALL (SELECT u.k FROM u WHERE u.{} = t.{})", one(), one()),
        6 => sql!(
            "SELECT t.{} AS g, count(*) AS n FROM t GROUP BY t.{} HAVING t.{} {}IN (SELECT u.{} FROM u WHERE {})",
            one(),
            one(),
            one(),
            not,
            one(),
            inner
        ),
        7 => sql!(
            "SELECT t.id FROM t WHERE CASE WHEN t.{} {}IN (SELECT u.{} FROM u) THEN {} ELSE t.b END",
            one(),
            not,
            one(),
            outer
        ),
        _ => sql!(
            "SELECT x.g, x.n FROM (SELECT {} AS g, count(*) AS n FROM t GROUP BY {}) AS x WHERE {}EXISTS \
             (SELECT 1 FROM u WHERE u.{} = x.g AND u.id < x.n)",
            one(),
            one(),
            not,
            one()
        ),
    }
}
