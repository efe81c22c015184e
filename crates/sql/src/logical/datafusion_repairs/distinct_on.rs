//! DISTINCT ON as an aggregate: for each key, the first values in the specified order. DataFusion's own rule for it
//! (55.2) panics if the optimiser has no registry of functions, like ours.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr_rewriter::normalize_cols;
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder,
};

use tidemill_trees::nodes::PlanTree;

/// The plan without DISTINCT ON.
pub(crate) fn without_distinct_on(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.rewrite_up_with_subqueries(|node| match node {
        LogicalPlan::Distinct(Distinct::On(on)) => Ok(Transformed::yes(aggregated(on)?)),
        other => Ok(Transformed::no(other)),
    })
    .data()
}

fn aggregated(on: DistinctOn) -> Result<LogicalPlan> {
    let DistinctOn { on_expr, select_expr, sort_expr, input, schema } = on;
    let keys = on_expr.len();
    let first = |value: Expr| {
        let first = first_value_udaf().call(vec![value]);
        match &sort_expr {
            Some(order) => first.order_by(order.clone()).build(),
            None => Ok(first),
        }
    };
    let firsts = select_expr.into_iter().map(first).collect::<Result<Vec<_>>>()?;
    let firsts = normalize_cols(firsts, input.as_ref())?;
    let groups = normalize_cols(on_expr, input.as_ref())?;
    let aggregate = LogicalPlan::Aggregate(Aggregate::try_new(input, groups, firsts)?);
    // The names are those that were selected.
    let columns = aggregate.schema().columns();
    let named = columns.into_iter().skip(keys).zip(schema.iter()).map(|(column, (qualifier, field))| {
        Expr::Column(column).alias_qualified(qualifier.cloned(), field.name())
    });
    let named: Vec<Expr> = named.collect();
    let builder = LogicalPlanBuilder::from(aggregate);
    // DISTINCT ON gives its rows in the order of the keys, if any is asked for.
    let builder = match sort_expr {
        Some(order) => builder.sort(order.into_iter().take(keys))?,
        None => builder,
    };
    builder.project(named)?.build()
}
