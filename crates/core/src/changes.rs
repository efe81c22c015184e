//! Changelogs: how the rows of a relation change in a cycle.
//!
//! A *changelog* is a multiset of rows, each with a whole *weight*: +n means that n more rows equal to it are in the relation,
//! -n that n fewer are. A relation as of a cycle is the sum of its changelogs up to that cycle, in which no weight is negative.
//! Two rows are equal if GROUP BY would put them into one group: NULL equals NULL, NaN equals NaN, and -0.0 equals 0.0.
//!
//! As Arrow, a changelog is batches with the relation's columns and one more behind them, the [`WEIGHT`]. A row may be in
//! several of a cycle's batches; its weights add up. A stream whose rows are never taken back has no such column: each of its
//! rows weighs +1.

use arrow_schema::{DataType, Field};

/// The name of the column of weights: the last column of a changelog, whole numbers (`Int64`) without NULLs.
pub const WEIGHT: &str = "$weight";

/// Returns the column of weights.
///
/// ```
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
/// use tidemill_core::changes::{WEIGHT, weight_field};
///
/// let customers = Schema::new(vec![Field::new("name", DataType::Utf8, false), weight_field()]);
/// assert_eq!(customers.fields().last().map(|last| last.name().as_str()), Some(WEIGHT));
/// ```
pub fn weight_field() -> Field {
    Field::new(WEIGHT, DataType::Int64, false)
}
