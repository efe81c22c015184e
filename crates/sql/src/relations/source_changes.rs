//! What the rows of a source mean for the relation that they make, if each is more than one more row.

use datafusion::logical_expr::Expr;

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceChanges {
    /// Each row replaces the one with the same key, or deletes it if a condition is true.
    Upsert {
        /// The condition.
        deleted: Option<Expr>,
    },
    /// A column says how many of a row come, or go.
    Weights {
        /// Its number.
        column: usize,
    },
}
