//! `MIN(column)` and `MAX(column)` of values of any type.

use arrow_array::ArrayRef;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{DataType, SortOptions};
use tidemill_core::error::Cause;
use tidemill_core::{SnapshotReader, SnapshotWriter};

use super::fold::counting;
use super::frame::Coordinates;
use super::function::{Input, RunningFunction, Step};
use super::kept_values::{Kept, KeptValues};
use crate::normal::normalise;
use crate::row_store::NO_ROW;
use crate::stored_rows::kernel_error;

pub(super) fn make(
    input: Input,
    values: &DataType,
    is_largest: bool,
) -> Result<Box<dyn RunningFunction>, Cause> {
    let options = SortOptions { descending: is_largest, nulls_first: false };
    let name = if is_largest { "MAX" } else { "MIN" };
    let unordered = |error| {
        Cause::user(format!("a running {name} cannot order values of type {values}: {error}"))
            .with_source(error)
    };
    let field = SortField::new_with_options(values.clone(), options);
    Ok(Box::new(Extreme {
        input,
        converter: RowConverter::new(vec![field]).map_err(unordered)?,
        coordinates: Coordinates::new(input.frame),
        values: KeptValues::new(values),
        ranks: Ranks::default(),
    }))
}

/// For each key, it keeps the values that are the extreme of the frame, or will be when earlier values have left it.
/// Each of them is further from the extreme than the one before.
#[derive(Debug)]
struct Extreme {
    input: Input,
    converter: RowConverter,
    coordinates: Coordinates,
    values: KeptValues,
    ranks: Ranks,
}

/// The kept values in a form that compares as bytes, the extreme first, by key as in the values.
#[derive(Debug, Default)]
struct Ranks {
    keys: Vec<std::collections::VecDeque<Vec<u8>>>,
    /// Buffers that are reused, so that rows need no allocation.
    spare: Vec<Vec<u8>>,
}

impl Ranks {
    fn push(&mut self, key: u32, bytes: &[u8]) {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        self.keys[key as usize].push_back(buffer);
    }

    fn pop_first(&mut self, key: u32) {
        self.spare.extend(self.keys[key as usize].pop_front());
    }

    fn pop_last(&mut self, key: u32) {
        self.spare.extend(self.keys[key as usize].pop_back());
    }
}

impl Extreme {
    /// The values in the form that compares as bytes.
    fn ranks_of(&self, values: &ArrayRef) -> Result<Rows, Cause> {
        let values = normalise(values, values.data_type())?;
        self.converter.convert_columns(&[values]).map_err(kernel_error)
    }

    /// Adds a value that counts.
    fn insert(&mut self, key: u32, bytes: &[u8], kept: Kept) {
        while self.ranks.keys[key as usize].back().is_some_and(|last| bytes < last.as_slice()) {
            self.ranks.pop_last(key);
            self.values.pop_last(key);
        }
        // Without a bound nothing ever leaves the frame, so that only the extreme matters.
        if self.coordinates.is_bounded() || self.values.of(key).is_empty() {
            self.ranks.push(key, bytes);
            self.values.push(key, kept);
        }
    }

    fn expire(&mut self, key: u32, least: i64) {
        while self.values.of(key).front().is_some_and(|kept| kept.coordinate < least) {
            self.values.pop_first(key);
            self.ranks.pop_first(key);
        }
    }
}

impl RunningFunction for Extreme {
    fn append(&mut self, step: &Step<'_>) -> Result<ArrayRef, Cause> {
        let column = self.input.column.ok_or_else(|| Cause::bug("only COUNT has no argument"))?;
        let column = step.rows.column(column);
        let order = self.ranks_of(column)?;
        let counts = counting(step.rows, self.input);
        let first = self.values.append(column, step.key_count)?;
        self.coordinates.resize(step.key_count);
        self.ranks.keys.resize_with(step.key_count, Default::default);
        let mut numbers = Vec::with_capacity(step.keys.len());
        for (row, key) in step.keys.iter().enumerate() {
            let (coordinate, least) = self.coordinates.next(step, row);
            self.expire(*key, least);
            if counts.as_ref().is_none_or(|counts| counts.is_valid(row)) {
                self.insert(*key, order.row(row).data(), Kept { coordinate, value: first + row as u64 });
            }
            numbers.push(self.values.of(*key).front().map_or(NO_ROW, |kept| kept.value));
        }
        let result = self.values.gather(&numbers)?;
        self.values.compact()?;
        step.at_frame_end(result, self.input.frame)
    }

    fn rows_held(&self) -> usize {
        self.values.len()
    }

    fn bytes(&self, _keys: usize) -> usize {
        // Each value is held once more as bytes that are compared.
        2 * self.values.bytes()
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        self.coordinates.snapshot(writer);
        self.values.snapshot(writer);
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.coordinates.restore(reader)?;
        self.values.restore(reader)?;
        let mut numbers = Vec::new();
        let key_count = self.values.key_count();
        for key in 0..key_count as u32 {
            numbers.extend(self.values.of(key).iter().map(|kept| kept.value));
        }
        let order = self.ranks_of(&self.values.gather(&numbers)?)?;
        self.ranks.keys.resize_with(key_count, Default::default);
        let mut row = 0;
        for key in 0..key_count as u32 {
            for _ in 0..self.values.of(key).len() {
                self.ranks.push(key, order.row(row).data());
                row += 1;
            }
        }
        Ok(())
    }
}
