//! Response times in histograms: per event and per cycle, always on.

use std::time::Duration;

use hdrhistogram::Histogram;

/// A histogram of response times, from a microsecond to an hour, to three digits.
#[derive(Clone, Debug)]
pub struct ResponseTimes {
    histogram: Histogram<u64>,
}

const SHORTEST_NS: u64 = 1_000;
const LONGEST_NS: u64 = 3_600_000_000_000;

impl Default for ResponseTimes {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(SHORTEST_NS, LONGEST_NS, 3).expect("the bounds are valid");
        ResponseTimes { histogram }
    }
}

impl ResponseTimes {
    /// Records a response time for `count` events. Response times above an hour count as an hour.
    pub fn record(&mut self, response_ns: u64, count: u64) {
        // The histogram would take the time of no events for its maximum.
        if count > 0 {
            self.histogram.saturating_record_n(response_ns, count);
        }
    }

    /// The time within which this share of the events was answered, from 0 to 1.
    ///
    /// ```
    /// let mut times = tidemill_core::latency::ResponseTimes::default();
    /// times.record(1_000_000, 99);
    /// times.record(9_000_000, 1);
    /// assert_eq!(times.quantile(0.5).as_millis(), 1);
    /// assert_eq!(times.max().as_millis(), 9);
    /// ```
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.histogram.value_at_quantile(share))
    }

    /// The share of events, from 0 to 1, whose response took at most this long; 1 if there were none.
    ///
    /// ```
    /// use std::time::Duration;
    /// let mut times = tidemill_core::latency::ResponseTimes::default();
    /// times.record(1_000_000, 3);
    /// times.record(50_000_000, 1);
    /// assert_eq!(times.share_within(Duration::from_millis(20)), 0.75);
    /// ```
    pub fn share_within(&self, bound: Duration) -> f64 {
        match self.count() {
            0 => 1.0,
            count => self.count_within(bound) as f64 / count as f64,
        }
    }

    /// How many events were answered within this time.
    ///
    /// ```
    /// use std::time::Duration;
    /// let mut times = tidemill_core::latency::ResponseTimes::default();
    /// times.record(1_000_000, 3);
    /// assert_eq!(times.count_within(Duration::from_millis(20)), 3);
    /// assert_eq!(times.count_within(Duration::from_micros(20)), 0);
    /// ```
    pub fn count_within(&self, bound: Duration) -> u64 {
        self.histogram.count_between(0, u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The mean response time; zero if nothing was recorded.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.histogram.mean() as u64)
    }

    /// The longest response time; zero if nothing was recorded.
    pub fn max(&self) -> Duration {
        Duration::from_nanos(if self.histogram.is_empty() { 0 } else { self.histogram.max() })
    }

    /// How many events were recorded.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Adds another histogram's counts.
    pub fn add(&mut self, other: &ResponseTimes) {
        self.histogram.add(&other.histogram).expect("all histograms have the same bounds");
    }

    /// What was recorded after an earlier state of the same histogram.
    ///
    /// # Panics
    /// If `earlier` has counts that this one lacks.
    ///
    /// ```
    /// let mut times = tidemill_core::latency::ResponseTimes::default();
    /// times.record(50_000_000, 7);
    /// let earlier = times.clone();
    /// times.record(1_000_000, 3);
    /// let since = times.since(&earlier);
    /// assert_eq!((since.count(), since.max().as_millis()), (3, 1));
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &ResponseTimes) -> ResponseTimes {
        let mut since = self.clone();
        since.histogram.subtract(&earlier.histogram).expect("the earlier state has no counts of its own");
        since
    }

    /// Removes all counts.
    pub fn clear(&mut self) {
        self.histogram.reset();
    }
}
