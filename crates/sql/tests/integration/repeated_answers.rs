//! An answer is the same in each run, down to the order of its rows and of what lists have: nothing of it is in the order of a hash table.

use std::fmt::Write as _;

use datafusion::arrow::util::pretty::pretty_format_batches;
use tidemill_sql::{Planner, Reply, parse};

const RUNS: usize = 12;

const QUERIES: [&str; 16] = [
    "SELECT array_agg(DISTINCT k) AS a, string_agg(DISTINCT s, ',') AS t FROM t",
    "SELECT n % 7 AS g, array_agg(DISTINCT k) AS a, string_agg(DISTINCT s, '') AS t FROM t GROUP BY n % 7",
    "SELECT s, count(*) AS c FROM t GROUP BY s",
    "SELECT DISTINCT k, s FROM t",
    "SELECT k FROM t UNION SELECT n FROM t",
    "SELECT k FROM t INTERSECT SELECT n FROM t",
    "SELECT n FROM t EXCEPT SELECT k FROM t",
    "SELECT a.n, b.s FROM t AS a JOIN t AS b ON a.k = b.n",
    "SELECT a.n, b.s FROM t AS a FULL JOIN t AS b ON a.k = b.n AND a.s = b.s",
    "SELECT n FROM t WHERE k IN (SELECT n FROM t WHERE n % 3 = 0)",
    "SELECT n, (SELECT max(u.n) FROM t AS u WHERE u.k < t.k) AS m FROM t",
    "SELECT array_distinct(array_agg(k)) AS d, array_union(array_agg(k), array_agg(n)) AS u FROM t",
    "SELECT array_intersect(array_agg(k), array_agg(n)) AS i, array_except(array_agg(n), array_agg(k)) AS e FROM t",
    "SELECT s, rank() OVER (ORDER BY k) AS r FROM t",
    "SELECT k, s, count(*) AS c FROM t GROUP BY GROUPING SETS ((k, s), (k), ())",
    "SELECT mode() WITHIN GROUP (ORDER BY s) AS m, percentile_disc(0.3) WITHIN GROUP (ORDER BY s) AS p FROM t",
];

/// A table of 200 rows in a mixed order.
fn table() -> String {
    let mut text = "CREATE VIEW t AS SELECT * FROM (VALUES ".to_owned();
    for row in 0..200_u64 {
        let (k, s) = (row * 7_919 % 61, row * 104_729 % 37);
        let _ = write!(text, "{}({row}, {k}, 'word {s}')", if row == 0 { "" } else { ", " });
    }
    text + ") AS t(n, k, s);"
}

fn answer(query: &str) -> String {
    let mut planner = Planner::new();
    let statements = parse(&format!("{}{query}", table()), "test").unwrap();
    let mut shown = String::new();
    for statement in &statements {
        match planner.execute(statement) {
            Ok(Reply::Rows(rows)) => shown = pretty_format_batches(&[rows]).unwrap().to_string(),
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    }
    shown
}

#[test]
fn answers_are_the_same_in_each_run() {
    for query in QUERIES {
        let first = answer(query);
        assert!(first.lines().count() > 4, "{query}\n{first}");
        for run in 1..RUNS {
            assert_eq!(answer(query), first, "run {run} of {query}");
        }
    }
}

#[test]
fn lists_of_distinct_values_are_in_order() {
    let shown = answer("SELECT array_agg(DISTINCT x) AS a FROM (VALUES (3), (NULL), (1), (2), (1)) AS v(x)");
    assert!(shown.contains("[1, 2, 3, ]"), "{shown}");
    let shown =
        answer("SELECT string_agg(DISTINCT x, ',') AS a FROM (VALUES ('c'), ('a'), ('b'), ('a')) AS v(x)");
    assert!(shown.contains("a,b,c"), "{shown}");
}
