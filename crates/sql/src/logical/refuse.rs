//! What no replay could repeat is refused.

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};

use super::functions::{CURRENT_DATE, CURRENT_TIME, NOW};
use crate::refusal::refuse;

/// Checks that every function gives the same answer in every run over the same input.
pub(crate) fn check_repeatable(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|part| {
                if let Expr::ScalarFunction(call) = part {
                    let name = call.func.name();
                    let ours = [NOW, CURRENT_DATE, CURRENT_TIME].contains(&name);
                    if call.func.signature().volatility == Volatility::Volatile && !ours {
                        return Err(refuse(
                            format!(
                                "{name}() gives another value in every run, so no replay after a crash could repeat \
                                 the query's results"
                            ),
                            "let the source carry the value as a column, or derive one from the row's own columns \
                             (for instance md5 of its key)",
                        ));
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(())
}
