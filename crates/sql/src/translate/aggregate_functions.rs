//! Aggregate functions by name: our own if they stream best, otherwise DataFusion's.

use std::sync::Arc;

use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Expr, ExprSchemable};
use tidemill_operators::aggregate::{Count, CountDistinct};
use tidemill_operators::{Aggregate, AggregateCall, AggregateSpec};

use crate::aggregates::native_aggregate::{native_aggregate, unfit};
use crate::refusal::refuse;
use crate::translate::foreign_aggregate::ForeignAggregate;

/// A function with the expressions of its arguments.
pub(super) struct Call {
    pub function: Arc<dyn Aggregate>,
    pub arguments: Vec<Expr>,
}

/// The function of a call. A `count(DISTINCT ...)` holds at most `values_max` values in a partition.
pub(super) fn call_of(call: &AggregateFunction, schema: &DFSchema, values_max: usize) -> Result<Call> {
    let one = crate::translate::distinct_arguments::with_one_argument(call)?;
    let call = one.as_ref().unwrap_or(call);
    let params = &call.params;
    let name = call.func.name();
    if let Some(own) = crate::aggregates::own_aggregate::own(&call.func) {
        return Ok(Call { function: own, arguments: params.args.clone() });
    }
    let native = match (name, params.args.as_slice()) {
        ("count", [argument]) if params.distinct => {
            let data_type = argument.get_type(schema)?;
            let function = CountDistinct::new(&data_type, values_max).map_err(unfit)?;
            Some((Arc::new(function) as Arc<dyn Aggregate>, vec![argument.clone()]))
        }
        ("min" | "max", [argument]) => native_aggregate(name, argument, schema)?,
        _ if params.distinct => None,
        ("count", [Expr::Literal(value, _)]) if !value.is_null() => {
            Some((Arc::new(Count::rows()) as Arc<dyn Aggregate>, Vec::new()))
        }
        (_, [argument]) => native_aggregate(name, argument, schema)?,
        _ => None,
    };
    let native = native.filter(|_| params.order_by.is_empty() && params.null_treatment.is_none());
    match native {
        Some((function, arguments)) => Ok(Call { function, arguments }),
        None => {
            let function = ForeignAggregate::new(call, schema)?;
            let arguments = function.arguments().to_vec();
            Ok(Call { function: Arc::new(function), arguments })
        }
    }
}

/// The index of an expression among the computed ones; adds it if it is missing.
pub(super) fn place(wanted: &mut Vec<Expr>, expression: &Expr) -> usize {
    let expression = expression.clone().unalias();
    wanted.iter().position(|known| *known == expression).unwrap_or_else(|| {
        wanted.push(expression);
        wanted.len() - 1
    })
}

/// A call with its arguments among the computed columns.
pub(super) fn aggregate_call(
    expression: &Expr,
    schema: &DFSchema,
    wanted: &mut Vec<Expr>,
    values_max: usize,
) -> Result<AggregateCall> {
    let function = aggregate_function(expression)?;
    let filter = function.params.filter.as_deref().map(|filter| place(wanted, filter));
    let Call { function, arguments } = call_of(&function, schema, values_max)?;
    let arguments = arguments.iter().map(|argument| place(wanted, argument)).collect();
    Ok(AggregateCall { function, arguments, filter })
}

pub(super) fn aggregate_function(expression: &Expr) -> Result<AggregateFunction> {
    match expression.clone().unalias() {
        Expr::AggregateFunction(function) => Ok(function),
        other => Err(refuse(format!("'{other}' is not an aggregate function"), "remove it")),
    }
}

pub(super) fn describe(spec: &AggregateSpec, kind: &str) -> String {
    let calls: Vec<&str> = spec.calls.iter().map(|call| call.function.name()).collect();
    let keys: Vec<&str> = spec.names[..spec.keys.len()].iter().map(String::as_str).collect();
    format!("aggregate {kind}: {} by ({})", calls.join(", "), keys.join(", "))
}

/// Whether the arguments of an aggregate have an order, beside that of WITHIN GROUP.
pub(super) fn has_order(expression: &Expr) -> bool {
    let Ok(function) = aggregate_function(expression) else { return false };
    !function.params.order_by.is_empty() && !function.func.supports_within_group_clause()
}
