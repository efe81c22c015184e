//! The exact sum or mean of integers and decimals. A result that its type cannot hold is an error.

use std::collections::BTreeMap;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, DecimalType, Int64Type, UInt64Type, i256,
};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err};
use datafusion::logical_expr::Accumulator;

use super::total_kind::TotalKind;
use crate::logical::datafusion_repairs::division::rounded;

/// The values of a group, or of a frame.
#[derive(Debug)]
pub(super) struct ExactTotal {
    kind: TotalKind,
    total: i256,
    rows: u64,
    /// With DISTINCT: how often each value occurs.
    distinct: Option<BTreeMap<i256, u64>>,
    total_type: DataType,
    result: DataType,
}

impl ExactTotal {
    pub fn new(kind: TotalKind, total_type: DataType, result: DataType, is_distinct: bool) -> ExactTotal {
        let distinct = is_distinct.then(BTreeMap::new);
        ExactTotal { kind, total: i256::ZERO, rows: 0, distinct, total_type, result }
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
            return exec_err!("totals cannot have the type {}", self.total_type);
        };
        Ok(ScalarValue::Decimal256(Some(value), precision, scale))
    }

    /// The result without its scale, if it fits into 128 bits.
    fn unscaled(&self) -> Option<i128> {
        match (self.kind, &self.result, &self.total_type) {
            (TotalKind::Sum, _, _) => self.total.to_i128(),
            (TotalKind::Mean, DataType::Decimal128(_, scale), DataType::Decimal256(_, total_scale)) => {
                let digits = u32::try_from(scale - total_scale).ok()?;
                let scaled = self.total.checked_mul(i256::from_i128(10).checked_pow(digits)?)?;
                rounded(scaled, i256::from_i128(self.rows.into()))?.to_i128()
            }
            (TotalKind::Mean, _, _) => None,
        }
    }

    /// The result as a value of the result type, if that type can hold it.
    fn result_value(&self) -> Option<ScalarValue> {
        match self.result {
            DataType::Int64 => i64::try_from(self.unscaled()?).ok().map(|sum| ScalarValue::Int64(Some(sum))),
            DataType::UInt64 => {
                u64::try_from(self.unscaled()?).ok().map(|sum| ScalarValue::UInt64(Some(sum)))
            }
            DataType::Float64 => {
                let sum = self.total.to_i128()? as f64;
                Some(ScalarValue::Float64(Some(self.kind.of_floats(sum, self.rows))))
            }
            DataType::Decimal128(precision, scale) => self
                .unscaled()
                .filter(|value| Decimal128Type::validate_decimal_precision(*value, precision, scale).is_ok())
                .map(|value| ScalarValue::Decimal128(Some(value), precision, scale)),
            _ => None,
        }
    }
}

/// Calls a function with each value that is not NULL.
fn each_value(values: &ArrayRef, mut call: impl FnMut(i256)) -> Result<()> {
    match values.data_type() {
        integer if integer.is_unsigned_integer() => {
            let values = cast(values, &DataType::UInt64)?;
            let values = values.as_primitive::<UInt64Type>().iter().flatten();
            values.for_each(|value| call(i256::from_i128(value.into())));
        }
        integer if integer.is_signed_integer() => {
            let values = cast(values, &DataType::Int64)?;
            let values = values.as_primitive::<Int64Type>().iter().flatten();
            values.for_each(|value| call(i256::from_i128(value.into())));
        }
        DataType::Decimal128(_, _) => {
            let values = values.as_primitive::<Decimal128Type>().iter().flatten();
            values.for_each(|value| call(i256::from_i128(value)));
        }
        DataType::Decimal256(_, _) => values.as_primitive::<Decimal256Type>().iter().flatten().for_each(call),
        other => return exec_err!("a total was made for numbers and given {other}"),
    }
    Ok(())
}

fn argument(values: &[ArrayRef], index: usize) -> Result<&ArrayRef> {
    values.get(index).ok_or_else(|| exec_datafusion_err!("a total is given too few columns"))
}

impl Accumulator for ExactTotal {
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
        let name = match self.kind {
            TotalKind::Sum => "sum",
            TotalKind::Mean => "avg",
        };
        let remedy = match self.result {
            DataType::Decimal128(_, _) => "cast the argument to DOUBLE, or to a DECIMAL of smaller scale",
            _ => "cast the argument to DECIMAL(38, 0)",
        };
        self.result_value().ok_or_else(|| {
            exec_datafusion_err!("{name}: a result does not fit into {}; {remedy}", self.result)
        })
    }

    fn size(&self) -> usize {
        let values = self.distinct.as_ref().map_or(0, BTreeMap::len);
        size_of::<Self>() + values * size_of::<(i256, u64)>()
    }
}
