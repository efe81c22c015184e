//! The state of an operator as rows that people can read.

use arrow_array::RecordBatch;

/// Rows of one kind that a partition of an operator holds, such as its open windows or the rows of one side of a join.
///
/// See [`Operator::state_rows`](crate::Operator::state_rows).
#[derive(Clone, Debug, PartialEq)]
pub struct StateRows {
    /// What they are, in a word: `windows`, `left`, `waiting`.
    pub kind: &'static str,
    /// The rows.
    pub rows: RecordBatch,
}
