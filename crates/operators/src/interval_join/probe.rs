//! The rows of one input of an interval join that come in one cycle.

use arrow_array::{RecordBatch, UInt32Array};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_select::take::take_record_batch;
use tidemill_core::error::Cause;

use crate::keys::{KeyTable, NO_KEY};
use crate::stored_rows::{event_times, kernel_error};

/// Rows to join with the stored rows of the other side.
#[derive(Debug)]
pub(super) struct Probe {
    pub input: usize,
    pub rows: RecordBatch,
    pub positions: Vec<u32>,
    pub times: ScalarBuffer<i64>,
    /// The key of each row; [`NO_KEY`] if nothing can match because its key or its time is NULL.
    pub keys: Vec<u32>,
}

/// The rows of this cycle without the late ones, and the number of late rows.
pub(super) struct OnTime {
    pub rows: RecordBatch,
    pub positions: Vec<u32>,
    pub late: usize,
    times: ScalarBuffer<i64>,
    nulls: Option<NullBuffer>,
}

impl OnTime {
    /// Leaves out the rows before the watermark.
    pub fn new(
        rows: RecordBatch,
        positions: Vec<u32>,
        time_column: usize,
        watermark: i64,
    ) -> Result<Self, Cause> {
        let (times, nulls) = event_times(&rows, time_column)?;
        let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        let is_on_time = |row: &u32| times[*row as usize] >= watermark || is_null(*row as usize);
        let kept: Vec<u32> = (0..times.len() as u32).filter(is_on_time).collect();
        let late = times.len() - kept.len();
        if late == 0 {
            return Ok(OnTime { rows, positions, late, times, nulls });
        }
        let positions = kept.iter().map(|row| positions[*row as usize]).collect();
        let rows = take_record_batch(&rows, &UInt32Array::from(kept)).map_err(kernel_error)?;
        let (times, nulls) = event_times(&rows, time_column)?;
        Ok(OnTime { rows, positions, late, times, nulls })
    }

    /// Adds their keys.
    pub fn into_probe(self, input: usize, table: &mut KeyTable, columns: &[usize]) -> Result<Probe, Cause> {
        let mut keys = table.intern(&self.rows, columns)?;
        for (row, key) in keys.iter_mut().enumerate() {
            if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                *key = NO_KEY;
            }
        }
        Ok(Probe { input, rows: self.rows, positions: self.positions, times: self.times, keys })
    }
}

/// A pair of rows with equal keys within the time bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// The row of the probe.
    pub probe: u32,
    /// The other side's row: its key, time and number.
    pub key: u32,
    pub time: i64,
    pub row: u64,
}
