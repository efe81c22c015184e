//! Sources whose rows replace others, or come and go: the relation that they make.

use std::sync::Arc;

use datafusion::common::{Column, Result, TableReference};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use super::last_of_key::{Key, LastOfKey};
use super::weighted_rows::{WeightedRows, Weights};
use crate::relations::source_changes::SourceChanges;
use crate::relations::source_definition::{ScannedSource, SourceDefinition};

/// The relation that a source makes, under its name.
pub(crate) fn relation_of(
    definition: &Arc<SourceDefinition>,
    changes: &SourceChanges,
    name: TableReference,
) -> Result<LogicalPlan> {
    let scanned = Arc::new(ScannedSource { definition: Arc::clone(definition), late: false });
    let scan = LogicalPlanBuilder::scan(name, scanned, None)?.build()?;
    match changes {
        SourceChanges::Upsert { deleted } => {
            let last = LastOfKey::plan(Key(definition.key.clone()), scan);
            match deleted {
                None => Ok(last),
                Some(deleted) => {
                    let stays = deleted.clone().is_not_true();
                    LogicalPlanBuilder::from(last).filter(stays)?.build()
                }
            }
        }
        SourceChanges::Weights { column, reader } => {
            let weighted = WeightedRows::plan(Weights(*column, *reader), scan);
            let schema = Arc::clone(weighted.schema());
            let others =
                (0..schema.fields().len()).filter(|index| index != column && Some(*index) != *reader);
            let columns = others.map(|index| Expr::Column(Column::from(schema.qualified_field(index))));
            LogicalPlanBuilder::from(weighted).project(columns)?.build()
        }
    }
}
