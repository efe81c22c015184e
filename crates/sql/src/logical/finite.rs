//! Whether what a plan reads ends.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;

use crate::relations::source_definition::scanned;
use tidemill_trees::nodes::PlanTree;

/// Whether all of a plan's input ends.
pub(crate) fn is_finite(plan: &LogicalPlan) -> bool {
    let mut finite = true;
    let _ = plan.look_through_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(source) = scanned(scan.source.as_ref())
        {
            finite &= source.definition.is_finite;
        }
        Ok(TreeNodeRecursion::Continue)
    });
    finite
}
