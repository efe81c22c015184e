//! The rating's sink: answers are timestamped, counted, encoded, hashed and dropped; some copies are checked.

use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;
use tidemill_engine::{Cause, CycleOutput, Sink};

use super::check::{self, CopyCheck, RightAnswers};
use crate::answers::tally::Tally;
use crate::answers::{KINDS, encode};

/// Processes answers.
#[derive(Debug)]
pub(crate) struct RatingSink {
    pub tally: Tally,
    pub check: Arc<Mutex<CopyCheck>>,
    pub text: Vec<u8>,
    /// A checksum of all bytes that would have been written, and their number.
    pub written: Arc<Mutex<(u32, u64)>>,
}

impl Sink for RatingSink {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let now_ns = output.clock.now_ns();
        let mut check = self.check.lock();
        self.text.clear();
        for (kind, answers) in output.streams.iter().enumerate() {
            if let Some(answers) = answers {
                encode::lines(kind, answers, &output.arrivals, now_ns, &mut self.text);
                self.tally.count(kind, answers, &output.arrivals, now_ns);
                check.take(kind, answers);
            }
        }
        let mut written = self.written.lock();
        written.0 = written.0.rotate_left(1) ^ crc32fast::hash(&self.text);
        written.1 += self.text.len() as u64;
        Ok(())
    }

    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        Ok(())
    }
}

/// Collects the base group's right answers.
#[derive(Debug, Default)]
pub(crate) struct CollectingSink {
    pub right: Arc<Mutex<RightAnswers>>,
    /// Answers to earlier events are not kept.
    pub from_second: u16,
}

impl Sink for CollectingSink {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let mut right = self.right.lock();
        for (kind, answers) in output.streams.iter().enumerate().take(KINDS) {
            if let Some(answers) = answers {
                let kept = check::answers(kind, answers).filter(|answer| answer.1 >= self.from_second);
                right.kinds[kind].extend(kept);
            }
        }
        Ok(())
    }

    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        Ok(())
    }
}
