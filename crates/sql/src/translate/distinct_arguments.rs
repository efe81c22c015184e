//! `count(DISTINCT a, b)`: the number of combinations of values. It is computed as the count of one value that holds
//! all of them, because neither our functions nor DataFusion's count several.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::functions::core::r#struct;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, when};

use tidemill_trees::nodes::{PlanTree, Tree};

/// The same call with one argument, if it is such a count. As for `count(a, b)`, a combination that contains NULL does
/// not count.
pub(crate) fn with_one_argument(call: &AggregateFunction) -> Result<Option<AggregateFunction>> {
    if !call.params.distinct || call.func.name() != "count" || call.params.args.len() < 2 {
        return Ok(None);
    }
    let arguments = call.params.args.clone();
    let Some(all_are_there) = conjunction(arguments.iter().cloned().map(Expr::is_not_null)) else {
        return Ok(None);
    };
    let combined = when(all_are_there, r#struct().call(arguments)).end()?;
    let mut one = call.clone();
    one.params.args = vec![combined];
    Ok(Some(one))
}

/// A plan for DataFusion in which all such counts have one argument.
pub(crate) fn in_plan(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.rewrite_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.rewrite_expressions(|expression| {
            let name = names.save(&expression);
            let replaced = expression.rewrite_up(|part| {
                let Expr::AggregateFunction(call) = &part else { return Ok(Transformed::no(part)) };
                Ok(match with_one_argument(call)? {
                    Some(one) => Transformed::yes(Expr::AggregateFunction(one)),
                    None => Transformed::no(part),
                })
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
