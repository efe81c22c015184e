//! A source with its rows in memory, and a sink that keeps rows and the times of commits.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parking_lot::{Mutex, MutexGuard};
use tidemill_engine::{Cause, CycleOutput, Guarantee, Polled, Sink, Source};

use crate::points;

/// Returns batches, then nothing; does not end if it stays.
pub struct Batches {
    pub batches: std::vec::IntoIter<RecordBatch>,
    pub stays: bool,
    /// How many rows are acknowledged.
    pub acknowledged: Arc<Mutex<u64>>,
}

impl Batches {
    pub fn new(batches: Vec<RecordBatch>, stays: bool) -> Batches {
        Batches { batches: batches.into_iter(), stays, acknowledged: Arc::default() }
    }
}

impl Source for Batches {
    fn schema(&self) -> SchemaRef {
        points::schema(false)
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        match self.batches.next() {
            Some(rows) => Ok(Polled::Rows(rows)),
            None if self.stays => {
                std::thread::sleep(wait);
                Ok(Polled::Nothing)
            }
            None => Ok(Polled::Ended),
        }
    }

    fn acknowledge(&mut self, rows: u64) {
        *self.acknowledged.lock() = rows;
    }

    fn is_finite(&self) -> bool {
        !self.stays
    }
}

/// What a sink has.
#[derive(Default)]
pub struct Kept {
    pub rows: Vec<RecordBatch>,
    pub committed: Option<u64>,
    /// When a commit was done, in nanoseconds since 1970, and how many messages were committed by then.
    pub commits: Vec<(u64, u64)>,
    prepared: u64,
}

/// A sink that keeps its rows, as if it were a database with transactions. Clones are the same sink.
#[derive(Clone, Default)]
pub struct Table(Arc<Mutex<Kept>>);

impl Table {
    pub fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock()
    }

    /// How many messages are committed.
    pub fn messages(&self) -> u64 {
        self.kept().commits.last().map_or(0, |commit| commit.1)
    }
}

impl Sink for Table {
    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }

    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        Ok(self.kept().committed)
    }

    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let mut kept = self.kept();
        kept.prepared = output.cut.positions[0];
        kept.rows.extend(output.streams.into_iter().flatten().map(|batch| batch.rows));
        Ok(())
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        let mut kept = self.kept();
        kept.committed = Some(*cycles.end());
        let commit = (now_ns(), kept.prepared);
        kept.commits.push(commit);
        Ok(())
    }
}

/// Nanoseconds since 1970.
pub fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}
