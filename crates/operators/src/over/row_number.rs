//! `ROW_NUMBER()`.

use std::sync::Arc;

use arrow_array::{ArrayRef, UInt64Array};
use tidemill_core::error::Cause;
use tidemill_core::{SnapshotReader, SnapshotWriter};

use super::function::{RunningFunction, Step};

/// Counts the rows of each key.
#[derive(Debug, Default)]
pub(super) struct RowNumber {
    rows: Vec<u64>,
}

impl RunningFunction for RowNumber {
    fn append(&mut self, step: &Step<'_>) -> Result<ArrayRef, Cause> {
        self.rows.resize(step.key_count, 0);
        let number = |key: &u32| {
            let rows = &mut self.rows[*key as usize];
            *rows += 1;
            *rows
        };
        Ok(Arc::new(step.keys.iter().map(number).collect::<UInt64Array>()))
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u64(self.rows.len() as u64);
        self.rows.iter().for_each(|rows| writer.u64(*rows));
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.rows = (0..reader.u64()?).map(|_| reader.u64()).collect::<Result<_, _>>()?;
        Ok(())
    }
}
