//! What a view shows before anything has come: an aggregate without GROUP BY has its row from the start.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::{Aggregate, EmptyRelation, LogicalPlan};
use tidemill_engine::{Cause, MemoryBudget};

use crate::query::prepared::Output;
use crate::translate::read_static;
use tidemill_trees::nodes::Tree;

/// The row of a view that has only one, as long as nothing has come.
pub(crate) fn rows_of_nothing(
    plan: &LogicalPlan,
    output: &Output,
    memory: &MemoryBudget,
) -> Result<Option<RecordBatch>, Cause> {
    let has_one_row = matches!(&output.table_key, Some(Some(key)) if key.is_empty());
    if !has_one_row {
        return Ok(None);
    }
    let of_nothing = plan.clone().rewrite_down(|node| match node {
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
            let schema = Arc::clone(aggregate.input.schema());
            let nothing = LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema });
            let aggregate = Aggregate::try_new(Arc::new(nothing), Vec::new(), aggregate.aggr_expr)?;
            Ok(Transformed::new(LogicalPlan::Aggregate(aggregate), true, TreeNodeRecursion::Jump))
        }
        node => Ok(Transformed::no(node)),
    });
    let rows = of_nothing.and_then(|of_nothing| read_static(&of_nothing.data, memory));
    rows.map(Some).map_err(|error| Cause::user(error.to_string()).with_source(error))
}
