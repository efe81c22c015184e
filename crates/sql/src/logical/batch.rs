//! Prepares a plan before DataFusion answers it over tables in memory, so that its answer equals that of streams.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, SortExpr, lit};

use super::datafusion_repairs::arithmetic::with_checks;
use super::datafusion_repairs::floats::{as_key, with_one_nan};
use super::datafusion_repairs::opaque::{with_opaque, with_plain_keys};
use super::datafusion_repairs::order_of_inputs::{ALL_ROWS, with_order_of_inputs};
use super::limits::bounded_operators::with_bounds_and_constants;
use super::totals::exact_totals::with_exact_totals;
use crate::aggregates::native_aggregate::native_aggregate;
use crate::aggregates::own_aggregate::OwnAggregate;
use tidemill_trees::nodes::{PlanTree, Tree};

/// The plan, guarded against cases in which DataFusion has other semantics or is wrong.
pub(crate) fn for_batch(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = with_bounds_and_constants(with_order_of_inputs(plan)?)?;
    let plan = with_exact_totals(with_own_aggregates(with_float_keys(with_limits(plan)?)?)?)?;
    with_one_nan(with_plain_keys(with_opaque(with_checks(plan)?)?)?)
}

/// The plan with -0 as 0 where distinct values are counted.
pub(crate) fn with_distinct_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    over_inputs(plan, |node, schema| {
        with_names(node, |mut part| {
            let (is_distinct, args) = match &mut part {
                // Sums and means see to it themselves.
                Expr::AggregateFunction(call) if call.func.name() == "count" => {
                    (call.params.distinct, &mut call.params.args)
                }
                Expr::WindowFunction(call) if call.fun.name() == "count" => {
                    (call.params.distinct, &mut call.params.args)
                }
                _ => return Ok(Transformed::no(part)),
            };
            if !is_distinct {
                return Ok(Transformed::no(part));
            }
            *args = std::mem::take(args).into_iter().map(|arg| as_key(arg, schema)).collect();
            Ok(Transformed::yes(part))
        })
    })
}

/// The plan with a LIMIT where OFFSET has none. DataFusion 55 removes the order of a subquery below an OFFSET alone, and other
/// rows are skipped.
fn with_limits(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.rewrite_up_with_subqueries(|node| match node {
        LogicalPlan::Limit(mut limit) if limit.skip.is_some() && limit.fetch.is_none() => {
            limit.fetch = Some(Box::new(lit(ALL_ROWS)));
            Ok(Transformed::yes(LogicalPlan::Limit(limit)))
        }
        node => Ok(Transformed::no(node)),
    })
    .data()
}

/// The plan with -0 as 0 where rows are ordered, or partitioned for window functions.
fn with_float_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    over_inputs(plan, |node, schema| match node {
        LogicalPlan::Sort(mut sort) => {
            sort.expr.iter_mut().for_each(|order| order_by_key(order, schema));
            Ok(Transformed::yes(LogicalPlan::Sort(sort)))
        }
        LogicalPlan::Window(_) => with_names(node, |part| {
            let Expr::WindowFunction(mut call) = part else { return Ok(Transformed::no(part)) };
            divide_by_keys(&mut call, schema);
            Ok(Transformed::yes(Expr::WindowFunction(call)))
        }),
        other => Ok(Transformed::no(other)),
    })
}

fn divide_by_keys(call: &mut WindowFunction, schema: &DFSchema) {
    let params = &mut call.params;
    params.partition_by = params.partition_by.drain(..).map(|key| as_key(key, schema)).collect();
    params.order_by.iter_mut().for_each(|order| order_by_key(order, schema));
}

fn order_by_key(order: &mut SortExpr, schema: &DFSchema) {
    order.expr = as_key(std::mem::take(&mut order.expr), schema);
}

/// The plan with our aggregates in place of those of DataFusion (55.2) whose answers differ: its grouped `min` and
/// `max` depend on the position of NaN among the rows and miss infinities, its sums wrap around, its means of decimals
/// are truncated, and it converts whole numbers to floating-point numbers before it averages them.
fn with_own_aggregates(plan: LogicalPlan) -> Result<LogicalPlan> {
    over_inputs(plan, |node, schema| match node {
        LogicalPlan::Aggregate(_) => with_names(node, |part| match &part {
            Expr::AggregateFunction(call) => match own_call(call, schema)? {
                Some(own) => Ok(Transformed::yes(Expr::AggregateFunction(own))),
                None => Ok(Transformed::no(part)),
            },
            _ => Ok(Transformed::no(part)),
        }),
        other => Ok(Transformed::no(other)),
    })
}

fn own_call(call: &AggregateFunction, schema: &DFSchema) -> Result<Option<AggregateFunction>> {
    let params = &call.params;
    let [argument] = params.args.as_slice() else { return Ok(None) };
    if params.distinct || !params.order_by.is_empty() || params.null_treatment.is_some() {
        return Ok(None);
    }
    let data_type = argument.get_type(schema)?;
    let wanted = match call.func.name() {
        "min" | "max" => data_type.is_floating(),
        "sum" => data_type.is_integer() || data_type.is_decimal(),
        "avg" => data_type.is_decimal() || is_made_floating(argument, schema)?,
        _ => false,
    };
    let Some((function, args)) =
        wanted.then(|| native_aggregate(call.func.name(), argument, schema)).transpose()?.flatten()
    else {
        return Ok(None);
    };
    if function.result_type() != Expr::AggregateFunction(call.clone()).get_type(schema)? {
        return Ok(None);
    }
    let func = Arc::new(OwnAggregate::of_any(call.func.name(), args.len(), function));
    Ok(Some(AggregateFunction { func, params: AggregateFunctionParams { args, ..params.clone() } }))
}

/// Whether it is an integer cast to a floating-point number, as DataFusion casts the arguments of means.
fn is_made_floating(argument: &Expr, schema: &DFSchema) -> Result<bool> {
    Ok(match argument {
        Expr::Cast(Cast { expr, field }) => {
            field.data_type().is_floating() && expr.get_type(schema)?.is_integer()
        }
        _ => false,
    })
}

/// Rewrites the nodes of a plan, given the columns of their inputs.
fn over_inputs(
    plan: LogicalPlan,
    rewritten: impl Fn(LogicalPlan, &DFSchema) -> Result<Transformed<LogicalPlan>>,
) -> Result<LogicalPlan> {
    plan.rewrite_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        rewritten(node, &schema)
    })
    .data()
}

/// Rewrites the expressions of a node; each keeps its name.
fn with_names(
    node: LogicalPlan,
    rewritten: impl Fn(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&node);
    node.rewrite_expressions(|expression| {
        let name = names.save(&expression);
        let done = expression.rewrite_up(&rewritten)?;
        Ok(done.update_data(|expression| name.restore(expression)))
    })
}
