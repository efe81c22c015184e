//! The rows of a changelog: what is equal, what a cycle changes, and where the copies of a row are stored.

mod consolidated;
mod row_equality;
mod row_index;

pub(crate) use consolidated::{ChangedRow, Changes, consolidated};
pub(crate) use row_equality::{RowEquality, normalised};
pub(crate) use row_index::RowIndex;
