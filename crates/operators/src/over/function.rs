//! The interface of running functions: a column for each batch of rows, and state by key.

use std::fmt::Debug;

use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_select::take::take;
use tidemill_core::error::Cause;
use tidemill_core::{SnapshotReader, SnapshotWriter};

use super::spec::Frame;
use crate::failed_results::FailedResults;
use crate::stored_rows::kernel_error;

/// About what a function holds for a key, or for a row of which it keeps a number.
const STATE_BYTES: usize = 32;

/// A function with its state.
pub(super) trait RunningFunction: Send + Debug {
    /// Its results for these rows, which follow those of earlier calls.
    fn append(&mut self, step: &Step<'_>) -> Result<ArrayRef, Cause>;

    /// The number of rows that it holds, besides one state for each key.
    fn rows_held(&self) -> usize {
        0
    }

    /// About how many bytes it holds for this many keys.
    fn bytes(&self, keys: usize) -> usize {
        STATE_BYTES * (keys + self.rows_held())
    }

    /// Writes its state.
    fn snapshot(&self, writer: &mut SnapshotWriter);

    /// Reads its state into a fresh function.
    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause>;

    /// Reads the state that the first version of the snapshot's format has.
    fn restore_older(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.restore(reader)
    }
}

/// Rows in event-time order.
pub(super) struct Step<'a> {
    pub rows: &'a RecordBatch,
    /// The number of each row's key.
    pub keys: &'a [u32],
    /// The number of keys so far.
    pub key_count: usize,
    pub times: &'a [i64],
    /// What happens to results that cannot be represented.
    pub failed: &'a FailedResults,
    pub cycle: u64,
    /// For each row the last one with the same key and event time; only if some function needs it.
    peer_last: UInt32Array,
}

impl<'a> Step<'a> {
    pub fn new(
        rows: &'a RecordBatch,
        keys: &'a [u32],
        key_count: usize,
        times: &'a [i64],
        failed: &'a FailedResults,
        cycle: u64,
    ) -> Self {
        Step { rows, keys, key_count, times, failed, cycle, peer_last: Vec::<u32>::new().into() }
    }

    /// Adds what `RANGE` needs to know about rows with equal event time.
    pub fn with_peers(mut self) -> Self {
        self.peer_last = peer_last(self.keys, self.times).into();
        self
    }

    /// For each row the row that ends its frame: for `RANGE`, the last one with equal event time.
    pub fn frame_ends(&self) -> impl Iterator<Item = usize> {
        self.peer_last.values().iter().map(|row| *row as usize)
    }

    /// The column at the end of the frame: for `RANGE` the last row with equal event time, so that all of these have
    /// the same result.
    pub fn at_frame_end(&self, column: ArrayRef, frame: Frame) -> Result<ArrayRef, Cause> {
        match frame {
            Frame::Rows { .. } => Ok(column),
            Frame::Range { .. } => take(&column, &self.peer_last, None).map_err(kernel_error),
        }
    }
}

fn peer_last(keys: &[u32], times: &[i64]) -> Vec<u32> {
    let mut last: Vec<u32> = (0..keys.len() as u32).collect();
    let mut peers = Vec::new();
    let mut start = 0;
    for of_time in times.chunk_by(|a, b| a == b) {
        let end = start + of_time.len();
        if of_time.len() > 1 {
            peers.clear();
            peers.extend((start..end).map(|row| (keys[row], row as u32)));
            peers.sort_unstable();
            for of_key in peers.chunk_by(|a, b| a.0 == b.0) {
                of_key.iter().for_each(|(_, row)| last[*row as usize] = of_key[of_key.len() - 1].1);
            }
        }
        start = end;
    }
    last
}

/// The column, filter and frame of an aggregate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Input {
    pub column: Option<usize>,
    pub filter: Option<usize>,
    pub frame: Frame,
}
