//! Sums and means of floating-point numbers that come and go, rounded once.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{ArrayRef, BooleanArray, Float64Array};
use arrow_cast::cast;
use arrow_schema::DataType;
use tidemill_core::{Cause, SnapshotReader, SnapshotWriter, State};

use super::Retractable;
use super::exact_sum::{ExactSum, Scratch};
use crate::aggregate::selection::{for_each_value, selected};
use crate::aggregate::wrong_type;
use crate::arrow_bug::arrow_bug;

/// What is made of the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::aggregate) enum FloatResult {
    Sum,
    Mean,
}

/// `sum(x)` and `avg(x)` of floating-point numbers.
pub(in crate::aggregate) struct Floats {
    name: &'static str,
    result: FloatResult,
    slots: Vec<Slot>,
    /// The bytes of all digits.
    bytes: usize,
}

#[derive(Clone, Default)]
struct Slot {
    finite: ExactSum,
    /// How many values there are.
    rows: i64,
    /// How many of them are not finite, if there were any.
    others: Option<Box<Others>>,
}

#[derive(Clone, Copy, Default)]
struct Others {
    nan: i64,
    infinite: i64,
    negative_infinite: i64,
}

impl Slot {
    fn add(&mut self, value: f64, weight: i64) {
        self.rows = self.rows.saturating_add(weight);
        if value.is_finite() {
            self.finite.add(value, weight);
            return;
        }
        let others = self.others.get_or_insert_default();
        let count = match value {
            f64::INFINITY => &mut others.infinite,
            f64::NEG_INFINITY => &mut others.negative_infinite,
            _ => &mut others.nan,
        };
        *count = count.saturating_add(weight);
    }

    fn value(&self, result: FloatResult, scratch: &mut Scratch) -> Option<f64> {
        let rows = u64::try_from(self.rows).ok().filter(|rows| *rows > 0)?;
        let others = self.others.as_deref().copied().unwrap_or_default();
        Some(match (others.nan != 0, others.infinite != 0, others.negative_infinite != 0) {
            (false, false, false) if result == FloatResult::Mean => self.finite.mean(rows, scratch),
            (false, false, false) => self.finite.value(scratch),
            (false, true, false) => f64::INFINITY,
            (false, false, true) => f64::NEG_INFINITY,
            _ => f64::NAN,
        })
    }
}

impl Floats {
    /// Makes an accumulator without groups.
    pub fn boxed(name: &'static str, result: FloatResult) -> Box<dyn Retractable> {
        Box::new(Floats { name, result, slots: Vec::new(), bytes: 0 })
    }
}

impl Retractable for Floats {
    fn needs_order(&self) -> bool {
        false
    }

    fn resize(&mut self, groups: usize) {
        self.slots.resize(groups, Slot::default());
    }

    fn update(
        &mut self,
        groups: &[u32],
        weights: &[i64],
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<u64, Cause> {
        let Some(values) = arguments.first() else { return Err(wrong_type(self.name, "Float64", None)) };
        let values = cast(values, &DataType::Float64).map_err(arrow_bug(self.name))?;
        let values = values.as_primitive::<Float64Type>();
        let selected = selected(&[values], filter);
        let (slots, bytes) = (self.slots.as_mut_slice(), &mut self.bytes);
        let pairs: Vec<(f64, i64)> = values.values().iter().copied().zip(weights.iter().copied()).collect();
        for_each_value(groups, &pairs, selected.as_ref(), |group, (value, weight)| {
            let before = slots[group].finite.bytes();
            slots[group].add(value, weight);
            *bytes += slots[group].finite.bytes() - before;
        });
        Ok(0)
    }

    fn reset(&mut self, group: u32) {
        let slot = std::mem::take(&mut self.slots[group as usize]);
        self.bytes -= slot.finite.bytes();
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef, Cause> {
        let mut scratch = Scratch::default();
        let values = groups.iter().map(|group| self.slots[*group as usize].value(self.result, &mut scratch));
        Ok(Arc::new(values.collect::<Float64Array>()))
    }

    fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>() + self.bytes
    }

    fn snapshot(&self, groups: &[u32], writer: &mut SnapshotWriter) {
        for group in groups {
            let slot = &self.slots[*group as usize];
            let others = slot.others.as_deref().copied().unwrap_or_default();
            slot.finite.write(writer);
            (slot.rows, others.nan, others.infinite, others.negative_infinite).write(writer);
        }
    }

    fn restore(&mut self, groups: usize, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        for _ in 0..groups {
            let finite = ExactSum::read(reader)?;
            let (rows, nan, infinite, negative_infinite) = State::read(reader)?;
            let others = Others { nan, infinite, negative_infinite };
            self.bytes += finite.bytes();
            self.slots.push(Slot { finite, rows, others: Some(Box::new(others)) });
        }
        Ok(())
    }
}
