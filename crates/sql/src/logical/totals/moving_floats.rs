//! The sum or mean of floating-point numbers in a moving frame.
//!
//! Values that leave are never subtracted: after an infinity the result would be NaN, and after a large number the
//! small ones would be lost. Instead, two stacks hold the values, as in the running functions of streams. The older
//! stack keeps, for each of its values, the sum from that value to the youngest one of the stack. The younger stack
//! keeps one sum of all its values.

use std::collections::VecDeque;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::Float64Type;
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, not_impl_err};
use datafusion::logical_expr::Accumulator;

use super::total_kind::TotalKind;

/// The values of a frame.
#[derive(Debug)]
pub(super) struct MovingFloats {
    kind: TotalKind,
    /// For each value, the sum of it and of all younger values of this stack; the oldest is last.
    older: Vec<f64>,
    younger: VecDeque<f64>,
    younger_sum: f64,
}

impl MovingFloats {
    pub fn new(kind: TotalKind) -> MovingFloats {
        MovingFloats { kind, older: Vec::new(), younger: VecDeque::new(), younger_sum: 0.0 }
    }

    fn add(&mut self, value: f64) {
        self.younger_sum = if self.younger.is_empty() { value } else { self.younger_sum + value };
        self.younger.push_back(value);
    }

    fn remove_oldest(&mut self) {
        if self.older.is_empty() {
            for value in std::mem::take(&mut self.younger).into_iter().rev() {
                let sum = self.older.last().map_or(value, |younger| value + younger);
                self.older.push(sum);
            }
        }
        self.older.pop();
    }

    fn sum(&self) -> Option<f64> {
        match (self.older.last(), self.younger.is_empty()) {
            (None, true) => None,
            (None, false) => Some(self.younger_sum),
            (Some(older), true) => Some(*older),
            (Some(older), false) => Some(older + self.younger_sum),
        }
    }
}

fn floats(values: &[ArrayRef]) -> Result<impl Iterator<Item = f64> + '_> {
    let values = values.first().and_then(|values| values.as_primitive_opt::<Float64Type>());
    let values = values.ok_or_else(|| exec_datafusion_err!("a total of floats is given something else"))?;
    Ok(values.iter().flatten())
}

impl Accumulator for MovingFloats {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        floats(values)?.for_each(|value| self.add(value));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        floats(values)?.for_each(|_| self.remove_oldest());
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        not_impl_err!("a frame is computed in one place")
    }

    fn merge_batch(&mut self, _states: &[ArrayRef]) -> Result<()> {
        not_impl_err!("a frame is computed in one place")
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let rows = (self.older.len() + self.younger.len()) as u64;
        Ok(ScalarValue::Float64(self.sum().map(|sum| self.kind.of_floats(sum, rows))))
    }

    fn size(&self) -> usize {
        size_of::<Self>() + (self.older.capacity() + self.younger.capacity()) * size_of::<f64>()
    }
}
