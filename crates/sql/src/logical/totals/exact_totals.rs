//! Sums and means that DataFusion computes: with DISTINCT, and in frames. They get the same meaning as in streams.
//!
//! DataFusion (seen in 55.2) lets sums of integers and decimals wrap around, truncates means of decimals, and converts
//! integers to floating-point numbers before it averages them. In a moving frame it subtracts the floating-point
//! numbers that leave the frame. So the sum stays NaN after an infinity, and a large number erases small ones. It adds
//! distinct floating-point numbers in the order of a hash table, and treats -0 and 0 as two values.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Cast, Expr, ExprSchemable, GroupsAccumulator, LogicalPlan,
    Signature, Volatility, WindowFunctionDefinition,
};

use super::distinct_floats::DistinctFloats;
use super::exact_total::ExactTotal;
use super::moving_floats::MovingFloats;
use super::total_kind::TotalKind;
use crate::logical::datafusion_repairs::arithmetic::rewrite;

/// The plan with our sums and means, in subqueries too.
pub(crate) fn with_exact_totals(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |mut expression, schema| {
        let replaced = match &mut expression {
            Expr::AggregateFunction(call) => {
                exact_total(&call.func, &mut call.params.args, schema)?.map(|function| call.func = function)
            }
            Expr::WindowFunction(call) => match &call.fun {
                WindowFunctionDefinition::AggregateUDF(function) => {
                    exact_total(function, &mut call.params.args, schema)?
                        .map(|function| call.fun = WindowFunctionDefinition::AggregateUDF(function))
                }
                WindowFunctionDefinition::WindowUDF(_) => None,
            },
            _ => None,
        };
        Ok(match replaced {
            Some(()) => Transformed::yes(expression),
            None => Transformed::no(expression),
        })
    })
}

/// The function that replaces DataFusion's `sum` or `avg`. Arguments that were converted to floating-point numbers for
/// a mean become integers again.
pub(crate) fn exact_total(
    function: &AggregateUDF,
    arguments: &mut [Expr],
    schema: &DFSchema,
) -> Result<Option<Arc<AggregateUDF>>> {
    let kind = match function.inner().as_ref() {
        inner if inner.is::<Sum>() => TotalKind::Sum,
        inner if inner.is::<Avg>() => TotalKind::Mean,
        _ => return Ok(None),
    };
    if let (TotalKind::Mean, [argument]) = (kind, arguments)
        && let Expr::Cast(Cast { expr, field }) = &argument
        && *field.data_type() == DataType::Float64
        && expr.get_type(schema)?.is_integer()
    {
        *argument = expr.as_ref().clone();
    }
    let signature = Signature::any(1, Volatility::Immutable);
    let total = ExactAggregate { kind, signature, inner: function.clone() };
    Ok(Some(Arc::new(AggregateUDF::new_from_impl(total))))
}

/// DataFusion's `sum` or `avg`, with our accumulators where results could differ.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ExactAggregate {
    kind: TotalKind,
    /// Accepts every type, because types were checked before.
    signature: Signature,
    inner: AggregateUDF,
}

/// The type of exact totals of values: wide enough for any number of rows.
fn total_type(values: &DataType) -> Option<DataType> {
    match values {
        integer if integer.is_integer() => Some(DataType::Decimal256(76, 0)),
        DataType::Decimal128(_, scale) => Some(DataType::Decimal256(76, *scale)),
        _ => None,
    }
}

impl ExactAggregate {
    fn accumulator_of(&self, args: AccumulatorArgs, is_moving: bool) -> Result<Box<dyn Accumulator>> {
        let values = args.expr_fields[0].data_type();
        if let Some(total_type) = total_type(values) {
            let result = args.return_field.data_type().clone();
            return Ok(Box::new(ExactTotal::new(self.kind, total_type, result, args.is_distinct)));
        }
        match (values, args.is_distinct, is_moving) {
            (DataType::Float64, true, _) => Ok(Box::new(DistinctFloats::new(self.kind))),
            (DataType::Float64, false, true) => Ok(Box::new(MovingFloats::new(self.kind))),
            (_, _, true) => self.inner.create_sliding_accumulator(args),
            _ => self.inner.accumulator(args),
        }
    }
}

impl AggregateUDFImpl for ExactAggregate {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.accumulator_of(args, false)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.accumulator_of(args, true)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let values = args.input_fields[0].data_type();
        let name = |part: &str| format!("{}[{part}]", args.name);
        let list = |values: DataType| {
            Field::new_list(name("values"), Field::new_list_field(values, true), true).into()
        };
        Ok(match (total_type(values), args.is_distinct) {
            (Some(total_type), true) => vec![list(total_type)],
            (Some(total_type), false) => vec![
                Field::new(name("total"), total_type, true).into(),
                Field::new(name("rows"), DataType::UInt64, true).into(),
            ],
            (None, true) if *values == DataType::Float64 => vec![list(DataType::Float64)],
            (None, _) => return self.inner.state_fields(args),
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        let is_exact = total_type(args.expr_fields[0].data_type()).is_some();
        !is_exact && !args.is_distinct && self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }
}
