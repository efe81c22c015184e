//! The known differences of dialect, each with its reason.

use super::tidemill::{Answer, Way, answer};
use tidemill_testing::duckdb::DuckDb;

/// Expressions that both sides understand and answer differently, and why. Random queries do without them. One that
/// does not differ any more is reported: then random queries should have it.
const EXPRESSIONS: &[(&str, &str)] = &[
    ("round(CAST(2.5 AS DOUBLE))", "halves of a DOUBLE are rounded to even, as in PostgreSQL"),
    ("TRY_CAST('1.5' AS INT)", "a text with a fraction is no whole number, as in PostgreSQL"),
    ("TRY_CAST('1e3' AS INT)", "a text with an exponent is no whole number, as in PostgreSQL"),
    ("upper('ß')", "the capital of ß is SS, as Unicode has it"),
    (
        "substr('abc', -1)",
        "positions before the first letter count, as in PostgreSQL; DuckDB counts from the end",
    ),
    (
        "coalesce(CAST(NULL AS REAL), CAST(123456789012.345678 AS DECIMAL(18, 6)))",
        "a REAL beside a DECIMAL is a DOUBLE, which has the digits of both; in DuckDB it is a REAL",
    ),
    ("7 / 2", "whole numbers are divided as such, as in PostgreSQL; DuckDB has // for that"),
];

/// Golden cases: the case, a part of the query, and why it differs.
pub const GOLDEN: &[(&str, &str, &str)] = &[
    (
        "aggregates",
        "round(corr(n, price), 6)",
        "corr and slopes of one point are NULL, as in PostgreSQL; DuckDB has NaN",
    ),
    ("aggregates", "array_agg(user_id)", "lists are written differently"),
    ("aggregates_in_order", "corr(v, d ORDER BY i)", "as above"),
    (
        "intervals",
        "extract(milliseconds FROM b - a)",
        "seconds and milliseconds have fractions, as in PostgreSQL",
    ),
    (
        "nested_values",
        "Europe/Berlin' AS TIMESTAMP)",
        "the zone of a text counts; DuckDB's TIMESTAMP leaves it out",
    ),
    ("postgres_words", "v * INTERVAL '1 second'", "intervals are shown otherwise"),
    (
        "recipes",
        "(TABLE(fixed), l, INTERVAL '1 day')",
        "days are those of the zone; time_bucket has those of UTC",
    ),
    ("recipes", "(SELECT DISTINCT l, v > 1 AS later FROM fixed)", "as above"),
    (
        "series_rows",
        "generate_series(",
        "a series in SELECT gives rows, as in PostgreSQL; in DuckDB it is a list",
    ),
    (
        "subquery_values",
        "(id, z) IN ((1, 10), (4, NULL))",
        "rows are compared column by column, as in PostgreSQL",
    ),
    ("subquery_values", "(1, NULL) IN ((1, 1))", "as above"),
    (
        "order_and_limit",
        "ORDER BY n DESC LIMIT 3 OFFSET 2",
        "NULL is the largest value, as in PostgreSQL, so it comes first here; DuckDB has it last in both directions",
    ),
    (
        "time_zones",
        "now() AT TIME ZONE",
        "AT TIME ZONE gives a time with its zone; in DuckDB it gives the local time without it",
    ),
];

/// Each expression still differs.
pub fn check_expressions() {
    let Some(mut duckdb) = DuckDb::start() else { return };
    for (expression, reason) in EXPRESSIONS {
        let query = format!("SELECT {expression} AS value");
        let Answer::Rows(ours) = answer("", &query, Way::Table) else {
            panic!("{expression} has no answer any more ({reason})");
        };
        let theirs = duckdb.run(&query);
        assert!(
            !ours[0][0].is_same(&theirs[0][0]),
            "{expression} is {} on both sides: take it out, and put it into expression.rs ({reason})",
            ours[0][0]
        );
    }
}
