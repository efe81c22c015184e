//! Conditions that join the tables of `FROM a, b WHERE ...`, found only where there are such tables.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::{JoinType, LogicalPlan};
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use tidemill_trees::nodes::PlanTree;

/// DataFusion's [`EliminateCrossJoin`] for plans that have a join without a key. It searches the keys of all joins for
/// each input of each join, which takes minutes for hundreds of joins, and changes nothing where each join has its key.
#[derive(Debug, Default)]
pub(crate) struct CrossJoins(EliminateCrossJoin);

impl OptimizerRule for CrossJoins {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if has_join_without_key(&plan)? { self.0.rewrite(plan, config) } else { Ok(Transformed::no(plan)) }
    }
}

fn has_join_without_key(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.look_through_with_subqueries(|node| {
        let is_without_key = |node: &LogicalPlan| {
            matches!(node, LogicalPlan::Join(join) if join.join_type == JoinType::Inner && join.on.is_empty())
        };
        found |= is_without_key(node);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}
