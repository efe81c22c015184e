//! Functions of the values that a group has, in order: `min(x)`, `max(x)` and `count(DISTINCT x)`.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int64Array, UInt32Array};
use arrow_schema::{DataType, SortOptions};
use arrow_select::take::take;
use tidemill_core::{Cause, SnapshotReader, SnapshotWriter};

use super::Retractable;
use crate::aggregate::selection::{for_each_row, selected};
use crate::aggregate::wrong_type;
use crate::arrow_bug::arrow_bug;
use crate::encoded_rows::{OrderedRows, RowCodec, read_groups, write_groups};

/// The values of all groups that are not NULL.
struct Values {
    name: &'static str,
    codec: RowCodec,
    rows: OrderedRows,
}

impl Values {
    fn new(name: &'static str, argument: &DataType) -> Option<Values> {
        let codec = RowCodec::ordered(vec![(argument.clone(), SortOptions::default())]).ok()?;
        Some(Values { name, codec, rows: OrderedRows::default() })
    }

    /// Adds values, and reports each that is new in its group (1) or gone from it (-1). Returns how many are missing.
    fn update(
        &mut self,
        groups: &[u32],
        weights: &[i64],
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
        mut report: impl FnMut(usize, i64),
    ) -> Result<u64, Cause> {
        let Some(column) = arguments.first() else { return Err(wrong_type(self.name, "values", None)) };
        let selected = selected(&[column], filter);
        let encoded = self.codec.encode(std::slice::from_ref(column))?;
        let (rows, mut missing) = (&mut self.rows, 0);
        for_each_row(groups, selected.as_ref(), |group, row| {
            let changed = rows.add(group as u32, encoded.row(row).identity, weights[row]);
            missing += changed.missing;
            match (changed.before > 0, changed.now > 0) {
                (false, true) => report(group, 1),
                (true, false) => report(group, -1),
                _ => {}
            }
        });
        Ok(missing)
    }
}

/// `min(x)` and `max(x)`.
pub(in crate::aggregate) struct Extremes {
    values: Values,
    is_maximum: bool,
}

impl Extremes {
    /// Makes an accumulator without groups; `None` if values of the type have no order.
    pub fn boxed(name: &'static str, argument: &DataType, is_maximum: bool) -> Option<Box<dyn Retractable>> {
        Some(Box::new(Extremes { values: Values::new(name, argument)?, is_maximum }))
    }
}

impl Retractable for Extremes {
    fn resize(&mut self, _groups: usize) {}

    fn update(
        &mut self,
        groups: &[u32],
        weights: &[i64],
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<u64, Cause> {
        self.values.update(groups, weights, arguments, filter, |_, _| {})
    }

    fn reset(&mut self, group: u32) {
        self.values.rows.clear(group);
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef, Cause> {
        let extreme = |group: &u32| {
            let mut rows = self.values.rows.of(*group);
            let row = if self.is_maximum { rows.next_back() } else { rows.next() };
            row.map(|(row, _)| row)
        };
        let found: Vec<Option<&[u8]>> = groups.iter().map(extreme).collect();
        let mut next = 0;
        let places = found.iter().map(|row| {
            next += u32::from(row.is_some());
            row.map(|_| next - 1)
        });
        let places: UInt32Array = places.collect();
        let mut columns = self.values.codec.decode(found.into_iter().flatten())?;
        let values = columns.pop().ok_or_else(|| Cause::bug("a column of values is missing"))?;
        take(&values, &places, None).map_err(arrow_bug(self.values.name))
    }

    fn rows(&self) -> usize {
        self.values.rows.len()
    }

    fn bytes(&self) -> usize {
        self.values.rows.memory()
    }

    fn snapshot(&self, groups: &[u32], writer: &mut SnapshotWriter) {
        write_groups(&self.values.rows, &self.values.codec, groups, writer);
    }

    fn restore(&mut self, groups: usize, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        read_groups(&mut self.values.rows, &self.values.codec, groups, reader).map(|_| ())
    }
}

/// `count(DISTINCT x)`.
pub(in crate::aggregate) struct Distinct {
    values: Values,
    counts: Vec<i64>,
}

impl Distinct {
    /// Makes an accumulator without groups; `None` if values of the type cannot be compared.
    pub fn boxed(argument: &DataType) -> Option<Box<dyn Retractable>> {
        Some(Box::new(Distinct { values: Values::new("count(distinct)", argument)?, counts: Vec::new() }))
    }
}

impl Retractable for Distinct {
    fn resize(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
    }

    fn update(
        &mut self,
        groups: &[u32],
        weights: &[i64],
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<u64, Cause> {
        let counts = self.counts.as_mut_slice();
        self.values.update(groups, weights, arguments, filter, |group, more| counts[group] += more)
    }

    fn reset(&mut self, group: u32) {
        self.values.rows.clear(group);
        self.counts[group as usize] = 0;
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef, Cause> {
        let counts = groups.iter().map(|group| self.counts[*group as usize]);
        Ok(Arc::new(Int64Array::from_iter_values(counts)))
    }

    fn rows(&self) -> usize {
        self.values.rows.len()
    }

    fn bytes(&self) -> usize {
        self.values.rows.memory() + self.counts.capacity() * size_of::<i64>()
    }

    fn snapshot(&self, groups: &[u32], writer: &mut SnapshotWriter) {
        write_groups(&self.values.rows, &self.values.codec, groups, writer);
    }

    fn restore(&mut self, groups: usize, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.counts = read_groups(&mut self.values.rows, &self.values.codec, groups, reader)?;
        Ok(())
    }
}
