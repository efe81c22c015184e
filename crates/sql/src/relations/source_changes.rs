//! What the rows of a source mean for the relation that they make, if each is more than one more row.

use std::hash::{DefaultHasher, Hash, Hasher};

use datafusion::logical_expr::{Expr, LogicalPlan};

/// The column with the weights of a table's changes. Its columns may have any name that people write.
pub(crate) const COUNT_COLUMN: &str = "$count";
/// The column that says for which query alone a row of a table's source is.
pub(crate) const READER_COLUMN: &str = "$reader";

/// What a query is called in [`READER_COLUMN`]: another query of its name is called otherwise.
pub(crate) fn reader_of(name: &str, query: &LogicalPlan) -> String {
    // Not to be kept for longer than it takes a query to begin, so the hash may differ in another version.
    let mut hasher = DefaultHasher::new();
    query.display_indent().to_string().hash(&mut hasher);
    format!("{name} {:016x}", hasher.finish())
}

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
        /// The column that says for which query alone a row is: it is filled with what a table has when it begins.
        reader: Option<usize>,
    },
}
