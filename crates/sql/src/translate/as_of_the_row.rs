//! Tables that a join reads as of the moment of each row.

use datafusion::common::Result;

use super::{Kind, Relation, Translator, refuse};
use crate::logical::AsOfTheRow;

impl Translator {
    /// Nothing is computed: a join sees that its rows are not to be kept up to date.
    pub(super) fn as_of_the_row(&mut self, node: &AsOfTheRow) -> Result<Relation> {
        let relation = self.output(&node.input)?;
        match relation.kind {
            Kind::Table { .. } => Ok(Relation { is_as_of_the_row: true, ..relation }),
            Kind::Stream | Kind::Changing => Err(refuse(
                "FOR SYSTEM_TIME AS OF reads a table whose rows are replaced by key, and this is none",
                "give it a key: a source with changes = 'upsert', a materialized view with PRIMARY KEY, or a GROUP BY; \
                 or remove the clause, and the join is kept up to date",
            )),
        }
    }
}
