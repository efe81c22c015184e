//! Clauses of aggregates that DataFusion (55.2) handles wrongly: it panics where groups have an aggregate with an order that cannot change
//! the answer (`count(v ORDER BY i)`), and ignores some DISTINCT.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::arithmetic::rewrite;
use super::floats::as_value;
use crate::aggregates::of_distinct::{of_distinct, shows_order};

/// Aggregates that give the same for any order of rows.
const INSENSITIVE: [&str; 36] = [
    "approx_distinct",
    "approx_median",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "grouping",
    "max",
    "median",
    "min",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "var",
    "var_pop",
    "var_population",
    "var_samp",
    "var_sample",
    "variance",
    "covar",
];

/// Returns the plan without such orders.
pub(crate) fn without_useless_orders(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |mut part, _| match &mut part {
        Expr::AggregateFunction(call)
            if !call.params.order_by.is_empty() && INSENSITIVE.contains(&call.func.name()) =>
        {
            call.params.order_by.clear();
            Ok(Transformed::yes(part))
        }
        _ => Ok(Transformed::no(part)),
    })
}

/// Returns the plan in which each DISTINCT counts.
pub(crate) fn with_distinct_arguments(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |mut part, schema| match &mut part {
        Expr::AggregateFunction(call) if call.params.distinct => {
            if shows_order(&call.func) && !call.params.order_by.is_empty() {
                return Ok(Transformed::no(part));
            }
            if shows_order(&call.func) {
                let args = std::mem::take(&mut call.params.args).into_iter();
                call.params.args = args.map(|argument| as_value(argument, schema)).collect();
            }
            match of_distinct(&call.func, call.params.args.len()) {
                Some(function) => {
                    (call.func, call.params.distinct) = (function, false);
                    Ok(Transformed::yes(part))
                }
                None => Ok(Transformed::no(part)),
            }
        }
        _ => Ok(Transformed::no(part)),
    })
}
