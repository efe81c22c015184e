//! Random numbers by a seed: a test that prints its seed can be repeated.

use fastrand::Rng;

/// Random numbers; the same for the same seed.
#[derive(Clone, Debug)]
pub struct Random(Rng);

impl Random {
    /// Starts the numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Random(Rng::with_seed(seed))
    }

    /// Starts the numbers of a stream of their own within a seed.
    pub fn of_stream(seed: u64, stream: u64) -> Self {
        Random::new(seed ^ stream.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    /// Returns the next number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// Returns a number below the limit; 0 if that is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.u64(..limit.max(1))
    }

    /// Returns the index of one of `length` things; 0 if there are none.
    pub fn index(&mut self, length: usize) -> usize {
        self.0.usize(..length.max(1))
    }

    /// Returns true once in `times`, on average.
    pub fn is_once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Returns one of them; there must be one.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.index(all.len())]
    }
}
