//! How events arrive: in bursts, with a gap between them.

/// Events that arrive in bursts, a minimum gap apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrivals {
    /// The most events that arrive at once.
    pub burst: u64,
    /// From one burst to the next at least; for a burst of 1, from one event to the next.
    pub gap_ns: u64,
    /// Whether every burst has exactly this many events.
    pub exact: bool,
}

impl Arrivals {
    /// Single events, at least this far apart.
    pub fn spaced(gap_ns: u64) -> Self {
        Arrivals::bursts_up_to(1, gap_ns)
    }

    /// At most this many events at once, and none for at least the gap behind them.
    pub fn bursts_up_to(burst: u64, gap_ns: u64) -> Self {
        Arrivals { burst: burst.max(1), gap_ns: gap_ns.max(1), exact: false }
    }

    /// Exactly this many events at once, never fewer.
    pub fn bursts_of(burst: u64, gap_ns: u64) -> Self {
        Arrivals { exact: true, ..Arrivals::bursts_up_to(burst, gap_ns) }
    }

    /// The most events that arrive within a window of this length, its end not included; a burst in an empty window.
    pub fn most_within(&self, window_ns: u64) -> u64 {
        window_ns.div_ceil(self.gap_ns).max(1).saturating_mul(self.burst)
    }

    /// The least time from the first to the last of this many events.
    pub fn least_span_ns(&self, events: u64) -> u64 {
        (events.saturating_sub(1) / self.burst).saturating_mul(self.gap_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_and_spans_belong_together() {
        let bursts = Arrivals::bursts_up_to(4, 200);
        assert_eq!([0, 1, 200, 201].map(|window| bursts.most_within(window)), [4, 4, 4, 8]);
        assert_eq!([1, 4, 5, 8, 9].map(|events| bursts.least_span_ns(events)), [0, 0, 200, 200, 400]);
        assert_eq!(Arrivals::spaced(50).most_within(100), 2);
    }
}
