//! The largest mean of consecutive cycles.

use std::collections::VecDeque;
use std::time::Duration;

/// Over how many cycles the mean is taken.
const CYCLES: usize = 1000;

/// The largest mean time of a thousand consecutive cycles.
#[derive(Default)]
pub(super) struct LargestMean {
    /// The times of the last cycles, in nanoseconds, and their sum.
    last: VecDeque<u64>,
    sum_ns: u64,
    largest: Option<Duration>,
}

impl LargestMean {
    /// A cycle has taken this long.
    pub fn record(&mut self, time_ns: u64) {
        self.last.push_back(time_ns);
        self.sum_ns = self.sum_ns.saturating_add(time_ns);
        if self.last.len() > CYCLES {
            self.sum_ns = self.sum_ns.saturating_sub(self.last.pop_front().unwrap_or(0));
        }
        if self.last.len() == CYCLES {
            let mean = Duration::from_nanos(self.sum_ns / CYCLES as u64);
            self.largest = self.largest.max(Some(mean));
        }
    }

    /// The largest mean; `None` before the thousandth cycle.
    pub fn largest(&self) -> Option<Duration> {
        self.largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_mean_is_that_of_the_slowest_thousand() {
        let time_ns = |cycle: u64| if (1500..2600).contains(&cycle) { 9_000 } else { cycle % 7 * 100 };
        let mut largest = LargestMean::default();
        for cycle in 0..5000 {
            largest.record(time_ns(cycle));
            // Looking at all windows each time would take long.
            if (995..1005).contains(&cycle) || cycle % 500 == 0 {
                let times: Vec<u64> = (0..=cycle).map(time_ns).collect();
                let expected = times.windows(1000).map(|window| window.iter().sum::<u64>() / 1000).max();
                assert_eq!(largest.largest(), expected.map(Duration::from_nanos), "cycle {cycle}");
            }
        }
        assert_eq!(largest.largest(), Some(Duration::from_micros(9)));
    }
}
