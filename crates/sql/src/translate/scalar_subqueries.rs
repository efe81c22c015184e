//! Scalar subqueries: `WHERE price > (SELECT avg(price) FROM prices)`. Over tables that do not change, the value is
//! known before the query runs.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use tidemill_engine::MemoryBudget;

use super::changelog::KEEP_UP_TO_DATE;
use super::read_as_tables::read_whole;
use super::refuse;
use super::static_table::could_be_static;
use crate::turns::Turns;
use tidemill_trees::nodes::{PlanTree, Tree};

/// The plan with the values of such subqueries in their place.
pub(crate) fn read_scalar_subqueries(
    plan: LogicalPlan,
    memory: &MemoryBudget,
    turns: &dyn Turns,
) -> Result<LogicalPlan> {
    plan.rewrite_down(|node| {
        let names = NamePreserver::new(&node);
        node.rewrite_expressions(|expression| {
            let name = names.save(&expression);
            let replaced = expression.rewrite_up(|part| match &part {
                Expr::ScalarSubquery(subquery) if is_known(subquery) => {
                    Ok(Transformed::yes(Expr::Literal(value(subquery, memory, turns)?, None)))
                }
                _ => Ok(Transformed::no(part)),
            })?;
            Ok(if replaced.transformed {
                replaced.update_data(|expression| name.restore(expression))
            } else {
                replaced
            })
        })
    })
    .data()
}

/// Refuses remaining scalar subqueries: while a stream continues, no row could wait for the value.
pub(super) fn refuse_subqueries(plan: &LogicalPlan) -> Result<()> {
    plan.look_through(|node| {
        node.look_through_expressions(|expression| {
            if expression.contains(|part| Ok(is_subquery(part)))? {
                Err(refuse(
                    "a scalar subquery must not change, but what this one reads changes while the query runs",
                    KEEP_UP_TO_DATE,
                ))
            } else {
                Ok(TreeNodeRecursion::Continue)
            }
        })
    })
    .map(|_| ())
}

fn is_subquery(expression: &Expr) -> bool {
    matches!(expression, Expr::ScalarSubquery(_))
}

/// Whether a subquery's value can be known before the query runs.
fn is_known(subquery: &Subquery) -> bool {
    subquery.outer_ref_columns.is_empty() && could_be_static(&subquery.subquery)
}

fn value(subquery: &Subquery, memory: &MemoryBudget, turns: &dyn Turns) -> Result<ScalarValue> {
    // It may have such subqueries itself.
    let plan = read_scalar_subqueries(subquery.subquery.as_ref().clone(), memory, turns)?;
    let rows = read_whole(&plan, memory, turns)?;
    match rows.num_rows() {
        0 => ScalarValue::try_from(rows.schema().field(0).data_type()),
        1 => ScalarValue::try_from_array(rows.column(0), 0),
        more => Err(refuse(
            format!("a scalar subquery must return one row, but this one returns {more}"),
            "select one of them with max() or LIMIT 1",
        )),
    }
}
