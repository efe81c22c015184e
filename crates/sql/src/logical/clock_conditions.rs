//! Conditions on `now()` in what is kept: a row passes once, and nothing would take it out again later.

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::functions::reads_clock;
use crate::refusal::refuse;
use tidemill_trees::nodes::{PlanTree, Tree};

/// Refuses such conditions.
pub(crate) fn check_clock_conditions(plan: &LogicalPlan) -> Result<()> {
    plan.look_through_with_subqueries(|node| {
        let reads = match node {
            LogicalPlan::Filter(filter) => reads_clock(&filter.predicate)?,
            LogicalPlan::Join(join) => join.filter.as_ref().map_or(Ok(false), reads_clock)?,
            LogicalPlan::Aggregate(aggregate) => {
                aggregate.aggr_expr.iter().map(has_filter).collect::<Result<Vec<_>>>()?.contains(&true)
            }
            _ => false,
        };
        if reads {
            return Err(refuse(
                "now() advances, and the rows that have passed this condition would never leave again",
                "keep the rows without it, CREATE MATERIALIZED VIEW name AS SELECT ... WITH (retain = '1 minute'), \
                 and write the condition where they are read: SELECT ... FROM name WHERE at > now() - INTERVAL '1 \
                 minute'",
            ));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Whether an aggregate has a FILTER that reads the clock.
fn has_filter(expression: &Expr) -> Result<bool> {
    expression.contains(|part| match part {
        Expr::AggregateFunction(call) => call.params.filter.as_deref().map_or(Ok(false), reads_clock),
        _ => Ok(false),
    })
}
