//! The mark of a materialized view with a primary key: only the last row of each key counts.

use datafusion::common::DFSchema;

use super::marked::{Mark, Marked};

/// The numbers of the key's columns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) struct Key(pub Vec<usize>);

/// A stream read as a table: each row replaces the row before it with the same key. Conditions around it are not moved
/// inside, because a row that they drop has still replaced the row before.
pub(crate) type LastOfKey = Marked<Key>;

impl Mark for Key {
    const NAME: &'static str = "LastOfKey";

    fn shown(&self, schema: &DFSchema) -> String {
        let name = |column: &usize| schema.field(*column).name().clone();
        self.0.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}
