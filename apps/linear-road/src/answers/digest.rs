//! Answers that are only compared: how many of each kind, and the sum of their hashes.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tidemill_engine::arrow::array::types::{Int8Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use tidemill_engine::{Batch, Cause, CycleOutput, Sink};

use super::tally::Tally;
use super::{ACCIDENTS, KINDS, TOLLS};

/// The answers of one kind: how many, and the sum of their hashes without the second at which each is given.
///
/// When an answer is given depends on the run, and so does the order of answers. What it says does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindDigest {
    /// How many.
    pub answers: u64,
    /// The sum of their hashes, modulo 2 to the power of 64.
    pub hash_sum: u64,
}

/// The digests of all committed answers, by kind; shared by its clones.
///
/// It serves runs whose answers would fill a disk: 512 expressways give two billion of them.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_linear_road::answers::digest::AnswerDigest;
/// use tidemill_linear_road::generator::GeneratorConfig;
/// use tidemill_linear_road::run::{Input, Run, RunOptions};
///
/// let digest_of = |workers| {
///     let traffic = GeneratorConfig { minutes: 2, ..GeneratorConfig::default() };
///     let options = RunOptions { workers, ..RunOptions::new(Input::Generated(traffic), "no answers go here") };
///     let digest = AnswerDigest::default();
///     let run = Run::start_into(options, Arc::default(), |tally| Ok(digest.sink(tally)))?;
///     run.join()?;
///     Ok::<_, Box<dyn std::error::Error>>(digest.kinds())
/// };
/// assert_eq!(digest_of(1)?, digest_of(2)?);
/// assert!(digest_of(1)?[0].answers > 10_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct AnswerDigest {
    kinds: Arc<Mutex<[KindDigest; KINDS]>>,
}

impl AnswerDigest {
    /// The sink that fills it.
    pub fn sink(&self, tally: Tally) -> Box<dyn Sink> {
        Box::new(DigestSink { digest: self.clone(), tally, prepared: [KindDigest::default(); KINDS] })
    }

    /// The digests so far, in the order of kinds.
    pub fn kinds(&self) -> [KindDigest; KINDS] {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, [KindDigest; KINDS]> {
        self.kinds.lock()
    }
}

impl KindDigest {
    fn add(&mut self, more: KindDigest) {
        self.answers += more.answers;
        self.hash_sum = self.hash_sum.wrapping_add(more.hash_sum);
    }
}

struct DigestSink {
    digest: AnswerDigest,
    tally: Tally,
    prepared: [KindDigest; KINDS],
}

impl Sink for DigestSink {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let now_ns = output.clock.now_ns();
        for (kind, answers) in output.streams.iter().enumerate() {
            if let Some(answers) = answers {
                self.tally.count(kind, answers, &output.arrivals, now_ns);
                self.prepared[kind].add(digest(kind, answers));
            }
        }
        Ok(())
    }

    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        let prepared = std::mem::take(&mut self.prepared);
        self.digest.lock().iter_mut().zip(prepared).for_each(|(kind, more)| kind.add(more));
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Cause> {
        Ok(())
    }
}

/// The rows have the columns of [`encode::lines`](super::encode::lines).
fn digest(kind: usize, answers: &Batch) -> KindDigest {
    let rows = answers.as_rows();
    let hash_sum = match kind {
        TOLLS => {
            let (vids, times) = (rows.column::<UInt32Type>(0), rows.column::<UInt16Type>(1));
            let (lavs, tolls) = (rows.column::<Int8Type>(2), rows.column::<UInt64Type>(3));
            sum_of(rows.len(), |row| hash((vids[row], times[row], lavs[row], tolls[row])))
        }
        ACCIDENTS => {
            let (times, vids) = (rows.column::<UInt16Type>(0), rows.column::<UInt32Type>(1));
            let segs = rows.column::<UInt8Type>(2);
            sum_of(rows.len(), |row| hash((times[row], vids[row], segs[row])))
        }
        _ => {
            let (times, qids) = (rows.column::<UInt16Type>(0), rows.column::<UInt64Type>(1));
            let amounts = rows.column::<UInt64Type>(2);
            sum_of(rows.len(), |row| hash((times[row], qids[row], amounts[row])))
        }
    };
    KindDigest { answers: rows.len() as u64, hash_sum }
}

fn sum_of(rows: usize, hash_of: impl Fn(usize) -> u64) -> u64 {
    (0..rows).map(hash_of).fold(0, u64::wrapping_add)
}

fn hash(answer: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    answer.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_and_its_place_counts() {
        assert_eq!(hash([7, 30, 55, 20]), hash([7, 30, 55, 20]));
        for other in [[8, 30, 55, 20], [7, 31, 55, 20], [7, 30, 54, 20], [7, 30, 55, 21], [30, 7, 55, 20]] {
            assert_ne!(hash([7, 30, 55, 20]), hash(other), "{other:?}");
        }
    }

    #[test]
    fn answers_that_come_twice_do_not_cancel_out() {
        let answer = KindDigest { answers: 1, hash_sum: hash([7, 30, 55]) };
        let (mut once, mut twice) = (answer, answer);
        once.add(KindDigest { answers: 1, hash_sum: hash([8, 30, 55]) });
        twice.add(answer);
        assert_ne!(once, twice);
        assert_ne!(twice.hash_sum, 0);
    }
}
