//! The sink: checks each answer, and records how long after its view was due it was committed.

use std::ops::RangeInclusive;
use std::sync::Arc;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::{UInt32Type, UInt64Type};
use tidemill_engine::{Cause, Clock, CycleOutput, Sink};

use crate::pace::Pace;

/// The answers, shared with the main thread.
pub struct Answers {
    /// Nanoseconds from the moment a view was due to the commit of its answer.
    pub response_ns: Histogram<u64>,
    /// Answers so far.
    pub count: u64,
    /// Answers with another count than theirs.
    pub wrong: u64,
}

/// Records answers.
pub struct Recorder {
    pace: Pace,
    clock: Arc<dyn Clock>,
    answers: Arc<Mutex<Answers>>,
    counts: Vec<u64>,
    /// Numbers of the views whose answers are prepared.
    prepared: Vec<u64>,
    wrong: u64,
    /// Whether it says that it may block.
    pub blocks: bool,
}

impl Recorder {
    /// A recorder, and the answers that it records.
    pub fn new(pace: Pace, clock: Arc<dyn Clock>) -> anyhow::Result<(Self, Arc<Mutex<Answers>>)> {
        let response_ns = Histogram::new_with_bounds(1, 60_000_000_000, 3)?;
        let answers = Arc::new(Mutex::new(Answers { response_ns, count: 0, wrong: 0 }));
        let (counts, prepared) = (vec![0; pace.keys as usize], Vec::new());
        let recorder = Recorder {
            pace,
            clock,
            answers: Arc::clone(&answers),
            counts,
            prepared,
            wrong: 0,
            blocks: false,
        };
        Ok((recorder, answers))
    }
}

impl Sink for Recorder {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        for rows in output.streams.into_iter().flatten().map(|batch| batch.rows) {
            let keys = rows.column(0).as_primitive::<UInt32Type>().values();
            let numbers = rows.column(1).as_primitive::<UInt64Type>().values();
            let counts = rows.column(2).as_primitive::<UInt64Type>().values();
            for ((key, number), count) in keys.iter().zip(numbers).zip(counts) {
                let expected = &mut self.counts[*key as usize];
                *expected += 1;
                self.wrong += u64::from(count != expected || *key != self.pace.key(*number));
            }
            self.prepared.extend_from_slice(numbers);
        }
        Ok(())
    }

    fn may_block(&self) -> bool {
        self.blocks
    }

    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        let now_ns = self.clock.now_ns();
        let mut answers = self.answers.lock();
        for number in self.prepared.drain(..) {
            let due_ns = self.pace.due_ns(number);
            if due_ns >= self.pace.measured_from_ns() {
                answers.response_ns.saturating_record(now_ns.saturating_sub(due_ns));
            }
            answers.count += 1;
        }
        answers.wrong = self.wrong;
        Ok(())
    }
}
