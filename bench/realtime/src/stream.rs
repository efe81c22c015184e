//! The streams of the paper's Table 2, and when their elements arrive: generated once, and the same for both sides.

use std::time::Duration;

use fastrand::Rng;

/// A stream.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Its name in the paper.
    pub name: &'static str,
    /// The least and the most time between arrivals.
    pub between_ms: (u64, u64),
    /// How many elements arrive at once.
    pub burst: u64,
    /// What an element costs.
    pub wcet_ms: u64,
    /// Within which time its answer is due.
    pub deadline_ms: u64,
}

const fn stream(name: &'static str, least_ms: u64, most_ms: u64, burst: u64) -> Stream {
    Stream { name, between_ms: (least_ms, most_ms), burst, wcet_ms: 28, deadline_ms: 150 }
}

/// Section 6.1: a low rate and a short deadline.
pub const LOW: Stream = Stream { wcet_ms: 34, deadline_ms: 60, ..stream("6.1", 200, 400, 1) };
/// Medium, high and overload; bursts of four.
pub const MEDIUM: Stream = stream("M", 100, 200, 1);
/// See [`MEDIUM`].
pub const HIGH: Stream = stream("H", 50, 100, 1);
/// See [`MEDIUM`].
pub const OVERLOAD: Stream = stream("O", 20, 40, 1);
/// See [`MEDIUM`].
pub const BURSTS: Stream = stream("B", 200, 400, 4);

/// Real milliseconds for each of the paper's, as a fraction: 1 for the paper's times.
#[derive(Clone, Copy, Debug)]
pub struct Scale(pub f64);

impl Scale {
    /// A time of the paper on this machine.
    pub fn time(self, ms: u64) -> Duration {
        Duration::from_secs_f64(ms as f64 * self.0 / 1e3)
    }
}

/// How long after the start of the stream the first element may arrive.
const FIRST_MS: u64 = 400;

impl Stream {
    /// When each of `elements` elements arrives, from the start on; the same for the same seed.
    pub fn arrivals(&self, elements: usize, seed: u64, scale: Scale) -> Vec<Duration> {
        let mut random = Rng::with_seed(seed);
        let (least_ms, most_ms) = self.between_ms;
        let mut at = scale.time(FIRST_MS);
        let mut arrivals = Vec::with_capacity(elements);
        while arrivals.len() < elements {
            let burst = (self.burst as usize).min(elements - arrivals.len());
            arrivals.extend(std::iter::repeat_n(at, burst));
            at += scale.time(least_ms) + scale.time(most_ms - least_ms).mul_f64(random.f64());
        }
        arrivals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_arrive_within_their_bounds() {
        let arrivals = BURSTS.arrivals(10, 3, Scale(1.0));
        assert_eq!((arrivals.len(), arrivals[0]), (10, Duration::from_millis(400)));
        assert!(arrivals[0] == arrivals[3] && arrivals[4] == arrivals[7] && arrivals[8] == arrivals[9]);
        let gap = arrivals[4] - arrivals[3];
        assert!(gap >= Duration::from_millis(200) && gap <= Duration::from_millis(400), "{gap:?}");
        assert_eq!(BURSTS.arrivals(10, 3, Scale(1.0)), arrivals);
        assert_ne!(BURSTS.arrivals(10, 4, Scale(1.0)), arrivals);
    }
}
