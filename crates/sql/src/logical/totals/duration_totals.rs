//! Sums and means of durations. DataFusion (55.2) adds nanoseconds in 64 bits, and begins again from below after 292 years: a million trips
//! of three hours are 342 years. They are added as whole numbers, whose sums are exact or refused.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams, WindowFunction};
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, cast};

use crate::logical::datafusion_repairs::arithmetic::rewrite;
use crate::refusal::refuse;
use tidemill_trees::nodes::PlanTree;

/// Holds all nanoseconds of a duration; its mean has a fraction.
const WHOLE: DataType = DataType::Decimal128(20, 0);

/// The plan in which durations are added as whole numbers.
///
/// # Errors
/// If it adds intervals, or durations in a function with `OVER`.
pub(crate) fn with_exact_durations(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = plan.rewrite_up_with_subqueries(|node| match node {
        LogicalPlan::Aggregate(aggregate) => added_as_numbers(aggregate),
        other => Ok(Transformed::no(other)),
    });
    rewrite(plan.data()?, |part, schema| {
        check(&part, schema)?;
        Ok(Transformed::no(part))
    })
}

fn added_as_numbers(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let exprs = aggregate.aggr_expr.iter().map(|expr| as_number(expr, aggregate.input.schema()));
    let numbers: Vec<Option<(Expr, DataType)>> = exprs.collect();
    if numbers.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let calls = aggregate.aggr_expr.iter().zip(&numbers);
    let calls = calls.map(|(call, number)| number.as_ref().map_or(call, |(call, _)| call).clone()).collect();
    let input = Arc::clone(&aggregate.input);
    let added = Aggregate::try_new(input, aggregate.group_expr.clone(), calls)?;
    let first = added.schema.fields().len() - numbers.len();
    let column = |index: usize| {
        let value = Expr::Column(Column::from(added.schema.qualified_field(index)));
        let Some((_, duration)) = index.checked_sub(first).and_then(|call| numbers[call].as_ref()) else {
            return value;
        };
        let (qualifier, field) = aggregate.schema.qualified_field(index);
        let duration = cast(cast(value, DataType::Int64), duration.clone());
        duration.alias_qualified(qualifier.cloned(), field.name())
    };
    let columns: Vec<Expr> = (0..added.schema.fields().len()).map(column).collect();
    let added = LogicalPlanBuilder::from(LogicalPlan::Aggregate(added)).project(columns)?.build()?;
    Ok(Transformed::yes(added))
}

/// The sum or mean of a duration as that of its nanoseconds, or whatever its unit is, and its type; `None` if it is something else.
fn as_number(expr: &Expr, schema: &DFSchema) -> Option<(Expr, DataType)> {
    let Expr::AggregateFunction(AggregateFunction { func, params }) = expr.clone().unalias() else {
        return None;
    };
    let [value] = params.args.as_slice() else { return None };
    let data_type =
        value.get_type(schema).ok().filter(|data_type| matches!(data_type, DataType::Duration(_)))?;
    let number = cast(value.clone(), DataType::Int64);
    let number = match func.name() {
        "sum" => number,
        "avg" => cast(number, WHOLE),
        _ => return None,
    };
    let params = AggregateFunctionParams { args: vec![number], ..params };
    Some((Expr::AggregateFunction(AggregateFunction { func, params }), data_type))
}

fn check(part: &Expr, schema: &DFSchema) -> Result<()> {
    let (name, args, is_over) = match part {
        Expr::AggregateFunction(AggregateFunction { func, params }) => (func.name(), &params.args, false),
        Expr::WindowFunction(call) => {
            let WindowFunction { fun, params } = call.as_ref();
            (fun.name(), &params.args, true)
        }
        _ => return Ok(()),
    };
    let is_wrong = |data_type: &DataType| match data_type {
        DataType::Interval(_) => true,
        DataType::Duration(_) => is_over,
        _ => false,
    };
    let is_total = name == "sum" || name == "avg";
    if is_total && args.iter().any(|argument| argument.get_type(schema).is_ok_and(|it| is_wrong(&it))) {
        Err(refuse(
            format!("{name} of intervals would begin again from below after 292 years"),
            &format!("add their lengths in seconds: {name}(extract(epoch FROM interval))"),
        ))
    } else {
        Ok(())
    }
}
