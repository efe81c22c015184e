//! Our aggregate functions, by the names that SQL gives them.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable};
use tidemill_engine::Cause;
use tidemill_operators::Aggregate;
use tidemill_operators::aggregate::{Average, Count, Extreme, Spread, Sum, Variance};

use crate::refusal::refuse;
use crate::text::wording::sql_types;

/// A function with the expressions of its arguments, if we have it.
type Native = Option<(Arc<dyn Aggregate>, Vec<Expr>)>;

/// The function of this name over one argument, and the argument that it takes.
pub(crate) fn native_aggregate(name: &str, argument: &Expr, schema: &DFSchema) -> Result<Native> {
    // DataFusion casts to floating point before it averages; whole numbers are summed exactly without.
    let uncast = match argument {
        Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Float64 => {
            if expr.get_type(schema)?.is_integer() { expr.as_ref().clone() } else { argument.clone() }
        }
        other => other.clone(),
    };
    let data_type = argument.get_type(schema)?;
    let spread = |spread| -> Result<Native> {
        let function = Variance::new(spread, &uncast.get_type(schema)?).map_err(unfit)?;
        Ok(Some((Arc::new(function), vec![uncast.clone()])))
    };
    let one = |function: Arc<dyn Aggregate>| Ok(Some((function, vec![argument.clone()])));
    match name {
        "count" => one(Arc::new(Count::values())),
        "sum" => one(Arc::new(Sum::new(&data_type).map_err(unfit)?)),
        "avg" => {
            let function = Average::new(&uncast.get_type(schema)?).map_err(unfit)?;
            Ok(Some((Arc::new(function), vec![uncast])))
        }
        "min" => one(Arc::new(Extreme::minimum(&data_type).map_err(unfit)?)),
        "max" => one(Arc::new(Extreme::maximum(&data_type).map_err(unfit)?)),
        "var" | "var_samp" => spread(Spread::SampleVariance),
        "var_pop" => spread(Spread::PopulationVariance),
        "stddev" | "stddev_samp" => spread(Spread::SampleDeviation),
        "stddev_pop" => spread(Spread::PopulationDeviation),
        _ => Ok(None),
    }
}

/// An argument whose type a function does not take.
pub(crate) fn unfit(cause: Cause) -> datafusion::common::DataFusionError {
    refuse(sql_types(&cause.to_string()), "cast the argument to a type that the function accepts")
}
