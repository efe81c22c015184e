//! A source whose rows come and go.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{Expr, lit};
use tidemill_engine::changes::WEIGHT;
use tidemill_operators::changes::{SetOperation, SetOperationKind, SetOperationSpec, changelog_schema};

use super::changing;
use crate::logical::WeightedRows;
use crate::translate::changelog::KEEP_UP_TO_DATE;
use crate::translate::{Relation, Translator, column_at, refuse, user};

impl Translator {
    /// The rows of a source with their weights. The column that has them is 1 in all rows: a row that goes equals the one that came. Of the
    /// rows that are for one query alone, it has its own.
    pub(in crate::translate) fn weighted_rows(&mut self, node: &WeightedRows) -> Result<Relation> {
        if !self.takes_changes {
            return Err(refuse(
                "the rows of this source come and go, and a row that was written cannot be taken back",
                KEEP_UP_TO_DATE,
            ));
        }
        let mut relation = self.output(&node.input)?;
        let (schema, weight, reader) = (node.input.schema(), node.mark.0, node.mark.1);
        if let Some(reader) = reader {
            let column = column_at(schema, reader);
            let is_own = column.clone().is_null().or(column.eq(lit(self.reader.clone())));
            let all: Vec<Expr> = (0..schema.fields().len()).map(|index| column_at(schema, index)).collect();
            relation = self.compute(relation, schema, &[is_own], &all, Some(schema))?;
        }
        let own = (0..schema.fields().len()).filter(|index| *index != weight).map(|index| {
            if Some(index) == reader {
                lit(ScalarValue::Utf8(None)).alias(schema.field(index).name())
            } else {
                column_at(schema, index)
            }
        });
        let columns: Vec<Expr> = own.chain([column_at(schema, weight).alias(WEIGHT)]).collect();
        let weighted = self.with_weights(relation, schema, &columns)?;
        let rows = self.never_negative(weighted)?;
        let known = DFSchema::try_from(rows.schema.as_ref().clone())?;
        let column = |index: usize| match index.cmp(&weight) {
            Ordering::Less => column_at(&known, index),
            Ordering::Equal => lit(1_i64).alias(schema.field(index).name()),
            Ordering::Greater => column_at(&known, index - 1),
        };
        let columns: Vec<Expr> = (0..schema.fields().len()).map(column).collect();
        self.compute(rows, &known, &[], &columns, Some(schema))
    }

    /// A relation without the rows that go more often than they came, which are counted.
    fn never_negative(&mut self, relation: Relation) -> Result<Relation> {
        let keys: Vec<usize> = (0..relation.schema.fields().len()).collect();
        let partitions = self.partitions(keys.len());
        let spec = SetOperationSpec {
            schema: Arc::clone(&relation.schema),
            kind: SetOperationKind::ExceptAll,
            left_changes: true,
            right_changes: false,
            rows_max: self.rows_max(partitions),
        };
        SetOperation::new(spec.clone()).map_err(user)?;
        let (written, faults) = (changelog_schema(&relation.schema), self.faults.clone());
        let inputs = [(relation.stream, keys)];
        let stream = self.operator("changes of a source", &inputs, partitions, written, move |_| {
            let counted = SetOperation::new(spec.clone()).expect("checked when it was planned");
            Box::new(counted.faults(faults.clone()))
        });
        let schema = Arc::clone(&relation.schema);
        Ok(changing(relation, stream, schema))
    }
}
