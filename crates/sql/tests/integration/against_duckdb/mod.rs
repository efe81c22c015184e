//! A second opinion from outside: DuckDB answers the same questions.
//!
//! The golden cases, and random queries over random tables of values at the edges of their types, in words that both
//! sides understand. We answer over tables, over streams that end, and by materialized views in cycles of several sizes.
//! DuckDB runs in a Python process of its own; without it the tests say that they are skipped. `.ci/run` installs it.
//!
//! A run is repeated by its seed. The long form:
//!
//!     TIDEMILL_DUCKDB_SEED=7 TIDEMILL_DUCKDB_QUERIES=2000 cargo test --release -p tidemill-sql --test integration against_duckdb

mod arrow_rows;
use crate::golden_support::case;
mod check;
mod count_windows;
mod differences;
mod expression;
mod frames;
mod functions;
mod golden;
mod intervals;
mod mixed;
mod query;
mod shapes;
mod sql;
mod subqueries;
mod table;
mod texts;
mod tidemill;
mod window_calls;

use query::Family;

#[test]
fn golden_cases() {
    golden::check();
}

#[test]
fn known_differences() {
    differences::check_expressions();
}

/// A test for each family of queries.
macro_rules! families {
    ($($name:ident: $family:ident;)*) => {
        $(
            #[test]
            fn $name() {
                check::family(Family::$family);
            }
        )*
    };
}

families! {
    random_rows: Rows;
    random_groups: Groups;
    random_totals: Totals;
    random_joins: Joins;
    random_sets: Sets;
    random_orders: Orders;
    random_windows: Windows;
    random_running_functions: Running;
    random_subqueries: Subqueries;
    random_frames: Frames;
    random_count_windows: CountWindows;
    random_lists: Lists;
    random_shapes: Shapes;
    random_functions: Functions;
}
