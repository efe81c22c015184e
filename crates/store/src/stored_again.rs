//! Rows that move to newer chunks, so that the chunks in which they were can be dropped.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_select::take::take_record_batch;
use tidemill_core::Cause;

use crate::chunk::{Chunk, NEVER, too_large};

/// Some rows of a chunk.
pub(crate) struct StoredAgain {
    chunk: Arc<Chunk>,
    rows: UInt32Array,
}

impl StoredAgain {
    /// The rows of a chunk that still count, if there are any.
    pub fn of(chunk: &Arc<Chunk>) -> Option<StoredAgain> {
        let counts = |row: &u32| chunk.is_shown(*row as usize, NEVER - 1);
        let rows: UInt32Array = (0..chunk.len() as u32).filter(counts).collect::<Vec<_>>().into();
        (!rows.is_empty()).then(|| StoredAgain { chunk: chunk.clone(), rows })
    }

    /// A copy of the rows.
    pub fn batch(&self) -> Result<RecordBatch, Cause> {
        take_record_batch(&self.chunk.rows, &self.rows).map_err(|error| too_large(&error))
    }

    /// The numbers that they had.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.rows.values().iter().map(|row| self.chunk.first + u64::from(*row))
    }

    /// Their places in the order of the store.
    pub fn orders(&self) -> impl Iterator<Item = u64> {
        self.rows.values().iter().map(|row| self.chunk.order(*row as usize))
    }

    /// Versions from this cycle on show the copies.
    pub fn end(&self, cycle: u64) {
        let Some(table) = &self.chunk.table else { return };
        self.rows.values().iter().for_each(|row| table.ended[*row as usize].store(cycle, Ordering::Relaxed));
    }
}
