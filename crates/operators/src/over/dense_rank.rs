//! `DENSE_RANK()`.

use std::sync::Arc;

use arrow_array::{ArrayRef, UInt64Array};
use tidemill_core::error::Cause;
use tidemill_core::{SnapshotReader, SnapshotWriter};

use super::function::{RunningFunction, Step};

/// Numbers the event times of each key.
#[derive(Debug, Default)]
pub(super) struct DenseRank {
    /// The last event time and its number; 0 before the first.
    keys: Vec<(i64, u64)>,
}

impl RunningFunction for DenseRank {
    fn append(&mut self, step: &Step<'_>) -> Result<ArrayRef, Cause> {
        self.keys.resize(step.key_count, (0, 0));
        let rank = |(key, time): (&u32, &i64)| {
            let (last, rank) = &mut self.keys[*key as usize];
            if *rank == 0 || last != time {
                (*last, *rank) = (*time, *rank + 1);
            }
            *rank
        };
        Ok(Arc::new(step.keys.iter().zip(step.times).map(rank).collect::<UInt64Array>()))
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u64(self.keys.len() as u64);
        for (time, rank) in &self.keys {
            writer.i64(*time);
            writer.u64(*rank);
        }
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        for _ in 0..reader.u64()? {
            self.keys.push((reader.i64()?, reader.u64()?));
        }
        Ok(())
    }
}
