//! ORDER BY in a view or in a subquery of FROM. DataFusion (55.2) sorts only where the whole query does, or where a LIMIT counts the sorted
//! rows; the standard allows that, but no one who writes it expects it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::logical_expr::{Aggregate, Distinct, Expr, Limit, LogicalPlan, lit};

use tidemill_trees::nodes::Tree;

/// More rows than any input has.
pub(crate) const ALL_ROWS: i64 = 1 << 62;

/// Aggregates whose values depend on the order of the rows.
const IN_ORDER: [&str; 5] = ["array_agg", "first_value", "last_value", "nth_value", "string_agg"];

/// The plan that sorts such inputs where their order shows: in the rows of the answer, and in aggregates that depend on it.
pub(crate) fn with_order_of_inputs(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !has_sort(&plan)? {
        return Ok(plan);
    }
    // The order of the whole query is kept anyway.
    let shows = shows_below(&plan, true)?;
    plan.rewrite_children(|input| Ok(Transformed::yes(limited(input, shows)?))).data()
}

/// The plan with a LIMIT of all rows around the orders that show.
fn limited(plan: LogicalPlan, shows: bool) -> Result<LogicalPlan> {
    let is_kept = matches!(&plan, LogicalPlan::Sort(sort) if shows && sort.fetch.is_none());
    let below = shows_below(&plan, shows)?;
    let plan = plan.rewrite_children(|input| Ok(Transformed::yes(limited(input, below)?))).data()?;
    Ok(if is_kept {
        LogicalPlan::Limit(Limit { skip: None, fetch: Some(Box::new(lit(ALL_ROWS))), input: Arc::new(plan) })
    } else {
        plan
    })
}

/// The plan without orders that do not show: a stream need not be sorted for them.
pub(crate) fn without_hidden_orders(plan: LogicalPlan) -> Result<LogicalPlan> {
    if has_sort(&plan)? { ordered(plan, true) } else { Ok(plan) }
}

fn has_sort(plan: &LogicalPlan) -> Result<bool> {
    plan.contains(|node| Ok(matches!(node, LogicalPlan::Sort(_))))
}

fn ordered(plan: LogicalPlan, shows: bool) -> Result<LogicalPlan> {
    let below = shows_below(&plan, shows)?;
    match plan {
        LogicalPlan::Sort(sort) if !shows => ordered(Arc::unwrap_or_clone(sort.input), false),
        plan => plan.rewrite_children(|input| Ok(Transformed::yes(ordered(input, below)?))).data(),
    }
}

/// Whether the order of a node's input shows, if that of its own rows does.
fn shows_below(plan: &LogicalPlan, shows: bool) -> Result<bool> {
    Ok(match plan {
        LogicalPlan::Projection(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::Subquery(_) => shows,
        LogicalPlan::Limit(_) | LogicalPlan::Distinct(Distinct::On(_)) => true,
        LogicalPlan::Aggregate(aggregate) => depends_on_order(aggregate)?,
        _ => false,
    })
}

fn depends_on_order(aggregate: &Aggregate) -> Result<bool> {
    let depends = aggregate.aggr_expr.iter().map(|expression| {
        expression.contains(|part| {
            Ok(matches!(part, Expr::AggregateFunction(call) if IN_ORDER.contains(&call.func.name())))
        })
    });
    Ok(depends.collect::<Result<Vec<_>>>()?.contains(&true))
}
