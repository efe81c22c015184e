//! Subqueries for which there is a join already: they compare columns with the outer row in WHERE, and nowhere else.

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{LogicalPlan, SkipType, Subquery};
use datafusion::optimizer::decorrelate::PullUpCorrelatedExpr;
use tidemill_trees::nodes::{PlanTree, Tree};

use super::super::marks::pulled_up;
use super::super::scalar_rows::is_one_row;
use super::references::{references, subquery_of};

/// Returns whether DataFusion joins the value of a subquery.
pub(super) fn is_value(subquery: &Subquery) -> Result<bool> {
    let plan = subquery.subquery.as_ref();
    let is_aggregate = match plan {
        LogicalPlan::Filter(filter) => is_one_row(&filter.input),
        LogicalPlan::Projection(projection) => match projection.input.as_ref() {
            LogicalPlan::Filter(filter) => is_one_row(&filter.input),
            _ => is_one_row(plan),
        },
        _ => is_one_row(plan),
    };
    Ok(is_aggregate && !has_nested_references(plan)? && can_be_pulled_up(plan, false)?)
}

/// Returns whether a predicate over a subquery becomes joins.
pub(super) fn is_predicate(subquery: &Subquery, is_exists: bool) -> Result<bool> {
    let plan = subquery.subquery.as_ref();
    if has_nested_references(plan)? || has_offset(plan)? {
        return Ok(false);
    }
    let is_aggregate = is_value(subquery)?;
    Ok(is_aggregate || (!has_inner_aggregate(plan)? && can_be_pulled_up(plan, is_exists)?))
}

/// Returns whether there is a join for a lateral one.
pub(super) fn is_lateral(subquery: &Subquery) -> Result<bool> {
    let plan = subquery.subquery.as_ref();
    if references(plan)?.is_empty() {
        return Ok(true);
    }
    let has_limit = plan.contains(|node| Ok(matches!(node, LogicalPlan::Limit(_))))?;
    Ok(!has_limit && !has_nested_references(plan)? && !has_having(plan)? && can_be_pulled_up(plan, false)?)
}

fn can_be_pulled_up(plan: &LogicalPlan, is_exists: bool) -> Result<bool> {
    let mut pull_up =
        PullUpCorrelatedExpr::new().with_need_handle_count_bug(!is_exists).with_exists_sub_query(is_exists);
    // What it cannot join, it may also refuse.
    Ok(pulled_up(plan.clone(), &mut pull_up).is_ok() && pull_up.can_pull_up)
}

/// Returns whether a subquery within this one reads rows outside of both.
fn has_nested_references(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.look_through(|node| {
        let rows = datafusion::logical_expr::utils::merge_schema(&node.inputs());
        node.look_through_expressions(|expression| {
            expression.look_through(|part| {
                if let Some(inner) = subquery_of(part) {
                    found |= references(&inner.subquery)?.iter().any(|read| !rows.has_column(&read.column));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

fn has_offset(plan: &LogicalPlan) -> Result<bool> {
    plan.contains(|node| match node {
        LogicalPlan::Limit(limit) => Ok(!matches!(limit.get_skip_type()?, SkipType::Literal(0))),
        _ => Ok(false),
    })
}

/// Returns whether an aggregate of rows that belong to an outer row is there, which has a row for no rows.
fn has_inner_aggregate(plan: &LogicalPlan) -> Result<bool> {
    plan.contains(|node| match node {
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
            Ok(!references(node)?.is_empty())
        }
        _ => Ok(false),
    })
}

fn has_having(plan: &LogicalPlan) -> Result<bool> {
    plan.contains(|node| match node {
        LogicalPlan::Filter(filter) => Ok(matches!(filter.input.as_ref(), LogicalPlan::Aggregate(_))),
        _ => Ok(false),
    })
}
