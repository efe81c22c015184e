//! The sum or mean of distinct floating-point numbers. They are added from the smallest to the largest, so that the
//! result is the same in every run. -0 equals 0, and all NaNs are one value.

use std::collections::BTreeMap;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err};
use datafusion::logical_expr::Accumulator;

use super::total_kind::TotalKind;

/// The values of a group, or of a frame.
#[derive(Debug)]
pub(super) struct DistinctFloats {
    kind: TotalKind,
    /// How often each value occurs.
    values: BTreeMap<Ordered, u64>,
}

/// Ordered by IEEE 754's total order.
#[derive(Clone, Copy, Debug)]
struct Ordered(f64);

impl Ordered {
    fn new(value: f64) -> Ordered {
        match value {
            value if value.is_nan() => Ordered(f64::NAN.abs()),
            0.0 => Ordered(0.0),
            value => Ordered(value),
        }
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered {}

impl DistinctFloats {
    pub fn new(kind: TotalKind) -> DistinctFloats {
        DistinctFloats { kind, values: BTreeMap::new() }
    }

    fn remove(&mut self, value: Ordered) {
        match self.values.get_mut(&value) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.values.remove(&value);
            }
        }
    }
}

fn each_value(values: &ArrayRef, mut call: impl FnMut(Ordered)) -> Result<()> {
    let values = values
        .as_primitive_opt::<Float64Type>()
        .ok_or_else(|| exec_datafusion_err!("a total of floats is given something else"))?;
    values.iter().flatten().for_each(|value| call(Ordered::new(value)));
    Ok(())
}

fn first(values: &[ArrayRef]) -> Result<&ArrayRef> {
    values.first().ok_or_else(|| exec_datafusion_err!("a total is given no column"))
}

impl Accumulator for DistinctFloats {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each_value(first(values)?, |value| *self.values.entry(value).or_default() += 1)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        each_value(first(values)?, |value| self.remove(value))
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.values.keys().map(|value| ScalarValue::Float64(Some(value.0)));
        let values: Vec<ScalarValue> = values.collect();
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Float64))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        first(states)?.as_list::<i32>().iter().flatten().try_for_each(|values| {
            each_value(&values, |value| {
                self.values.entry(value).or_insert(1);
            })
        })
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = self.values.keys().map(|value| value.0).reduce(|sum, value| sum + value);
        let rows = self.values.len() as u64;
        Ok(ScalarValue::Float64(sum.map(|sum| self.kind.of_floats(sum, rows))))
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.values.len() * size_of::<(f64, u64)>()
    }
}
