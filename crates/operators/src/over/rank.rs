//! `RANK()`.

use std::sync::Arc;

use arrow_array::{ArrayRef, UInt64Array};
use tidemill_core::error::Cause;
use tidemill_core::{SnapshotReader, SnapshotWriter};

use super::function::{RunningFunction, Step};

/// Numbers the rows of each key. Rows with equal event time have the number of the first of them.
#[derive(Debug, Default)]
pub(super) struct Rank {
    keys: Vec<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    rows: u64,
    time: i64,
    rank: u64,
}

impl RunningFunction for Rank {
    fn append(&mut self, step: &Step<'_>) -> Result<ArrayRef, Cause> {
        self.keys.resize(step.key_count, State::default());
        let rank = |(key, time): (&u32, &i64)| {
            let state = &mut self.keys[*key as usize];
            state.rows += 1;
            if state.rank == 0 || state.time != *time {
                (state.time, state.rank) = (*time, state.rows);
            }
            state.rank
        };
        Ok(Arc::new(step.keys.iter().zip(step.times).map(rank).collect::<UInt64Array>()))
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u64(self.keys.len() as u64);
        for state in &self.keys {
            writer.u64(state.rows);
            writer.i64(state.time);
            writer.u64(state.rank);
        }
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        for _ in 0..reader.u64()? {
            self.keys.push(State { rows: reader.u64()?, time: reader.i64()?, rank: reader.u64()? });
        }
        Ok(())
    }
}
