//! Scalar sub-queries whose value changes: `SELECT price - (SELECT avg(price) FROM trades)`. Each is joined with the rows that use it.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, JoinType, NullEquality, Result, TableReference};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, Join, JoinConstraint, LogicalPlan, LogicalPlanBuilder, Subquery};
use tidemill_trees::nodes::{PlanTree, Tree};

use crate::translate::refuse;

/// The plan with such sub-queries as joins. Those that depend on the outer row are joins already.
pub(crate) fn with_values_joined(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut values = 0;
    joined(plan, &mut values)
}

fn joined(plan: LogicalPlan, values: &mut usize) -> Result<LogicalPlan> {
    plan.rewrite_up(|node| {
        let mut found: Vec<(Subquery, Column)> = Vec::new();
        let names = NamePreserver::new(&node);
        let replaced = node.clone().rewrite_expressions(|expression| {
            let name = names.save(&expression);
            let replaced = expression.rewrite_up(|part| match &part {
                Expr::ScalarSubquery(subquery) => {
                    let known =
                        found.iter().find(|(known, _)| known == subquery).map(|(_, column)| column.clone());
                    let column = known.unwrap_or_else(|| {
                        *values += 1;
                        let column = Column::new(Some(format!("value {values}")), "value");
                        found.push((subquery.clone(), column.clone()));
                        column
                    });
                    Ok(Transformed::yes(Expr::Column(column)))
                }
                _ => Ok(Transformed::no(part)),
            })?;
            Ok(replaced.update_data(|expression| name.restore(expression)))
        })?;
        if found.is_empty() {
            return Ok(Transformed::no(node));
        }
        let [input] = node.inputs()[..] else {
            return Err(refuse(
                "a sub-query whose value changes stands where it cannot be joined",
                "compute it in a sub-query of FROM, and compare with its column",
            ));
        };
        let mut with_values = input.clone();
        for (subquery, column) in found {
            with_values = with_value(with_values, &subquery, &column, values)?;
        }
        let expressions = replaced.data.expressions();
        let before = Arc::clone(node.schema());
        let after = node.with_new_exprs(expressions, vec![with_values])?;
        // Nodes that pass their input on would pass on the values, too.
        if after.schema().fields().len() == before.fields().len() {
            return Ok(Transformed::yes(after));
        }
        let own = before.columns().into_iter().map(Expr::Column);
        Ok(Transformed::yes(LogicalPlanBuilder::from(after).project(own)?.build()?))
    })
    .data()
}

/// Rows with the value of a sub-query, NULL if that has no row.
fn with_value(
    rows: LogicalPlan,
    subquery: &Subquery,
    column: &Column,
    values: &mut usize,
) -> Result<LogicalPlan> {
    let plan = joined(subquery.subquery.as_ref().clone(), values)?;
    if plan.max_rows() != Some(1) {
        return Err(refuse(
            "a scalar sub-query must have one row at most, and this one may have several",
            "select one of them with max() or min()",
        ));
    }
    let value = Expr::Column(Column::from(plan.schema().qualified_field(0))).alias(column.name.clone());
    let alias = column.relation.clone().unwrap_or_else(|| TableReference::bare("value"));
    let value = LogicalPlanBuilder::from(plan).project([value])?.alias(alias)?.build()?;
    Ok(LogicalPlan::Join(Join::try_new(
        Arc::new(rows),
        Arc::new(value),
        Vec::new(),
        None,
        JoinType::Left,
        JoinConstraint::On,
        NullEquality::NullEqualsNothing,
        false,
    )?))
}
