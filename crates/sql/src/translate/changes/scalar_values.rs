//! Scalar sub-queries whose value changes: `SELECT price - (SELECT avg(price) FROM trades)`. Each is joined with the rows that use it.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, JoinType, NullEquality, Result, TableReference};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, Filter, Join, JoinConstraint, LogicalPlan, LogicalPlanBuilder, Subquery,
};
use tidemill_trees::nodes::{PlanTree, Tree};

use crate::logical::{LastOfKey, node_of};
use crate::translate::refuse;

/// The plan with such sub-queries as joins. Those that depend on the outer row are joins already.
pub(crate) fn with_values_joined(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut values = 0;
    joined(plan, &mut values)
}

fn joined(plan: LogicalPlan, values: &mut usize) -> Result<LogicalPlan> {
    above_keys(plan)?
        .rewrite_up(|node| {
            let mut found: Vec<(Subquery, Column)> = Vec::new();
            let names = NamePreserver::new(&node);
            let replaced = node.clone().rewrite_expressions(|expression| {
                let name = names.save(&expression);
                let replaced = expression.rewrite_up(|part| match &part {
                    Expr::ScalarSubquery(subquery) => {
                        let known = found
                            .iter()
                            .find(|(known, _)| known == subquery)
                            .map(|(_, column)| column.clone());
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

/// The plan in which conditions on such values alone stand above the views with a key that they concern. DataFusion moves a condition
/// that reads no column down to the source; but rows that it drops there would not take the place of others.
fn above_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.rewrite_up(|node| {
        let Some(last) = node_of::<LastOfKey>(&node) else { return Ok(Transformed::no(node)) };
        let mut conditions = Vec::new();
        let input = without_conditions(last.input.as_ref().clone(), &mut conditions)?;
        match conjunction(conditions) {
            None => Ok(Transformed::no(node)),
            Some(condition) => {
                let view = LastOfKey::plan(last.mark.clone(), input);
                Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(condition, Arc::new(view))?)))
            }
        }
    })
    .data()
}

/// Rows without the conditions that read only values of sub-queries, which are added to others.
fn without_conditions(plan: LogicalPlan, taken: &mut Vec<Expr>) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Filter(filter) => {
            let reads_values = |condition: &Expr| {
                condition.column_refs().is_empty()
                    && condition.contains(|part| Ok(matches!(part, Expr::ScalarSubquery(_)))).unwrap_or(false)
            };
            let (values, others): (Vec<Expr>, Vec<Expr>) =
                split_conjunction_owned(filter.predicate).into_iter().partition(reads_values);
            taken.extend(values);
            let input = without_conditions(filter.input.as_ref().clone(), taken)?;
            match conjunction(others) {
                None => Ok(input),
                Some(rest) => Ok(LogicalPlan::Filter(Filter::try_new(rest, Arc::new(input))?)),
            }
        }
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => {
            let inputs = plan.inputs().into_iter().map(|input| without_conditions(input.clone(), taken));
            let inputs = inputs.collect::<Result<Vec<_>>>()?;
            plan.with_new_exprs(plan.expressions(), inputs)
        }
        other => Ok(other),
    }
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
