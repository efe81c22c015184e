//! A source whose rows come and go.

use datafusion::common::Result;
use datafusion::logical_expr::{Expr, lit};
use tidemill_engine::changes::WEIGHT;

use super::changing;
use crate::logical::WeightedRows;
use crate::translate::{Relation, Translator, column_at, refuse};

impl Translator {
    /// The rows of a source with their weights. The column that has them is 1 in all rows, so that a row that goes equals the one that came.
    pub(in crate::translate) fn weighted_rows(&mut self, node: &WeightedRows) -> Result<Relation> {
        if !self.takes_changes {
            return Err(refuse(
                "the rows of this source come and go, and a row that was written cannot be taken back",
                "keep it with CREATE MATERIALIZED VIEW; or let a sink write what comes and goes: emit = 'changes'",
            ));
        }
        let relation = self.output(&node.input)?;
        let (schema, weight) = (node.input.schema(), node.mark.0);
        let own = (0..schema.fields().len()).map(|index| {
            let column = column_at(schema, index);
            if index == weight { lit(1_i64).alias(schema.field(index).name()) } else { column }
        });
        let columns: Vec<Expr> = own.chain([column_at(schema, weight).alias(WEIGHT)]).collect();
        let own = std::sync::Arc::clone(&relation.schema);
        let weighted = self.compute(relation, schema, &[], &columns, None)?;
        let stream = weighted.stream;
        Ok(changing(weighted, stream, own))
    }
}
