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
    pub(super) fn new(seed: u64) -> Self {
        Random { state: seed }
    }

    /// 64 random bits.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number in `0.0..1.0`, in steps of 2^-53.
    pub(super) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number between two others.
    pub(super) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + self.fraction() * (high - low)
    }

    /// True with this probability.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }

    /// A number of about the normal distribution: the sum of twelve equally distributed ones. It needs no functions that
    /// differ between platforms, and is never further from the mean than six times the deviation.
    pub(super) fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| self.fraction()).sum();
        mean + (sum - 6.0) * deviation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the reference implementation for the seed 1234567.
    #[test]
    fn follows_the_reference_sequence() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn normal_numbers_have_their_mean_and_deviation() {
        let mut random = Random::new(7);
        let numbers: Vec<f64> = (0..100_000).map(|_| random.normal(10.0, 2.0)).collect();
        let mean = numbers.iter().sum::<f64>() / 1e5;
        let variance = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / 1e5;
        assert!((mean - 10.0).abs() < 0.05 && (variance - 4.0).abs() < 0.1, "{mean} {variance}");
    }
}
