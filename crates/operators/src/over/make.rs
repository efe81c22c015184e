//! The table of running functions: what each returns, and how it is made.

use arrow_schema::{DataType, Field, Schema};
use tidemill_core::error::Cause;

use super::dense_rank::DenseRank;
use super::function::{Input, RunningFunction};
use super::lag::Lag;
use super::last_value::LastValue;
use super::nth_value::NthValue;
use super::rank::Rank;
use super::row_number::RowNumber;
use super::spec::{Function, FunctionSpec, RunningAggregate};
use super::{avg, count, extreme, sum};

/// The output column of a function.
pub(super) fn result_field(spec: &FunctionSpec, schema: &Schema) -> Result<Field, Cause> {
    let of = |column: usize| schema.field(column).data_type().clone();
    let (data_type, nullable) = match &spec.function {
        Function::RowNumber | Function::Rank | Function::DenseRank => (DataType::UInt64, false),
        Function::Lag { column, .. }
        | Function::FirstValue { column, .. }
        | Function::LastValue { column, .. }
        | Function::NthValue { column, .. } => (of(*column), true),
        Function::Aggregate { aggregate, column, .. } => {
            let argument = column.map(of);
            match aggregate {
                RunningAggregate::Count => (DataType::Int64, false),
                RunningAggregate::Sum => (sum::result_type(&wanted(argument)?)?, true),
                RunningAggregate::Avg => (avg::result_type(&wanted(argument)?)?, true),
                RunningAggregate::Min | RunningAggregate::Max => (wanted(argument)?, true),
            }
        }
    };
    Ok(Field::new(&spec.name, data_type, nullable))
}

/// A fresh function.
pub(super) fn make(function: &Function, schema: &Schema) -> Result<Box<dyn RunningFunction>, Cause> {
    let of = |column: usize| schema.field(column).data_type().clone();
    Ok(match function {
        Function::RowNumber => Box::new(RowNumber::default()),
        Function::Rank => Box::new(Rank::default()),
        Function::DenseRank => Box::new(DenseRank::default()),
        Function::Lag { column, rows, default } => {
            Box::new(Lag::new(*column, &of(*column), *rows, default.clone())?)
        }
        Function::FirstValue { column, frame } => Box::new(NthValue::new(*column, &of(*column), 1, *frame)?),
        Function::NthValue { column, n, frame } => {
            Box::new(NthValue::new(*column, &of(*column), *n, *frame)?)
        }
        Function::LastValue { column, frame } => Box::new(LastValue::new(*column, *frame)),
        Function::Aggregate { aggregate, column, filter, frame } => {
            let argument = column.map(of);
            let input = Input { column: *column, filter: *filter, frame: *frame };
            match aggregate {
                RunningAggregate::Count => count::make(input),
                RunningAggregate::Sum => sum::make(input, &wanted(argument)?)?,
                RunningAggregate::Avg => avg::make(input, &wanted(argument)?)?,
                RunningAggregate::Min => extreme::make(input, &wanted(argument)?, false)?,
                RunningAggregate::Max => extreme::make(input, &wanted(argument)?, true)?,
            }
        }
    })
}

fn wanted(argument: Option<DataType>) -> Result<DataType, Cause> {
    argument.ok_or_else(|| Cause::bug("only COUNT has no argument"))
}
