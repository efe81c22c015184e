//! Random queries over the tables `t` and `u`.

use super::count_windows::{count_windows, lists};
use super::expression::Expressions;
use super::frames::frames;
use super::functions::functions;
use super::shapes::shapes;
use super::sql::{Sql, sql};
use super::subqueries::{mixed_sets, subqueries};
use tidemill_testing::random::Random;

/// A query.
#[derive(Clone)]
pub struct Query {
    /// What we define before it; what DuckDB defines is a part of its text.
    pub definitions: String,
    pub sql: Sql,
    /// Whether the order of its rows is part of the answer.
    pub ordered: bool,
}

/// The kinds of queries; a test for each.
#[derive(Clone, Copy, Debug)]
pub enum Family {
    Rows,
    Groups,
    Totals,
    Joins,
    Sets,
    Orders,
    Windows,
    Running,
    Subqueries,
    Frames,
    CountWindows,
    Lists,
    Shapes,
    Functions,
}

/// What groups, keys and distinct rows are made of.
pub const KEYS: &[&str] = &["k", "b", "d", "r", "s", "p", "day", "ts", "i8", "u32", "clock", "q", "f", "i64"];
pub const SAME_TYPE_KEYS: &[&str] = &["k", "d", "r", "s", "p", "day", "ts", "i8", "f", "q", "b", "clock"];

/// Sums of large numbers depend on the order in which they are added.
pub const MILD_DOUBLES: &str = "CASE WHEN abs(d) BETWEEN 1e15 AND 1.8e308 THEN NULL ELSE d END";

impl Family {
    pub fn query(self, random: &mut Random) -> Query {
        let mut of_t = Expressions { random, qualifiers: &[""] };
        let unordered = |sql| Query { definitions: String::new(), sql, ordered: false };
        match self {
            Family::Rows => unordered(rows(&mut of_t)),
            Family::Groups => unordered(groups(&mut of_t)),
            Family::Totals => unordered(totals(&mut of_t)),
            Family::Joins => unordered(joins(random)),
            Family::Sets if of_t.random.is_once_in(2) => unordered(mixed_sets(&mut of_t)),
            Family::Sets => unordered(sets(&mut of_t)),
            Family::Orders => Query { ordered: true, ..unordered(orders(&mut of_t)) },
            Family::Windows => unordered(windows(&mut of_t)),
            Family::Running => unordered(running(&mut of_t)),
            Family::Subqueries => unordered(subqueries(random)),
            Family::Frames => unordered(frames(&mut of_t)),
            Family::CountWindows => unordered(count_windows(&mut of_t)),
            Family::Lists => unordered(lists(&mut of_t)),
            Family::Shapes => unordered(shapes(random)),
            Family::Functions => functions(random),
        }
    }
}

/// Nothing, or a condition.
pub fn filter(of: &mut Expressions<'_>) -> Sql {
    match of.random.index(3) {
        0 => Sql::same(""),
        _ => sql!(" WHERE {}", of.condition(2)),
    }
}

fn rows(of: &mut Expressions<'_>) -> Sql {
    let columns: Vec<Sql> =
        (0..3).map(|number| sql!("{} AS c{}", of.any(2), Sql::same(number.to_string()))).collect();
    sql!("SELECT id, {} FROM t{}", Sql::joined(&columns, ", "), filter(of))
}

/// Some aggregates, with names.
pub fn aggregates(of: &mut Expressions<'_>, count: usize) -> Sql {
    let mut all = Vec::new();
    for number in 0..count {
        let aggregate = aggregate(of);
        let filtered = match of.random.index(4) {
            0 => sql!("{} FILTER (WHERE {})", aggregate, of.condition(1)),
            _ => aggregate,
        };
        all.push(sql!("{} AS a{}", filtered, Sql::same(number.to_string())));
    }
    Sql::joined(&all, ", ")
}

fn aggregate(of: &mut Expressions<'_>) -> Sql {
    match of.random.index(16) {
        0 => Sql::same("count(*)"),
        1 => sql!("count({})", of.any(1)),
        2 => sql!("sum({})", of.column(&["k", "i8", "i16", "i32", "u32", "f", "p"])),
        3 => sql!("avg({})", of.column(&["k", "i8", "i32", "i64", "u32", "f", "p", "q"])),
        4 | 5 => sql!("min({})", of.any(1)),
        6 | 7 => sql!("max({})", of.any(1)),
        8 => sql!("count(DISTINCT {})", of.any(1)),
        9 => Sql::same(format!("sum({MILD_DOUBLES})")),
        10 => sql!(
            "{}(CAST({} AS DOUBLE))",
            Sql::same(of.random.one_of(&["stddev", "var_pop", "stddev_pop"])),
            of.column(&["k", "f"])
        ),
        11 => sql!("{}({})", Sql::same(of.random.one_of(&["bool_and", "bool_or"])), of.condition(1)),
        12 => sql!("sum(DISTINCT {})", of.column(&["k", "i8", "i32", "u32", "f", "p", "q"])),
        13 => sql!("avg(DISTINCT {})", of.column(&["k", "i8", "i64", "u32", "f", "p", "q"])),
        14 => sql!("{}(DISTINCT {})", Sql::same(of.random.one_of(&["sum", "avg"])), Sql::same(MILD_DOUBLES)),
        _ => Sql::same(format!("avg({MILD_DOUBLES})")),
    }
}

/// One or two keys.
fn keys(of: &mut Expressions<'_>) -> Vec<Sql> {
    let key = |of: &mut Expressions<'_>| match of.random.index(4) {
        0 => of.whole(1),
        1 => of.float(1),
        _ => of.column(KEYS),
    };
    let mut keys = vec![key(of)];
    if of.random.is_once_in(2) {
        keys.push(of.column(KEYS));
    }
    keys
}

fn named(expressions: &[Sql]) -> Sql {
    let named = expressions.iter().enumerate();
    let named: Vec<Sql> =
        named.map(|(number, key)| sql!("{} AS g{}", key.clone(), Sql::same(number.to_string()))).collect();
    Sql::joined(&named, ", ")
}

fn groups(of: &mut Expressions<'_>) -> Sql {
    let (keys, aggregates) = (keys(of), aggregates(of, 3));
    let having = match of.random.index(4) {
        0 => Sql::same(" HAVING count(*) > 1"),
        _ => Sql::same(""),
    };
    let filter = filter(of);
    sql!(
        "SELECT {}, {} FROM t{} GROUP BY {}{}",
        named(&keys),
        aggregates,
        filter,
        Sql::joined(&keys, ", "),
        having
    )
}

fn totals(of: &mut Expressions<'_>) -> Sql {
    sql!("SELECT {} FROM t{}", aggregates(of, 4), filter(of))
}

fn joins(random: &mut Random) -> Sql {
    let key = random.one_of(SAME_TYPE_KEYS);
    let second = random.one_of(SAME_TYPE_KEYS);
    let mut of = Expressions { random, qualifiers: &["t.", "u."] };
    let on = match of.random.index(4) {
        0 => Sql::same(format!("t.{key} = u.{key} AND t.{second} = u.{second}")),
        1 => sql!("{} AND {}", Sql::same(format!("t.{key} = u.{key}")), of.condition(1)),
        _ => Sql::same(format!("t.{key} = u.{key}")),
    };
    let kind = Sql::same(of.random.one_of(&["JOIN", "LEFT JOIN"]));
    let mut of_t = Expressions { random, qualifiers: &["t."] };
    match of_t.random.index(7) {
        0 => sql!(
            "SELECT t.id FROM t WHERE t.{} {} (SELECT {} FROM u WHERE {} IS NOT NULL)",
            Sql::same(key),
            Sql::same(of_t.random.one_of(&["IN", "NOT IN"])),
            Sql::same(key),
            Sql::same(key)
        ),
        1 => sql!(
            "SELECT t.id FROM t WHERE {} (SELECT 1 FROM u WHERE {})",
            Sql::same(of_t.random.one_of(&["EXISTS", "NOT EXISTS"])),
            Sql::same(format!("t.{key} = u.{key}"))
        ),
        2 => sql!(
            "SELECT t.{} AS g, count(*) AS n, count(u.id) AS m, min(u.d) AS lo FROM t {} u ON {} GROUP BY t.{}",
            Sql::same(key),
            kind,
            on,
            Sql::same(key)
        ),
        3 => sql!("SELECT t.id, u.id AS other FROM t {} u ON {} WHERE {}", kind, on, of_t.condition(1)),
        _ => sql!("SELECT t.id, u.id AS other FROM t {} u ON {}", kind, on),
    }
}

fn sets(of: &mut Expressions<'_>) -> Sql {
    let column = |of: &mut Expressions<'_>, kind| match kind {
        0 => of.whole(1),
        1 => of.float(1),
        2 => of.text(1),
        3 => of.timestamp(1),
        _ => of.column(&["p"]),
    };
    let kinds = [of.random.index(5), of.random.index(5)];
    let side = |of: &mut Expressions<'_>, table: &str| {
        let columns = [column(of, kinds[0]), column(of, kinds[1])];
        sql!(
            "SELECT {} AS c0, {} AS c1 FROM {}{}",
            columns[0].clone(),
            columns[1].clone(),
            Sql::same(table),
            filter(of)
        )
    };
    let one = side(of, "t");
    match of.random.index(5) {
        0 | 1 => sql!(
            "SELECT DISTINCT {}",
            Sql { ours: one.ours["SELECT ".len()..].into(), duckdb: one.duckdb["SELECT ".len()..].into() }
        ),
        number => {
            let operator = ["UNION", "UNION ALL", "UNION"][number - 2];
            sql!("{} {} {}", one, Sql::same(operator), side(of, "u"))
        }
    }
}

fn orders(of: &mut Expressions<'_>) -> Sql {
    let mut order = Vec::new();
    for _ in 0..2 {
        let key = match of.random.index(3) {
            0 => of.float(1),
            1 => of.text(1),
            _ => of.column(KEYS),
        };
        let direction = of.random.one_of(&["ASC", "DESC"]);
        let nulls = of.random.one_of(&["FIRST", "LAST"]);
        order.push(sql!("{} {} NULLS {}", key, Sql::same(direction), Sql::same(nulls)));
    }
    let limit = match of.random.index(3) {
        0 => Sql::same(""),
        1 => Sql::same(" LIMIT 7"),
        _ => Sql::same(" LIMIT 5 OFFSET 3"),
    };
    sql!("SELECT id FROM t{} ORDER BY {}, id{}", filter(of), Sql::joined(&order, ", "), limit)
}

/// Tumbling windows, in the words of each.
fn windows(of: &mut Expressions<'_>) -> Sql {
    let size = of.random.one_of(&["1 second", "5 seconds", "7 seconds", "1 minute", "250 milliseconds"]);
    let from = Sql {
        ours: format!("tumble(TABLE(t), moment, INTERVAL '{size}')"),
        duckdb: format!(
            "(SELECT *, time_bucket(INTERVAL '{size}', moment, TIMESTAMP '1970-01-01') AS window_start, window_start + \
             INTERVAL '{size}' AS window_end FROM t)"
        ),
    };
    let (aggregates, filter) = (aggregates(of, 3), filter(of));
    match of.random.index(3) {
        0 => sql!(
            "SELECT window_start, window_end, {} FROM {}{} GROUP BY window_start, window_end",
            aggregates,
            from,
            filter
        ),
        _ => {
            let keys = keys(of);
            sql!(
                "SELECT window_start, {}, {} FROM {}{} GROUP BY window_start, {}",
                named(&keys),
                aggregates,
                from,
                filter,
                Sql::joined(&keys, ", ")
            )
        }
    }
}

/// Functions over the rows so far, in the order of time; no two rows have the same.
fn running(of: &mut Expressions<'_>) -> Sql {
    let function = match of.random.index(9) {
        0 => sql!("min({})", of.column(&["d", "f", "s", "p", "ts", "r"])),
        1 => sql!("max({})", of.column(&["d", "f", "s", "p", "ts", "r"])),
        2 => sql!("sum({})", of.column(&["k", "f", "i8", "p"])),
        3 => sql!("count({})", of.column(&["d", "b"])),
        4 => sql!("lag({})", of.any(1)),
        5 => Sql::same("row_number()"),
        6 => sql!("{}({})", Sql::same(of.random.one_of(&["sum", "avg"])), Sql::same(MILD_DOUBLES)),
        _ => sql!("avg({})", of.column(&["f", "k", "p", "q", "u32"])),
    };
    let frame = of.random.one_of(&[
        "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
        "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    ]);
    let frame = if function.ours.starts_with("lag") || function.ours.starts_with("row") { "" } else { frame };
    sql!(
        "SELECT id, {} OVER (PARTITION BY {} ORDER BY moment {}) AS v FROM t{}",
        function,
        of.column(KEYS),
        Sql::same(frame),
        filter(of)
    )
}
