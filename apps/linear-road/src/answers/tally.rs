//! Counts answers while they go out: how many, how late, how long they took.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tidemill_engine::arrow::array::types::UInt64Type;
use tidemill_engine::{Arrivals, Batch, ResponseTimes};

use super::{KINDS, LIMITS_S, TOLLS};

/// Answers of one kind so far.
#[derive(Clone, Debug, Default)]
pub struct KindTally {
    /// How many.
    pub answers: u64,
    /// How many took longer than the specification's limit.
    pub late: u64,
    /// From the event's arrival to the answer's timestamp.
    pub response_times: ResponseTimes,
}

/// All answers so far; shared by its clones.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    counts: Arc<Mutex<Counts>>,
}

/// The contents of a [`Tally`].
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// By kind.
    pub kinds: [KindTally; KINDS],
    /// Toll notifications with a toll above 0.
    pub tolls_above_zero: u64,
}

impl Tally {
    /// Counts a batch of answers that go out now.
    pub fn count(&self, kind: usize, answers: &Batch, arrivals: &Arrivals, now_ns: u64) {
        let mut counts = self.lock();
        if kind == TOLLS {
            let tolls = answers.as_rows().column::<UInt64Type>(3);
            counts.tolls_above_zero += tolls.iter().filter(|toll| **toll > 0).count() as u64;
        }
        let tally = &mut counts.kinds[kind];
        tally.answers += answers.len() as u64;
        // Answers are in the order of position: each chunk of arrivals caused a range of them.
        let starts = arrivals.chunks.iter().map(|chunk| answers.positions.partition_point(|p| *p < chunk.0));
        let starts: Vec<usize> = starts.collect();
        let ends = starts.iter().skip(1).copied().chain([answers.len()]);
        for ((start, end), chunk) in starts.iter().zip(ends).zip(&arrivals.chunks) {
            let response_ns = now_ns.saturating_sub(chunk.1);
            let rows = (end - start) as u64;
            if rows > 0 {
                tally.response_times.record(response_ns, rows);
            }
            if response_ns > LIMITS_S[kind] * 1_000_000_000 {
                tally.late += rows;
            }
        }
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock()
    }
}
