//! Any function over rows that come and go: it is computed again from all rows of a group that has changed.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray};
use arrow_schema::{DataType, SortOptions};
use tidemill_core::{Cause, SnapshotReader, SnapshotWriter};

use super::Retractable;
use crate::aggregate::selection::{for_each_row, selected};
use crate::aggregate::{Accumulator, Aggregate};
use crate::encoded_rows::{OrderedRows, RowCodec, read_groups, write_groups};

/// The most rows that are decoded at a time.
const PIECE_ROWS: usize = 8192;

/// The arguments of all rows of each group. The function gets them in the order of their encoded bytes, so its result
/// does not depend on the order in which they came.
pub(crate) struct Recomputed {
    function: Arc<dyn Aggregate>,
    codec: RowCodec,
    rows: OrderedRows,
}

impl Recomputed {
    /// Makes an accumulator without groups for a function of arguments with these types.
    ///
    /// # Errors
    /// If values of a type cannot be compared.
    pub fn boxed(
        function: &Arc<dyn Aggregate>,
        arguments: Vec<DataType>,
    ) -> Result<Box<dyn Retractable>, Cause> {
        let columns = arguments.into_iter().map(|argument| (argument, SortOptions::default()));
        let codec = RowCodec::ordered(columns.collect())?;
        Ok(Box::new(Recomputed { function: Arc::clone(function), codec, rows: OrderedRows::default() }))
    }

    /// Gives some rows to an accumulator.
    fn give(&self, to: &mut dyn Accumulator, ids: &mut Vec<u32>, rows: &mut Vec<&[u8]>) -> Result<(), Cause> {
        let arguments = self.codec.decode(rows.drain(..))?;
        to.update(ids, &arguments, None)?;
        ids.clear();
        Ok(())
    }
}

impl Retractable for Recomputed {
    fn resize(&mut self, _groups: usize) {}

    fn update(
        &mut self,
        groups: &[u32],
        weights: &[i64],
        arguments: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<u64, Cause> {
        let selected = selected(&[], filter);
        let encoded = self.codec.encode(arguments)?;
        let (rows, mut missing) = (&mut self.rows, 0);
        for_each_row(groups, selected.as_ref(), |group, row| {
            missing += rows.add(group as u32, encoded.row(row).identity, weights[row]).missing;
        });
        Ok(missing)
    }

    fn reset(&mut self, group: u32) {
        self.rows.clear(group);
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef, Cause> {
        let mut accumulator = self.function.accumulator();
        accumulator.resize(groups.len());
        let (mut ids, mut rows) = (Vec::new(), Vec::new());
        for (id, group) in groups.iter().enumerate() {
            for (row, weight) in self.rows.of(*group) {
                for _ in 0..weight {
                    ids.push(id as u32);
                    rows.push(row);
                    if rows.len() == PIECE_ROWS {
                        self.give(accumulator.as_mut(), &mut ids, &mut rows)?;
                    }
                }
            }
        }
        self.give(accumulator.as_mut(), &mut ids, &mut rows)?;
        accumulator.evaluate(&(0..groups.len() as u32).collect::<Vec<_>>())
    }

    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn bytes(&self) -> usize {
        self.rows.memory()
    }

    fn snapshot(&self, groups: &[u32], writer: &mut SnapshotWriter) {
        write_groups(&self.rows, &self.codec, groups, writer);
    }

    fn restore(&mut self, groups: usize, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        read_groups(&mut self.rows, &self.codec, groups, reader).map(|_| ())
    }
}
