//! `IN (SELECT ...)` within other conditions, such as `a NOT IN (SELECT ...) OR b`. DataFusion 55 replaces it by a column that
//! says whether the value was found: true or false, and never NULL. `NOT IN` then keeps rows for which it is NULL.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, lit, not,
    when,
};

use tidemill_trees::nodes::{PlanTree, Tree};

/// The plan in which `IN (SELECT ...)` within other conditions is NULL where it should be.
pub(super) fn with_nulls(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.rewrite_up_with_subqueries(|node| {
        let LogicalPlan::Filter(filter) = node else { return Ok(Transformed::no(node)) };
        let schema = merge_schema(&[&filter.input]);
        let conditions = split_conjunction_owned(filter.predicate.clone()).into_iter();
        let conditions: Vec<Expr> = conditions
            .map(|condition| {
                if is_in(&condition) {
                    // DataFusion knows about NULL where the condition stands alone.
                    Ok(condition)
                } else {
                    nested(condition, true, &schema)
                }
            })
            .collect::<Result<_>>()?;
        match conjunction(conditions) {
            Some(predicate) if predicate != filter.predicate => {
                Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
            }
            _ => Ok(Transformed::no(LogicalPlan::Filter(filter))),
        }
    })
    .data()
}

fn is_in(condition: &Expr) -> bool {
    match condition {
        Expr::Not(condition) => matches!(condition.as_ref(), Expr::InSubquery(_)),
        condition => matches!(condition, Expr::InSubquery(_)),
    }
}

/// A part of a condition. `false_is_null` says that it makes no difference whether the part is NULL or false.
fn nested(part: Expr, false_is_null: bool, schema: &DFSchema) -> Result<Expr> {
    match part {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let left = Box::new(nested(*left, false_is_null, schema)?);
            let right = Box::new(nested(*right, false_is_null, schema)?);
            Ok(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::InSubquery(part) if false_is_null && !part.negated => Ok(Expr::InSubquery(part)),
        Expr::InSubquery(part) => {
            let found = or_null(InSubquery { negated: false, ..part.clone() }, schema)?;
            Ok(if part.negated { not(found) } else { found })
        }
        part => part.rewrite_children(|child| Ok(Transformed::yes(nested(child, false, schema)?))).data(),
    }
}

/// `IN` with its three values: whether the value is found; NULL if it is not, but NULL is compared with anything.
fn or_null(part: InSubquery, schema: &DFSchema) -> Result<Expr> {
    let Some(column) = part.subquery.subquery.head_output_expr()? else { return Ok(Expr::InSubquery(part)) };
    let mut is_null = Vec::new();
    if part.expr.nullable(schema).unwrap_or(true) {
        is_null.push(part.expr.clone().is_null().and(exists(part.subquery.clone())));
    }
    if column.nullable(part.subquery.subquery.schema()).unwrap_or(true) {
        let rows = part.subquery.subquery.as_ref().clone();
        let nulls = LogicalPlanBuilder::from(rows).filter(column.is_null())?.build()?;
        is_null.push(exists(Subquery { subquery: Arc::new(nulls), ..part.subquery.clone() }));
    }
    let found = Expr::InSubquery(part);
    match is_null.into_iter().reduce(Expr::or) {
        None => Ok(found),
        Some(is_null) => {
            when(found, lit(true)).when(is_null, lit(ScalarValue::Boolean(None))).otherwise(lit(false))
        }
    }
}

fn exists(subquery: Subquery) -> Expr {
    Expr::Exists(Exists { subquery, negated: false })
}
