//! Joins with an input that ends and has no event time: nothing bounds the time between its rows and the other side's,
//! so it is read completely, as a table.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::{Join, LogicalPlan, TableSource};
use tidemill_engine::MemoryBudget;

use super::is_static;
use super::static_table::could_be_static;
use crate::relations::source_definition::{ScannedSource, SourceDefinition, scanned};
use crate::turns::Turns;
use tidemill_trees::nodes::Tree;

/// The plan in which one side of such a join is read as a table: the right one if the join can keep the left one's
/// rows, otherwise the left one.
pub(crate) fn read_as_tables(plan: LogicalPlan) -> Result<LogicalPlan> {
    // A source that is read as a table twice is one table.
    let mut tables = HashMap::new();
    plan.rewrite_down(|node| {
        let LogicalPlan::Join(join) = &node else { return Ok(Transformed::no(node)) };
        match side_to_read(join) {
            None => Ok(Transformed::no(node)),
            Some(Side::Right) => {
                let right = as_table(&join.right, &mut tables)?;
                Ok(Transformed::yes(LogicalPlan::Join(Join { right: Arc::new(right), ..join.clone() })))
            }
            Some(Side::Left) => {
                let left = as_table(&join.left, &mut tables)?;
                Ok(Transformed::yes(LogicalPlan::Join(Join { left: Arc::new(left), ..join.clone() })))
            }
        }
    })
    .data()
}

enum Side {
    Left,
    Right,
}

fn side_to_read(join: &Join) -> Option<Side> {
    if is_static(&join.left) || is_static(&join.right) {
        return None;
    }
    match join.join_type {
        JoinType::Inner | JoinType::Left if could_be_static(&join.right) => Some(Side::Right),
        JoinType::Inner | JoinType::Right if could_be_static(&join.left) => Some(Side::Left),
        _ => None,
    }
}

/// The rows of a plan whose inputs can all be read as tables.
pub(super) fn read_whole(
    plan: &LogicalPlan,
    memory: &MemoryBudget,
    turns: &dyn Turns,
) -> Result<RecordBatch> {
    super::read_static_in_turns(&as_table(plan, &mut HashMap::new())?, memory, turns)
}

type Tables = HashMap<*const SourceDefinition, Arc<SourceDefinition>>;

fn as_table(plan: &LogicalPlan, tables: &mut Tables) -> Result<LogicalPlan> {
    let read = plan.clone().rewrite_up(|node| {
        let LogicalPlan::TableScan(scan) = &node else { return Ok(Transformed::no(node)) };
        let Some(source) = scanned(scan.source.as_ref()).filter(|source| !source.definition.is_table) else {
            return Ok(Transformed::no(node));
        };
        let definition = tables.entry(Arc::as_ptr(&source.definition)).or_insert_with(|| {
            Arc::new(SourceDefinition { is_table: true, ..source.definition.as_ref().clone() })
        });
        let table = ScannedSource { definition: Arc::clone(definition), late: source.late };
        let mut scan = scan.clone();
        scan.source = Arc::new(table) as Arc<dyn TableSource>;
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    });
    read.data()
}
