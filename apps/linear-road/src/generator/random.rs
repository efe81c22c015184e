//! Seeded random numbers: SplitMix64, the same on every platform and for ever, for published results name the data sets that come of
//! them by their seeds.

/// Added to the state with every number; odd, so that the state runs through all 2^64 values.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A small, fast generator of random numbers (Steele, Lea and Flood, 2014). Not for cryptography.
#[derive(Clone, Debug)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    /// A sequence for `purpose`, independent of the sequences of other purposes under the same seed, so that
    /// one part of the simulation can draw more without changing what the others draw.
    pub(super) fn new(seed: u64, purpose: u64) -> Self {
        let mut source = Random { state: seed };
        let first = source.next();
        let mut mixed = Random { state: first ^ purpose.wrapping_mul(STEP) };
        Random { state: mixed.next() }
    }

    /// 64 random bits.
    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number in `0..limit` (0 where `limit` is 0). The bias is below `limit` / 2^32.
    #[inline]
    pub(super) fn below(&mut self, limit: u32) -> u32 {
        (((self.next() >> 32) * u64::from(limit)) >> 32) as u32
    }

    /// A number in `first..=last`.
    pub(super) fn between(&mut self, first: u32, last: u32) -> u32 {
        first + self.below(last - first + 1)
    }

    /// A number in `0.0..1.0`, in steps of 2^-24 (exact in an `f32`).
    pub(super) fn fraction(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 24) as f32
    }

    /// True in `percent` of a hundred cases.
    pub(super) fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    /// The first numbers of the reference implementation for the seed 1234567.
    #[test]
    fn follows_the_reference_sequence() {
        let mut random = Random { state: 1_234_567 };
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn covers_the_asked_range_evenly() {
        let mut random = Random::new(7, 1);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[random.between(3, 12) as usize - 3] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }
}
