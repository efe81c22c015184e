//! Predicates over subqueries, compared with a naive evaluation in three-valued logic: for each row of the outer
//! table, all rows of the inner one.

use std::fmt::Write as _;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::Int64Type;
use tidemill_sql::{Planner, Reply, parse};

type Value = Option<i64>;
type Truth = Option<bool>;

/// `id, a, b`
const OUTER: [(i64, Value, Value); 6] = [
    (1, Some(1), Some(10)),
    (2, Some(2), Some(20)),
    (3, None, Some(10)),
    (4, Some(4), None),
    (5, None, None),
    (6, Some(5), Some(5)),
];

/// Inner tables: with NULLs, without any, empty.
const INNER: [&[(Value, Value)]; 3] = [
    &[(Some(1), Some(10)), (None, Some(20)), (Some(5), Some(5)), (Some(4), None), (Some(1), Some(30))],
    &[(Some(1), Some(10)), (Some(2), Some(5)), (Some(5), Some(30))],
    &[],
];

fn compare(op: &str, left: Value, right: Value) -> Truth {
    let (left, right) = (left?, right?);
    Some(match op {
        "=" => left == right,
        "<>" => left != right,
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        _ => left >= right,
    })
}

fn and(left: Truth, right: Truth) -> Truth {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn not(truth: Truth) -> Truth {
    truth.map(|truth| !truth)
}

fn or(left: Truth, right: Truth) -> Truth {
    not(and(not(left), not(right)))
}

/// How the rows of the inner table belong to one of the outer table.
const CORRELATIONS: [&str; 5] =
    ["", "u.d = t.b", "u.d < t.b", "u.d IS DISTINCT FROM t.b", "u.d IS NOT DISTINCT FROM t.b AND u.c > 0"];

fn belongs(correlation: &str, (c, d): (Value, Value), b: Value) -> bool {
    match correlation {
        "" => true,
        "u.d = t.b" => compare("=", d, b) == Some(true),
        "u.d < t.b" => compare("<", d, b) == Some(true),
        "u.d IS DISTINCT FROM t.b" => d != b,
        _ => d == b && compare(">", c, Some(0)) == Some(true),
    }
}

/// What a predicate is for a row and the inner rows that belong to it.
type Holds = Box<dyn Fn((i64, Value, Value), &[(Value, Value)]) -> Truth>;

/// A predicate as text, and what it is for a row: a function of the row and of the inner rows that belong to it.
struct Predicate {
    text: String,
    holds: Holds,
}

fn any(rows: impl Iterator<Item = Truth>) -> Truth {
    rows.fold(Some(false), or)
}

fn predicates(correlation: &str) -> Vec<Predicate> {
    let condition = if correlation.is_empty() { String::new() } else { format!(" WHERE {correlation}") };
    let mut predicates = Vec::new();
    let mut add = |text: String, holds: Holds| {
        predicates.push(Predicate { text, holds });
    };
    for negated in [false, true] {
        let sign = move |truth: Truth| if negated { not(truth) } else { truth };
        let word = if negated { "NOT " } else { "" };
        add(
            format!("{word}EXISTS (SELECT 1 FROM u{condition})"),
            Box::new(move |_, rows| sign(Some(!rows.is_empty()))),
        );
        for (left, value) in [("t.a", None), ("3", Some(Some(3))), ("5", Some(Some(5))), ("NULL", Some(None))]
        {
            let of = move |row: (i64, Value, Value)| value.unwrap_or(row.1);
            let is_in = move |row, rows: &[(Value, Value)]| {
                sign(any(rows.iter().map(|(c, _)| compare("=", of(row), *c))))
            };
            let left = if left == "NULL" { "CAST(NULL AS BIGINT)" } else { left };
            add(format!("{left} {word}IN (SELECT u.c FROM u{condition})"), Box::new(is_in));
            if negated {
                add(format!("NOT ({left} IN (SELECT u.c FROM u{condition}))"), Box::new(is_in));
            }
            for op in if left == "t.a" { ["=", "<>", "<"].as_slice() } else { &[] } {
                let holds = move |row, rows: &[(Value, Value)]| {
                    sign(any(rows.iter().map(|(c, _)| compare(op, of(row), *c))))
                };
                add(format!("{word}({left} {op} ANY (SELECT u.c FROM u{condition}))"), Box::new(holds));
                let holds = move |row, rows: &[(Value, Value)]| {
                    sign(not(any(rows.iter().map(|(c, _)| not(compare(op, of(row), *c))))))
                };
                add(format!("{word}({left} {op} ALL (SELECT u.c FROM u{condition}))"), Box::new(holds));
            }
            // An aggregate has its row without rows, too.
            let holds = move |row, rows: &[(Value, Value)]| {
                sign(compare("=", of(row), rows.iter().filter_map(|(c, _)| *c).max()))
            };
            add(format!("{left} {word}IN (SELECT max(u.c) FROM u{condition})"), Box::new(holds));
        }
        let holds = move |row: (i64, Value, Value), rows: &[(Value, Value)]| {
            let same = rows.iter().map(|(c, d)| and(compare("=", row.1, *c), compare("=", row.2, *d)));
            sign(any(same))
        };
        add(format!("(t.a, t.b) {word}IN (SELECT u.c, u.d FROM u{condition})"), Box::new(holds));
        let holds = move |row: (i64, Value, Value), rows: &[(Value, Value)]| {
            let above = rows.iter().map(|(c, d)| {
                let equal = and(compare("=", row.1, *c), compare(">", row.2, *d));
                or(compare(">", row.1, *c), equal)
            });
            sign(any(above))
        };
        add(format!("{word}((t.a, t.b) > ANY (SELECT u.c, u.d FROM u{condition}))"), Box::new(holds));
        add(
            format!("{word}EXISTS (SELECT max(u.c) FROM u{condition})"),
            Box::new(move |_, _| sign(Some(true))),
        );
        add(
            format!("{word}EXISTS (SELECT max(u.c) FROM u{condition} HAVING count(*) = 0)"),
            Box::new(move |_, rows| sign(Some(rows.is_empty()))),
        );
    }
    predicates
}

/// A query of a predicate, and the value that it gives for a row; `None`: the row is not in the answer.
type Question = (&'static str, fn(Truth, i64) -> Option<Truth>);

/// Where a predicate stands: as a value, and in conditions that treat NULL in different ways.
const QUERIES: [Question; 6] = [
    ("SELECT t.id, P AS p FROM t", |truth, _| Some(truth)),
    ("SELECT t.id, CASE WHEN P THEN true WHEN NOT P THEN false END AS p FROM t", |truth, _| Some(truth)),
    ("SELECT t.id, true AS p FROM t WHERE P", |truth, _| (truth == Some(true)).then_some(Some(true))),
    ("SELECT t.id, true AS p FROM t WHERE (P) IS NULL", |truth, _| truth.is_none().then_some(Some(true))),
    ("SELECT t.id, true AS p FROM t WHERE (P) OR t.id = 2", |truth, id| {
        (truth == Some(true) || id == 2).then_some(Some(true))
    }),
    ("SELECT t.id, true AS p FROM t WHERE t.id <> 2 AND NOT (P)", |truth, id| {
        (truth == Some(false) && id != 2).then_some(Some(true))
    }),
];

fn number(value: Value) -> String {
    value.map_or("CAST(NULL AS BIGINT)".to_owned(), |value| value.to_string())
}

fn tables(inner: &[(Value, Value)]) -> String {
    let mut text = "WITH t(id, a, b) AS (VALUES ".to_owned();
    let rows = OUTER.map(|(id, a, b)| format!("({id}, {}, {})", number(a), number(b)));
    let _ = write!(text, "{}), u(c, d) AS (", rows.join(", "));
    let rows: Vec<String> = inner.iter().map(|(c, d)| format!("({}, {})", number(*c), number(*d))).collect();
    if rows.is_empty() {
        text.push_str("SELECT CAST(1 AS BIGINT), CAST(1 AS BIGINT) WHERE false");
    } else {
        let _ = write!(text, "VALUES {}", rows.join(", "));
    }
    text + ") "
}

fn answer(query: &str) -> Result<Vec<(i64, Truth)>, String> {
    let statements = parse(query, "test").map_err(|error| format!("{query}: {error}"))?;
    let reply = Planner::new().execute(&statements[0]).map_err(|error| error.to_string())?;
    let Reply::Rows(rows) = reply else { return Err(format!("{query}: no rows")) };
    let (ids, truths) = (rows.column(0).as_primitive::<Int64Type>(), rows.column(1).as_boolean());
    let rows =
        (0..rows.num_rows()).map(|row| (ids.value(row), truths.is_valid(row).then(|| truths.value(row))));
    let mut rows: Vec<_> = rows.collect();
    rows.sort_unstable();
    Ok(rows)
}

#[test]
fn predicates_over_subqueries_are_what_a_naive_evaluation_says() {
    let (mut asked, mut turn, mut wrong) = (0, 0, Vec::new());
    for inner in INNER {
        let tables = tables(inner);
        for correlation in CORRELATIONS {
            for predicate in predicates(correlation) {
                let truths = OUTER.map(|row| {
                    let rows = inner.iter().copied().filter(|rows| belongs(correlation, *rows, row.2));
                    (row.0, (predicate.holds)(row, &rows.collect::<Vec<_>>()))
                });
                // As a value, and in one of the conditions after the other.
                turn += 1;
                for (query, shown) in [QUERIES[0], QUERIES[1 + turn % (QUERIES.len() - 1)]] {
                    let query = tables.clone()
                        + &query
                            .replace(" P", &format!(" {}", predicate.text))
                            .replace("(P)", &format!("({})", predicate.text));
                    let expected = truths.iter().filter_map(|(id, truth)| Some((*id, shown(*truth, *id)?)));
                    let expected: Vec<(i64, Truth)> = expected.collect();
                    asked += 1;
                    match answer(&query) {
                        Ok(found) if found == expected => {}
                        Ok(found) => {
                            wrong.push(format!("{query}\n  expected {expected:?}\n  found    {found:?}"))
                        }
                        Err(error) => wrong.push(format!("{query}\n  {error}")),
                    }
                }
            }
        }
    }
    let shown = wrong[..wrong.len().min(20)].join("\n");
    assert!(wrong.is_empty(), "{} of {asked} are wrong:\n{shown}", wrong.len());
}
