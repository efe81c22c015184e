//! `LAG(column, rows, default)`.

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use arrow_select::interleave::interleave;
use tidemill_core::error::Cause;
use tidemill_core::{SnapshotReader, SnapshotWriter};

use super::function::{RunningFunction, Step};
use super::kept_values::{Kept, KeptValues};
use crate::row_store::NO_ROW;
use crate::stored_rows::kernel_error;

/// Keeps as many of each key's last values as it looks back.
#[derive(Debug)]
pub(super) struct Lag {
    column: usize,
    rows: usize,
    default: Option<ArrayRef>,
    values: KeptValues,
}

impl Lag {
    pub fn new(
        column: usize,
        data_type: &DataType,
        rows: usize,
        default: Option<ArrayRef>,
    ) -> Result<Self, Cause> {
        let is_right = |value: &ArrayRef| value.len() == 1 && value.data_type() == data_type;
        if default.as_ref().is_none_or(is_right) {
            Ok(Lag { column, rows, default, values: KeptValues::new(data_type) })
        } else {
            Err(Cause::bug(format!("the default of LAG must be one value of type {data_type}")))
        }
    }

    /// The default is used if there is no row that far back, which is not the same as a NULL there.
    fn with_default(&self, numbers: &[u64], values: ArrayRef) -> Result<ArrayRef, Cause> {
        let Some(default) = self.default.as_ref().filter(|_| numbers.contains(&NO_ROW)) else {
            return Ok(values);
        };
        let place = |(row, number): (usize, &u64)| if *number == NO_ROW { (1, 0) } else { (0, row) };
        let places: Vec<(usize, usize)> = numbers.iter().enumerate().map(place).collect();
        interleave(&[&values, default], &places).map_err(kernel_error)
    }
}

impl RunningFunction for Lag {
    fn append(&mut self, step: &Step<'_>) -> Result<ArrayRef, Cause> {
        let column = step.rows.column(self.column);
        if self.rows == 0 {
            return Ok(column.clone());
        }
        let first = self.values.append(column, step.key_count)?;
        let mut numbers = Vec::with_capacity(column.len());
        for (row, key) in step.keys.iter().enumerate() {
            let is_full = self.values.of(*key).len() == self.rows;
            let before = if is_full { self.values.pop_first(*key) } else { None };
            numbers.push(before.map_or(NO_ROW, |kept| kept.value));
            self.values.push(*key, Kept { coordinate: 0, value: first + row as u64 });
        }
        let values = self.values.gather(&numbers)?;
        self.values.compact()?;
        self.with_default(&numbers, values)
    }

    fn rows_held(&self) -> usize {
        self.values.len()
    }

    fn bytes(&self, _keys: usize) -> usize {
        self.values.bytes()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        self.values.snapshot(writer);
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.values.restore(reader)
    }
}
