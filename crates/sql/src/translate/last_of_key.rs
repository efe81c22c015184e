//! Materialized views with a primary key: a stream's rows as the upserts of a table.

use datafusion::common::Result;

use super::{Kind, Relation, Translator, refuse};
use crate::logical::LastOfKey;

impl Translator {
    /// Nothing is computed: operators that read a table know that the last of several rows with equal keys counts.
    pub(super) fn last_of_key(&mut self, node: &LastOfKey) -> Result<Relation> {
        let relation = self.output(&node.input)?;
        match relation.kind {
            Kind::Stream => {
                Ok(Relation { kind: Kind::Table { keys: Some(node.mark.0.clone()) }, ..relation })
            }
            Kind::Changing => Err(refuse(
                "the rows of this view come and go by themselves, so no key says which of them is the last",
                "remove PRIMARY KEY",
            )),
            Kind::Table { .. } => {
                Err(refuse("this view already has a key: the columns it is grouped by", "remove PRIMARY KEY"))
            }
        }
    }
}
