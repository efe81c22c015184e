//! Functions over frames of all kinds, with all types in ORDER BY.

use super::expression::Expressions;
use super::query::{KEYS, MILD_DOUBLES, filter};
use super::sql::{Sql, sql};

const BOUNDED: &[&str] = &[
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    "ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING",
    "ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "",
];
const BY_TIME: &[&str] = &[
    "RANGE BETWEEN INTERVAL '5 seconds' PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN INTERVAL '1 minute' PRECEDING AND INTERVAL '1 second' FOLLOWING",
    "RANGE BETWEEN INTERVAL '10 seconds' PRECEDING AND INTERVAL '4 seconds' PRECEDING",
    "RANGE BETWEEN INTERVAL '1 second' FOLLOWING AND INTERVAL '1 minute' FOLLOWING",
];
const BY_NUMBER: &[&str] =
    &["RANGE BETWEEN 1 PRECEDING AND CURRENT ROW", "RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING"];

pub fn frames(of: &mut Expressions<'_>) -> Sql {
    // Rows that are equal in the order are told apart by their number, except in frames of equals.
    let (order, frame) = match of.random.index(5) {
        0 => ("moment", of.random.one_of(BY_TIME)),
        1 => ("k", of.random.one_of(BY_NUMBER)),
        2 => ("d", "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
        3 => ("i8", "GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW"),
        _ => ("id", of.random.one_of(BOUNDED)),
    };
    let direction = of.random.one_of(&["", "DESC"]);
    let nulls = of.random.one_of(&["NULLS FIRST", "NULLS LAST"]);
    let is_total = ["id", "moment"].contains(&order);
    let (function, frame) = match of.random.index(if is_total { 12 } else { 6 }) {
        0 => (sql!("sum({})", of.column(&["k", "i8", "p"])), frame),
        1 => (sql!("avg({})", of.column(&["k", "p", "q", "i32"])), frame),
        2 => (sql!("count({})", of.column(&["d", "s"])), frame),
        3 => (sql!("min({})", of.column(&["d", "s", "p", "ts"])), frame),
        4 => (sql!("max({})", of.column(&["d", "s", "p", "ts"])), frame),
        5 => (Sql::same(of.random.one_of(&["rank()", "dense_rank()", "percent_rank()", "cume_dist()"])), ""),
        6 => (sql!("first_value({})", of.column(&["s", "p", "k"])), frame),
        7 => (sql!("last_value({})", of.column(&["s", "p", "k"])), frame),
        8 => (sql!("nth_value({}, 2)", of.column(&["s", "p", "k"])), frame),
        9 => (sql!("lead({})", of.column(&["s", "p", "k"])), ""),
        10 => (sql!("{}({})", Sql::same(of.random.one_of(&["sum", "avg"])), Sql::same(MILD_DOUBLES)), frame),
        _ => (Sql::same(of.random.one_of(&["ntile(3)", "row_number()"])), ""),
    };
    let filtered = match (of.random.is_once_in(5), frame.is_empty()) {
        (true, false) if ["sum", "avg", "cou", "min", "max"].contains(&&function.ours[..3]) => {
            sql!(" FILTER (WHERE {})", of.condition(0))
        }
        _ => Sql::same(""),
    };
    if of.random.is_once_in(6) {
        return first_rows(of);
    }
    let partition = match of.random.index(3) {
        0 => Sql::same(""),
        _ => sql!("PARTITION BY {} ", of.column(KEYS)),
    };
    sql!(
        "SELECT id, {}{} OVER ({}ORDER BY {}{}) AS v FROM t{}",
        function,
        filtered,
        partition,
        Sql::same(format!("{order} {direction} {nulls} ")),
        Sql::same(frame),
        filter(of)
    )
}

/// The first rows of each group.
fn first_rows(of: &mut Expressions<'_>) -> Sql {
    let by = Sql::same(format!(
        "{} {} NULLS {}, id",
        of.random.one_of(&["d", "p", "k", "ts", "s", "moment"]),
        of.random.one_of(&["ASC", "DESC"]),
        of.random.one_of(&["FIRST", "LAST"])
    ));
    let (key, filter) = (of.column(KEYS), filter(of));
    if of.random.is_once_in(2) {
        sql!(
            "SELECT id, n FROM (SELECT id, row_number() OVER (PARTITION BY {} ORDER BY {}) AS n FROM t{}) AS x \
             WHERE n <= 2",
            key,
            by,
            filter
        )
    } else {
        sql!(
            "SELECT id FROM t{} QUALIFY row_number() OVER (PARTITION BY {} ORDER BY {}) <= 2",
            filter,
            key,
            by
        )
    }
}
