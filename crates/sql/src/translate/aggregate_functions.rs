//! Aggregate functions by name: our own if they stream best, otherwise DataFusion's.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable};
use tidemill_engine::Cause;
use tidemill_operators::Aggregate;
use tidemill_operators::aggregate::{Average, Count, CountDistinct, Extreme, Spread, Sum, Variance};

use super::refuse;
use crate::foreign_aggregate::ForeignAggregate;

/// A function with the expressions of its arguments.
pub(super) struct Call {
    pub function: Arc<dyn Aggregate>,
    pub arguments: Vec<Expr>,
}

/// The function of a call. A `count(DISTINCT ...)` holds at most `values_max` values in a partition.
pub(super) fn call_of(call: &AggregateFunction, schema: &DFSchema, values_max: usize) -> Result<Call> {
    let one = crate::distinct_arguments::with_one_argument(call)?;
    let call = one.as_ref().unwrap_or(call);
    let params = &call.params;
    let name = call.func.name();
    if let Some(own) = crate::own_aggregate::own(&call.func) {
        return Ok(Call { function: own, arguments: params.args.clone() });
    }
    let native = match (name, params.args.as_slice()) {
        ("count", [argument]) if params.distinct => {
            let data_type = argument.get_type(schema)?;
            let function = CountDistinct::new(&data_type, values_max).map_err(user)?;
            Some((Arc::new(function) as Arc<dyn Aggregate>, vec![argument.clone()]))
        }
        ("min" | "max", [argument]) => own_function(name, argument, schema)?,
        _ if params.distinct => None,
        ("count", [Expr::Literal(value, _)]) if !value.is_null() => {
            Some((Arc::new(Count::rows()) as Arc<dyn Aggregate>, Vec::new()))
        }
        (_, [argument]) => own_function(name, argument, schema)?,
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

type Own = Option<(Arc<dyn Aggregate>, Vec<Expr>)>;

/// One of our functions, and its argument.
pub(crate) fn own_function(name: &str, argument: &Expr, schema: &DFSchema) -> Result<Own> {
    // DataFusion casts to floating point before it averages; whole numbers are summed exactly without.
    let uncast = match argument {
        Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Float64 => {
            match expr.get_type(schema)?.is_integer() {
                true => expr.as_ref().clone(),
                false => argument.clone(),
            }
        }
        other => other.clone(),
    };
    let data_type = argument.get_type(schema)?;
    let spread = |spread| -> Result<Own> {
        let function = Variance::new(spread, &uncast.get_type(schema)?).map_err(user)?;
        Ok(Some((Arc::new(function), vec![uncast.clone()])))
    };
    let one = |function: Arc<dyn Aggregate>| Ok(Some((function, vec![argument.clone()])));
    match name {
        "count" => one(Arc::new(Count::values())),
        "sum" => one(Arc::new(Sum::new(&data_type).map_err(user)?)),
        "avg" => {
            let function = Average::new(&uncast.get_type(schema)?).map_err(user)?;
            Ok(Some((Arc::new(function), vec![uncast])))
        }
        "min" => one(Arc::new(Extreme::minimum(&data_type).map_err(user)?)),
        "max" => one(Arc::new(Extreme::maximum(&data_type).map_err(user)?)),
        "var" | "var_samp" => spread(Spread::SampleVariance),
        "var_pop" => spread(Spread::PopulationVariance),
        "stddev" | "stddev_samp" => spread(Spread::SampleDeviation),
        "stddev_pop" => spread(Spread::PopulationDeviation),
        _ => Ok(None),
    }
}

fn user(cause: Cause) -> datafusion::common::DataFusionError {
    refuse(cause.to_string(), "cast the argument to a type that the function takes")
}
