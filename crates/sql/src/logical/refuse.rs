//! Rejects what the planner accepts but no query may contain: what no replay could repeat, and an order by missing
//! columns.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, SchemaError};
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDF, Volatility};

use super::functions::{CURRENT_DATE, CURRENT_TIME, NOW};
use crate::refusal::refuse;
use tidemill_trees::nodes::{PlanTree, Tree};

/// Checks that every function gives the same answer in every run over the same input.
pub(crate) fn check_repeatable(plan: &LogicalPlan) -> Result<()> {
    plan.look_through_with_subqueries(|node| {
        node.look_through_expressions(|expression| {
            expression.look_through(|part| {
                if let Expr::ScalarFunction(call) = part {
                    let name = call.func.name();
                    if !is_repeatable(&call.func) {
                        return Err(refuse(
                            format!(
                                "{name}() returns different values in every run, so a replay after a crash \
                                 could not repeat the query's results"
                            ),
                            "send the value as a column of the source, or derive one from the row's own \
                             columns (for example md5 of its key)",
                        ));
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(())
}

/// Checks that a source can compute this column: it does so when a row arrives, before the row's cycle is closed.
pub(crate) fn check_independent_of_cycles(column: &str, expression: Expr) -> Result<Expr> {
    expression.look_through(|part| {
        if let Expr::ScalarFunction(call) = part
            && is_time_of_cycle(&call.func)
        {
            let name = call.func.name();
            return Err(refuse(
                format!(
                    "{name}() is the time at which a row's cycle is closed, and the column '{column}' of a source is \
                     computed before that"
                ),
                &format!("compute it in a view: CREATE VIEW name AS SELECT *, {name}() AS {column} FROM source"),
            ));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(expression)
}

fn is_time_of_cycle(function: &ScalarUDF) -> bool {
    [NOW, CURRENT_DATE, CURRENT_TIME].contains(&function.name())
}

/// Whether a function gives the same answer in every run over the same input. The closing time of a cycle does, because
/// it is logged.
pub(crate) fn is_repeatable(function: &ScalarUDF) -> bool {
    is_time_of_cycle(function) || function.signature().volatility != Volatility::Volatile
}

/// Checks that the columns of ORDER BY exist, which DataFusion (55.2) notices only when it runs the plan.
pub(crate) fn check_order(plan: &LogicalPlan) -> Result<()> {
    plan.look_through_with_subqueries(|node| {
        let LogicalPlan::Sort(sort) = node else { return Ok(TreeNodeRecursion::Continue) };
        let schema = sort.input.schema();
        let columns = sort.expr.iter().flat_map(|by| by.expr.column_refs());
        let Some(missing) = columns.into_iter().find(|column| !schema.has_column(column)) else {
            return Ok(TreeNodeRecursion::Continue);
        };
        let error =
            SchemaError::FieldNotFound { field: Box::new(missing.clone()), valid_fields: schema.columns() };
        Err(DataFusionError::SchemaError(Box::new(error), Box::new(None)))
    })?;
    Ok(())
}
