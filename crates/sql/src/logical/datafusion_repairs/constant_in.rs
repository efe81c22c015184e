//! `5 IN (a, b)`: for a constant, DataFusion (55.2) takes a NULL among computed values for a value that is not equal, so that the answer
//! is false where it is unknown, and `NOT IN` finds rows. So the constant is compared with one value after the other.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, binary_expr};

use super::arithmetic::rewrite;

/// The plan without such lists.
pub(crate) fn with_constants_compared(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |part, _| match part {
        Expr::InList(InList { expr, list, negated }) if is_wrong(&expr, &list) => {
            let (compare, join) =
                if negated { (Operator::NotEq, Operator::And) } else { (Operator::Eq, Operator::Or) };
            let compared = list.into_iter().map(|value| binary_expr(expr.as_ref().clone(), compare, value));
            Ok(Transformed::yes(joined(compared.collect(), join)))
        }
        part => Ok(Transformed::no(part)),
    })
}

fn is_wrong(expr: &Expr, list: &[Expr]) -> bool {
    let is_computed = |value: &Expr| !matches!(value, Expr::Literal(..));
    expr.column_refs().is_empty() && list.iter().any(is_computed)
}

/// All conditions in one, by halves: a chain of them could be too deep.
fn joined(mut conditions: Vec<Expr>, join: Operator) -> Expr {
    match conditions.len() {
        0 | 1 => conditions.pop().unwrap_or_default(),
        count => {
            let rest = conditions.split_off(count / 2);
            binary_expr(joined(conditions, join), join, joined(rest, join))
        }
    }
}
