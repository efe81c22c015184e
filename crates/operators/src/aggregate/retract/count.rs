//! Counts of rows that come and go.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int64Array};
use tidemill_core::{Cause, SnapshotReader, SnapshotWriter};

use super::Retractable;
use crate::aggregate::selection::{for_each_row, selected};

/// `count(*)` and `count(x)`.
#[derive(Default)]
pub(in crate::aggregate) struct Counts {
    counts: Vec<i64>,
}

impl Retractable for Counts {
    fn needs_order(&self) -> bool {
        false
    }

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
        let columns = arguments.iter().map(|column| column.as_ref()).collect::<Vec<_>>();
        let selected = selected(&columns, filter);
        let counts = self.counts.as_mut_slice();
        for_each_row(groups, selected.as_ref(), |group, row| {
            counts[group] = counts[group].saturating_add(weights[row]);
        });
        Ok(0)
    }

    fn reset(&mut self, group: u32) {
        self.counts[group as usize] = 0;
    }

    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef, Cause> {
        let counts = groups.iter().map(|group| self.counts[*group as usize]);
        Ok(Arc::new(Int64Array::from_iter_values(counts)))
    }

    fn bytes(&self) -> usize {
        self.counts.capacity() * size_of::<i64>()
    }

    fn snapshot(&self, groups: &[u32], writer: &mut SnapshotWriter) {
        groups.iter().for_each(|group| writer.i64(self.counts[*group as usize]));
    }

    fn restore(&mut self, groups: usize, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.counts = (0..groups).map(|_| reader.i64()).collect::<Result<_, Cause>>()?;
        Ok(())
    }
}
