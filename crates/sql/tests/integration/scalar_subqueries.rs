//! Values of subqueries that depend on the outer row, compared with a naive evaluation: for each row of the outer table, all rows of the
//! inner one that belong to it.

use std::fmt::Write as _;

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::Int64Type;
use tidemill_sql::{Planner, Reply, parse};

type Value = Option<i64>;
type Row = (Value, Value);

/// `id, a, b`
const OUTER: [(i64, Value, Value); 7] = [
    (1, Some(1), Some(10)),
    (2, Some(2), Some(20)),
    (3, None, Some(10)),
    (4, Some(4), None),
    (5, None, None),
    (6, Some(5), Some(5)),
    // The same outer values twice.
    (7, Some(1), Some(10)),
];

/// Inner tables `c, d`: with NULLs and equal rows, without any, empty.
const INNER: [&[Row]; 3] = [
    &[
        (Some(1), Some(10)),
        (None, Some(20)),
        (Some(5), Some(5)),
        (Some(4), None),
        (Some(1), Some(30)),
        (Some(1), Some(10)),
    ],
    &[(Some(1), Some(10)), (Some(2), Some(5)), (Some(5), Some(30))],
    &[],
];

type Belongs = fn(Row, (i64, Value, Value)) -> bool;

fn both(one: Value, other: Value, holds: fn(i64, i64) -> bool) -> bool {
    one.zip(other).is_some_and(|(one, other)| holds(one, other))
}

/// How the rows of the inner table belong to one of the outer table.
const CORRELATIONS: [(&str, Belongs); 8] = [
    ("u.d = t.b", |(_, d), (_, _, b)| both(d, b, |d, b| d == b)),
    ("u.d < t.b", |(_, d), (_, _, b)| both(d, b, |d, b| d < b)),
    ("u.d >= t.b", |(_, d), (_, _, b)| both(d, b, |d, b| d >= b)),
    ("u.d <> t.b", |(_, d), (_, _, b)| both(d, b, |d, b| d != b)),
    ("u.d IS DISTINCT FROM t.b", |(_, d), (_, _, b)| d != b),
    ("u.d IS NOT DISTINCT FROM t.b AND u.c < 5", |(c, d), (_, _, b)| d == b && c.is_some_and(|c| c < 5)),
    ("u.d > t.b OR u.c = t.a", |(c, d), (_, a, b)| both(d, b, |d, b| d > b) || both(c, a, |c, a| c == a)),
    ("u.c + t.id < 6", |(c, _), (id, _, _)| c.is_some_and(|c| c + id < 6)),
];

/// What a subquery gives for a row and the inner rows that belong to it; an error: it has several rows.
type Gives = fn((i64, Value, Value), &[Row]) -> Result<Value, ()>;

fn only(rows: &[Value]) -> Result<Value, ()> {
    match rows {
        [] => Ok(None),
        [one] => Ok(*one),
        _ => Err(()),
    }
}

/// The values of `c`, in order, NULL last.
fn ordered(rows: &[Row]) -> Vec<Value> {
    let mut values: Vec<Value> = rows.iter().map(|(c, _)| *c).collect();
    values.sort_by_key(|value| (value.is_none(), *value));
    values
}

fn distinct(rows: &[Row]) -> Vec<Value> {
    let mut values = ordered(rows);
    values.dedup();
    values
}

const SUBQUERIES: [(&str, Gives); 18] = [
    ("SELECT max(u.c) FROM u WHERE {}", |_, rows| Ok(rows.iter().filter_map(|(c, _)| *c).max())),
    ("SELECT sum(u.c) FROM u WHERE {}", |_, rows| {
        Ok(rows.iter().filter_map(|(c, _)| *c).reduce(|one, other| one + other))
    }),
    ("SELECT count(*) FROM u WHERE {}", |_, rows| Ok(Some(rows.len() as i64))),
    ("SELECT count(u.c) + t.id FROM u WHERE {}", |(id, _, _), rows| {
        Ok(Some(rows.iter().filter(|(c, _)| c.is_some()).count() as i64 + id))
    }),
    ("SELECT count(DISTINCT u.c) FROM u WHERE {}", |_, rows| {
        Ok(Some(distinct(rows).iter().flatten().count() as i64))
    }),
    ("SELECT u.c FROM u WHERE {}", |_, rows| only(&ordered(rows))),
    ("SELECT DISTINCT u.c FROM u WHERE {}", |_, rows| only(&distinct(rows))),
    ("SELECT u.c FROM u WHERE {} ORDER BY u.c LIMIT 1", |_, rows| {
        Ok(ordered(rows).first().copied().flatten())
    }),
    ("SELECT u.c FROM u WHERE {} ORDER BY u.c DESC NULLS LAST LIMIT 1", |_, rows| {
        Ok(rows.iter().filter_map(|(c, _)| *c).max())
    }),
    ("SELECT u.c FROM u WHERE {} ORDER BY u.c LIMIT 1 OFFSET 1", |_, rows| {
        Ok(ordered(rows).get(1).copied().flatten())
    }),
    ("SELECT count(*) FROM (SELECT DISTINCT u.c FROM u WHERE {}) AS q", |_, rows| {
        Ok(Some(distinct(rows).len() as i64))
    }),
    ("SELECT count(*) FROM (SELECT u.c FROM u WHERE {} UNION ALL SELECT t.a) AS q", |_, rows| {
        Ok(Some(rows.len() as i64 + 1))
    }),
    ("SELECT count(*) FROM (SELECT u.c FROM u WHERE {} EXCEPT SELECT 1) AS q", |_, rows| {
        Ok(Some(distinct(rows).iter().filter(|value| **value != Some(1)).count() as i64))
    }),
    ("SELECT max(q.n) FROM (SELECT u.c, count(*) AS n FROM u WHERE {} GROUP BY u.c) AS q", |_, rows| {
        let most = |value: &Value| rows.iter().filter(|(c, _)| c == value).count() as i64;
        Ok(distinct(rows).iter().map(most).max())
    }),
    ("SELECT max(q.m) FROM (SELECT count(*) AS m FROM u WHERE {}) AS q", |_, rows| {
        Ok(Some(rows.len() as i64))
    }),
    (
        "SELECT max(q.r) FROM (SELECT row_number() OVER (ORDER BY u.c) AS r FROM u WHERE {}) AS q",
        |_, rows| Ok((!rows.is_empty()).then_some(rows.len() as i64)),
    ),
    ("SELECT count(*) FROM u LEFT JOIN (VALUES (1), (4)) AS w(c) ON w.c = u.c WHERE {}", |_, rows| {
        Ok(Some(rows.len() as i64))
    }),
    ("SELECT sum((SELECT count(*) FROM u AS w WHERE w.c < u.c OR w.c = t.a)) FROM u WHERE {}", |_, _| {
        Ok(None)
    }),
];

/// The last subquery reads the outer row from two levels below.
fn nested(row: (i64, Value, Value), inner: &[Row], rows: &[Row]) -> Value {
    let counted = |(c, _): &Row| {
        let is_counted = |(w, _): &&Row| both(*w, *c, |w, c| w < c) || both(*w, row.1, |w, a| w == a);
        inner.iter().filter(is_counted).count() as i64
    };
    rows.iter().map(counted).reduce(|one, other| one + other)
}

fn number(value: Value) -> String {
    value.map_or("CAST(NULL AS BIGINT)".to_owned(), |value| value.to_string())
}

fn tables(inner: &[Row]) -> String {
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

/// The pairs of numbers that a query gives, in their order.
fn answer(query: &str) -> Result<Vec<(i64, Value)>, String> {
    let statements = parse(query, "test").map_err(|error| error.to_string())?;
    let reply = Planner::new().execute(&statements[0]).map_err(|error| error.to_string())?;
    let Reply::Rows(rows) = reply else { return Err("no rows".to_owned()) };
    let value =
        datafusion::arrow::compute::cast(rows.column(1), &datafusion::arrow::datatypes::DataType::Int64);
    let value = value.map_err(|error| error.to_string())?;
    let (ids, values) = (rows.column(0).as_primitive::<Int64Type>(), value.as_primitive::<Int64Type>());
    let mut rows: Vec<_> = (0..rows.num_rows())
        .map(|row| (ids.value(row), values.is_valid(row).then(|| values.value(row))))
        .collect();
    rows.sort_unstable();
    Ok(rows)
}

/// Where the value stands, and which rows it gives there.
type Place = (&'static str, fn(i64, Value) -> Option<Value>);

const PLACES: [Place; 4] = [
    ("SELECT t.id, (S) AS v FROM t", |_, value| Some(value)),
    ("SELECT t.id, t.id AS v FROM t WHERE (S) > 1", |id, value| (value > Some(1)).then_some(Some(id))),
    ("SELECT t.id, CASE WHEN (S) IS NULL THEN 0 ELSE (S) END AS v FROM t", |_, value| {
        Some(Some(value.unwrap_or(0)))
    }),
    ("SELECT t.id, sum(coalesce((S), -1)) AS v FROM t GROUP BY t.id", |_, value| {
        Some(Some(value.unwrap_or(-1)))
    }),
];

#[test]
fn values_of_subqueries_are_what_a_naive_evaluation_says() {
    let (mut asked, mut wrong) = (0, Vec::new());
    for inner in INNER {
        let tables = tables(inner);
        for (correlation, belongs) in CORRELATIONS {
            for (at, (subquery, gives)) in SUBQUERIES.into_iter().enumerate() {
                let values = OUTER.map(|row| {
                    let rows: Vec<Row> = inner.iter().copied().filter(|inner| belongs(*inner, row)).collect();
                    let value = gives(row, &rows);
                    let value =
                        if at + 1 == SUBQUERIES.len() { Ok(nested(row, inner, &rows)) } else { value };
                    (row.0, value)
                });
                let fails = values.iter().any(|(_, value)| value.is_err());
                // As a value, and in one of the other places after the other.
                for (place, shown) in [PLACES[0], PLACES[1 + asked % (PLACES.len() - 1)]] {
                    let text = subquery.replace("{}", correlation);
                    let query = format!("{tables}{}", place.replace("(S)", &format!("({text})")));
                    let expected = values
                        .iter()
                        .filter_map(|(id, value)| Some((*id, shown(*id, value.unwrap_or_default())?)));
                    let expected: Vec<(i64, Value)> = expected.collect();
                    asked += 1;
                    match answer(&query) {
                        Ok(found) if !fails && found == expected => {}
                        Err(error) if fails && error.contains("must return one row") => {}
                        found => {
                            wrong.push(format!("{query}\n  expected {expected:?}\n  found    {found:?}"))
                        }
                    }
                }
            }
        }
    }
    assert!(asked > 800, "only {asked} were asked");
    let shown = wrong[..wrong.len().min(20)].join("\n");
    assert!(wrong.is_empty(), "{} of {asked} are wrong:\n{shown}", wrong.len());
}

#[test]
fn lateral_rows_are_those_that_belong_to_each_row() {
    let tables = tables(INNER[0]);
    for (query, expected) in [
        (
            "SELECT t.id, x.c FROM t, LATERAL (SELECT u.c FROM u WHERE u.d <= t.b ORDER BY u.c LIMIT 1) AS x",
            vec![(1, Some(1)), (2, Some(1)), (3, Some(1)), (6, Some(5)), (7, Some(1))],
        ),
        (
            "SELECT t.id, x.n FROM t LEFT JOIN LATERAL (SELECT count(*) AS n FROM u WHERE u.d > t.b) AS x ON true",
            vec![
                (1, Some(2)),
                (2, Some(1)),
                (3, Some(2)),
                (4, Some(0)),
                (5, Some(0)),
                (6, Some(4)),
                (7, Some(2)),
            ],
        ),
    ] {
        assert_eq!(answer(&format!("{tables}{query}")), Ok(expected), "{query}");
    }
}
