//! A subquery with exactly one row, whatever it reads: an aggregate without GROUP BY. As joined rows it would be missing for outer
//! rows without matches, so it is read as a value.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{Aggregate, Expr, Filter, LogicalPlan, LogicalPlanBuilder, Subquery};

use crate::refusal::refuse;
use tidemill_trees::nodes::Tree;

/// Such a subquery.
pub(super) struct OneRow {
    /// Its row.
    pub rows: Subquery,
    /// Whether the row passes HAVING, if there is one.
    pub is_there: Option<Expr>,
}

impl OneRow {
    /// The row of a subquery that has one.
    pub fn of(subquery: &Subquery) -> Result<Option<OneRow>> {
        let of_plan = |plan: LogicalPlan| {
            let outer_ref_columns = plan.all_out_ref_exprs();
            Subquery { subquery: Arc::new(plan), outer_ref_columns, ..subquery.clone() }
        };
        let plan = &subquery.subquery;
        if is_one_row(plan) {
            return Ok(Some(OneRow { rows: subquery.clone(), is_there: None }));
        }
        match without_condition(plan)? {
            Some((rows, condition)) => {
                let value = LogicalPlanBuilder::from(condition.input.as_ref().clone());
                let value = value.project([condition.predicate.clone().alias("is_there")])?.build()?;
                let is_there = Expr::ScalarSubquery(of_plan(value)).is_true();
                Ok(Some(OneRow { rows: of_plan(rows), is_there: Some(is_there) }))
            }
            None => check_others(plan).map(|()| None),
        }
    }
}

/// Returns whether a plan has one row, whatever it reads.
pub(super) fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_one_row(&alias.input),
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        _ => false,
    }
}

/// The plan without the only condition on its row, and that condition.
fn without_condition(plan: &LogicalPlan) -> Result<Option<(LogicalPlan, Filter)>> {
    match plan {
        LogicalPlan::Filter(filter) if is_one_row(&filter.input) => {
            Ok(Some((filter.input.as_ref().clone(), filter.clone())))
        }
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => {
            let Some((input, filter)) = without_condition(plan.inputs()[0])? else { return Ok(None) };
            Ok(Some((plan.with_new_exprs(plan.expressions(), vec![input])?, filter)))
        }
        _ => Ok(None),
    }
}

/// Refuses other plans over such a row of each outer row.
fn check_others(plan: &LogicalPlan) -> Result<()> {
    plan.look_through(|node| match node {
        LogicalPlan::Aggregate(Aggregate { group_expr, .. })
            if group_expr.is_empty() && !node.all_out_ref_exprs().is_empty() =>
        {
            Err(refuse(
                "an aggregate of the rows that belong to an outer row cannot be part of a larger subquery",
                "compare its value instead: (SELECT max(x) FROM t WHERE t.id = outer.id) > 5",
            ))
        }
        _ => Ok(TreeNodeRecursion::Continue),
    })?;
    Ok(())
}
