//! `NTH_VALUE(column, n)`, and `FIRST_VALUE(column)`, which is the first one.

use arrow_array::ArrayRef;
use arrow_schema::DataType;
use tidemill_core::error::Cause;
use tidemill_core::{SnapshotReader, SnapshotWriter};

use super::frame::Coordinates;
use super::function::{RunningFunction, Step};
use super::kept_values::{Kept, KeptValues};
use super::spec::Frame;
use crate::row_store::NO_ROW;

/// Keeps each key's rows in the frame; without a bound only the first `n`.
#[derive(Debug)]
pub(super) struct NthValue {
    column: usize,
    n: usize,
    frame: Frame,
    coordinates: Coordinates,
    values: KeptValues,
}

impl NthValue {
    pub fn new(column: usize, data_type: &DataType, n: usize, frame: Frame) -> Result<Self, Cause> {
        if n == 0 {
            return Err(Cause::user("NTH_VALUE counts rows from 1; there is no row 0"));
        }
        let (coordinates, values) = (Coordinates::new(frame), KeptValues::new(data_type));
        Ok(NthValue { column, n, frame, coordinates, values })
    }
}

impl RunningFunction for NthValue {
    fn append(&mut self, step: &Step<'_>) -> Result<ArrayRef, Cause> {
        let first = self.values.append(step.rows.column(self.column), step.key_count)?;
        self.coordinates.resize(step.key_count);
        let is_bounded = self.coordinates.is_bounded();
        let mut numbers = Vec::with_capacity(step.keys.len());
        for (row, key) in step.keys.iter().enumerate() {
            let (coordinate, least) = self.coordinates.next(step, row);
            while self.values.of(*key).front().is_some_and(|kept| kept.coordinate < least) {
                self.values.pop_first(*key);
            }
            if is_bounded || self.values.of(*key).len() < self.n {
                self.values.push(*key, Kept { coordinate, value: first + row as u64 });
            }
            numbers.push(self.values.of(*key).get(self.n - 1).map_or(NO_ROW, |kept| kept.value));
        }
        let column = self.values.gather(&numbers)?;
        self.values.compact()?;
        step.at_frame_end(column, self.frame)
    }

    fn rows_held(&self) -> usize {
        self.values.len()
    }

    fn bytes(&self, _keys: usize) -> usize {
        self.values.bytes()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        self.coordinates.snapshot(writer);
        self.values.snapshot(writer);
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.coordinates.restore(reader)?;
        self.values.restore(reader)
    }
}
