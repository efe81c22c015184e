//! Sums of integers and decimals that are left to DataFusion, with DISTINCT and in frames. A sum that does not fit its
//! type is an error, while DataFusion's own (55.2) wraps around.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, DecimalType, Field, FieldRef, Int64Type, UInt64Type, i256,
};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, GroupsAccumulator, LogicalPlan, Signature,
    WindowFunctionDefinition,
};

use super::arithmetic::rewrite;

/// The plan with sums that detect overflow, including subqueries.
pub(crate) fn with_checked_sums(plan: LogicalPlan) -> Result<LogicalPlan> {
    rewrite(plan, |mut expression, _| {
        let replaced = match &mut expression {
            Expr::AggregateFunction(call) => checked_sum(&call.func).map(|function| call.func = function),
            Expr::WindowFunction(call) => match &call.fun {
                WindowFunctionDefinition::AggregateUDF(function) => checked_sum(function)
                    .map(|function| call.fun = WindowFunctionDefinition::AggregateUDF(function)),
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

/// The function that detects overflow, for DataFusion's `sum`.
pub(crate) fn checked_sum(function: &AggregateUDF) -> Option<Arc<AggregateUDF>> {
    let is_sum = function.name() == "sum" && crate::own_aggregate::own(function).is_none();
    is_sum.then(|| Arc::new(AggregateUDF::new_from_impl(CheckedSum(Sum::new()))))
}

/// DataFusion's `sum`, with separate totals for numbers that can overflow.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedSum(Sum);

/// The type of totals for a result that is checked: wide enough for any number of rows.
fn total_type(result: &DataType) -> Option<DataType> {
    match result {
        DataType::Int64 | DataType::UInt64 => Some(DataType::Decimal256(76, 0)),
        DataType::Decimal128(_, scale) => Some(DataType::Decimal256(76, *scale)),
        _ => None,
    }
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.0.return_type(arguments)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match total_type(args.return_field.data_type()) {
            Some(total_type) => Ok(Box::new(Total::new(&args, total_type))),
            None => self.0.accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match total_type(args.return_field.data_type()) {
            Some(total_type) => Ok(Box::new(Total::new(&args, total_type))),
            None => self.0.create_sliding_accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let Some(total_type) = total_type(args.return_field.data_type()) else {
            return self.0.state_fields(args);
        };
        let name = |part: &str| format!("{}[{part}]", args.name);
        Ok(match args.is_distinct {
            true => {
                vec![Field::new_list(name("values"), Field::new_list_field(total_type, true), true).into()]
            }
            false => vec![
                Field::new(name("total"), total_type, true).into(),
                Field::new(name("rows"), DataType::UInt64, true).into(),
            ],
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        total_type(args.return_field.data_type()).is_none() && self.0.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.0.create_groups_accumulator(args)
    }
}

/// The values of a group.
#[derive(Debug)]
struct Total {
    total: i256,
    rows: u64,
    /// With DISTINCT: how often each value occurs.
    distinct: Option<BTreeMap<i256, u64>>,
    total_type: DataType,
    result: DataType,
}

impl Total {
    fn new(args: &AccumulatorArgs<'_>, total_type: DataType) -> Total {
        let result = args.return_field.data_type().clone();
        Total {
            total: i256::ZERO,
            rows: 0,
            distinct: args.is_distinct.then(BTreeMap::new),
            total_type,
            result,
        }
    }

    fn add(&mut self, value: i256) {
        let is_new = self.distinct.as_mut().is_none_or(|values| {
            let count = values.entry(value).or_default();
            *count += 1;
            *count == 1
        });
        if is_new {
            self.total = self.total.wrapping_add(value);
            self.rows += 1;
        }
    }

    fn remove(&mut self, value: i256) {
        let is_last = self.distinct.as_mut().is_none_or(|values| match values.get_mut(&value) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            _ => values.remove(&value).is_some(),
        });
        if is_last {
            self.total = self.total.wrapping_sub(value);
            self.rows = self.rows.saturating_sub(1);
        }
    }

    fn scalar(&self, value: i256) -> Result<ScalarValue> {
        let DataType::Decimal256(precision, scale) = self.total_type else {
            return exec_err!("{} is no type of totals", self.total_type);
        };
        Ok(ScalarValue::Decimal256(Some(value), precision, scale))
    }
}

/// Calls a function with each value that is not NULL.
fn each_value(values: &ArrayRef, mut call: impl FnMut(i256)) -> Result<()> {
    match values.data_type() {
        DataType::Int64 => {
            values
                .as_primitive::<Int64Type>()
                .iter()
                .flatten()
                .for_each(|value| call(i256::from_i128(value.into())));
        }
        DataType::UInt64 => {
            values
                .as_primitive::<UInt64Type>()
                .iter()
                .flatten()
                .for_each(|value| call(i256::from_i128(value.into())));
        }
        DataType::Decimal128(_, _) => {
            values
                .as_primitive::<Decimal128Type>()
                .iter()
                .flatten()
                .for_each(|value| call(i256::from_i128(value)));
        }
        DataType::Decimal256(_, _) => values.as_primitive::<Decimal256Type>().iter().flatten().for_each(call),
        other => return exec_err!("sum was made for numbers and given {other}"),
    }
    Ok(())
}

fn argument(values: &[ArrayRef], index: usize) -> Result<&ArrayRef> {
    values.get(index).ok_or_else(|| exec_datafusion_err!("sum is given too few columns"))
}

impl Accumulator for Total {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each_value(argument(values, 0)?, |value| self.add(value))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each_value(argument(values, 0)?, |value| self.remove(value))
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        match &self.distinct {
            None => Ok(vec![self.scalar(self.total)?, ScalarValue::UInt64(Some(self.rows))]),
            Some(values) => {
                let values = values.keys().map(|value| self.scalar(*value)).collect::<Result<Vec<_>>>()?;
                Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &self.total_type))])
            }
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let first = argument(states, 0)?;
        if self.distinct.is_some() {
            return first.as_list::<i32>().iter().flatten().try_for_each(|values| {
                each_value(&values, |value| {
                    if self.distinct.as_ref().is_some_and(|known| !known.contains_key(&value)) {
                        self.add(value);
                    }
                })
            });
        }
        each_value(first, |total| self.total = self.total.wrapping_add(total))?;
        let rows = argument(states, 1)?.as_primitive::<UInt64Type>();
        self.rows += rows.iter().flatten().sum::<u64>();
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.rows == 0 {
            return ScalarValue::try_from(&self.result);
        }
        let total = self.total.to_i128();
        let fitting = match self.result {
            DataType::Int64 => {
                total.and_then(|total| i64::try_from(total).ok()).map(|total| ScalarValue::Int64(Some(total)))
            }
            DataType::UInt64 => total
                .and_then(|total| u64::try_from(total).ok())
                .map(|total| ScalarValue::UInt64(Some(total))),
            DataType::Decimal128(precision, scale) => total
                .filter(|total| Decimal128Type::validate_decimal_precision(*total, precision, scale).is_ok())
                .map(|total| ScalarValue::Decimal128(Some(total), precision, scale)),
            _ => None,
        };
        let remedy = match self.result {
            DataType::Decimal128(_, _) => "cast the argument to DOUBLE, or to a DECIMAL of smaller scale",
            _ => "cast the argument to DECIMAL(38, 0)",
        };
        fitting
            .ok_or_else(|| exec_datafusion_err!("sum: a result is too large for {}; {remedy}", self.result))
    }

    fn size(&self) -> usize {
        let values = self.distinct.as_ref().map_or(0, BTreeMap::len);
        size_of::<Self>() + values * size_of::<(i256, u64)>()
    }
}
