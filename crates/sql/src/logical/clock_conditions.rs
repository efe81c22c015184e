//! Conditions on `now()` where a row passes once, and nothing would take it out again later.

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
            LogicalPlan::Aggregate(aggregate) => has_clock_filter(&aggregate.aggr_expr)?,
            _ => false,
        };
        if reads {
            return Err(refuse(
                "now() advances, and the rows that have passed this condition would never leave again",
                "keep them with CREATE MATERIALIZED VIEW, from which they leave; or let a sink write what comes and \
                 goes: WITH (emit = 'changes', ...)",
            ));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Refuses aggregates that are kept up to date and have a FILTER that reads the clock.
pub(crate) fn check_clock_filters(aggregates: &[Expr]) -> Result<()> {
    if !has_clock_filter(aggregates)? {
        return Ok(());
    }
    Err(refuse(
        "now() advances, and rows that have passed this FILTER would not leave the aggregate again",
        "write the condition in the WHERE of a sub-query: SELECT count(*) FROM (SELECT * FROM rows WHERE at > now() - \
         INTERVAL '1 minute')",
    ))
}

/// Whether an aggregate has a FILTER that reads the clock.
fn has_clock_filter(aggregates: &[Expr]) -> Result<bool> {
    for aggregate in aggregates {
        let reads = aggregate.contains(|part| match part {
            Expr::AggregateFunction(call) => call.params.filter.as_deref().map_or(Ok(false), reads_clock),
            _ => Ok(false),
        })?;
        if reads {
            return Ok(true);
        }
    }
    Ok(false)
}
