//! The known differences of dialect, each with its reason.

use super::tidemill::{Answer, Way, answer};
use tidemill_testing::duckdb::DuckDb;

/// Expressions that both sides understand and answer differently, and why. Random queries do without them. One that
/// does not differ any more is reported: then random queries should have it.
const EXPRESSIONS: &[(&str, &str)] = &[
    (
        "CAST(CAST(3.5 AS DOUBLE) AS BIGINT)",
        "a number loses its fraction when it is cast to a whole one; DuckDB and PostgreSQL round it",
    ),
    ("CAST(CAST(3.5 AS DECIMAL(3, 1)) AS BIGINT)", "as above"),
    ("CAST(TIMESTAMP '2020-01-01 00:00:00' AS VARCHAR)", "times are written as RFC 3339 has it, with a T"),
    ("CAST(CAST(1e20 AS DOUBLE) AS VARCHAR)", "large numbers are written with all their digits"),
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
    ("functions_numbers", "CAST(price AS BIGINT)", "a fraction is cut off, see CAST among the expressions"),
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
    (
        "views",
        "SELECT * FROM dear_homes",
        "a view over another one keeps what that one was when it was made; in DuckDB it follows the other's new query",
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
