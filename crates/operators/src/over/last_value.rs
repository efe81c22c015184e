//! `LAST_VALUE(column)` of a frame that ends with the current row.

use arrow_array::ArrayRef;
use tidemill_core::error::Cause;
use tidemill_core::{SnapshotReader, SnapshotWriter};

use super::function::{RunningFunction, Step};
use super::spec::Frame;

/// The value of the row itself, or of the last row of its event time; nothing needs to be kept.
#[derive(Debug)]
pub(super) struct LastValue {
    column: usize,
    frame: Frame,
}

impl LastValue {
    pub fn new(column: usize, frame: Frame) -> Self {
        LastValue { column, frame }
    }
}

impl RunningFunction for LastValue {
    fn append(&mut self, step: &Step<'_>) -> Result<ArrayRef, Cause> {
        step.at_frame_end(step.rows.column(self.column).clone(), self.frame)
    }

    fn snapshot(&self, _writer: &mut SnapshotWriter) {}

    fn restore(&mut self, _reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        Ok(())
    }
}
