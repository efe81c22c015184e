//! Tables whose rows clients change: who changes them now, and their rows as the next change finds them (decision 0180).

mod key_index;
mod locks;
mod row_changes;
mod table_rows;

pub(crate) use self::key_index::of_arrow;
pub(crate) use self::locks::{TableLock, Tables};
pub(crate) use self::row_changes::{checked, first_of_each, fitted, those};
pub(crate) use self::table_rows::{TableRows, numbered_schema};
