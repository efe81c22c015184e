//! What a batch costs at most, by its events: from measurements of some sizes, for all sizes.

/// The worst-case processor time of a batch, as a straight line over its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostModel {
    /// Of the batch beside its events.
    pub batch_ns: u64,
    /// Of each event.
    pub event_ns: u64,
}

impl CostModel {
    /// Batches that cost nothing beside their events.
    pub fn of_event(event_ns: u64) -> Self {
        CostModel { batch_ns: 0, event_ns }
    }

    /// The cost of a batch of this many events.
    pub fn of(&self, events: u64) -> u64 {
        self.batch_ns.saturating_add(self.event_ns.saturating_mul(events))
    }

    /// Lines that are nowhere below these measured costs, each with the events of its batch; those that are low for batches of
    /// `events` come first. Each is a bound, and another one may be the best for an analysis. None if nothing was measured.
    ///
    /// A batch that is smaller than all that were measured counts as much as the smallest of them. In one that is larger, each event
    /// more costs at least its part of the most that was measured.
    pub fn above(measured: &[(u64, u64)], events: u64) -> Vec<CostModel> {
        let mut points: Vec<(u64, u64)> =
            measured.iter().map(|(size, cost_ns)| ((*size).max(1), *cost_ns)).collect();
        points.sort_unstable();
        let (Some(&(least, first_ns)), Some(&(most, last_ns))) = (points.first(), points.last()) else {
            return Vec::new();
        };
        let most_ns = points.iter().map(|(_, cost_ns)| *cost_ns).max().unwrap_or(0);
        let slope_at_end_ns = slope_ns((least, first_ns), (most, last_ns)).unwrap_or(0);
        let steepness_ns = most_ns.div_ceil(most).max(slope_at_end_ns);
        points.push((1, first_ns));
        let slopes = points.iter().flat_map(|one| points.iter().filter_map(|other| slope_ns(*one, *other)));
        // A line through the origin needs the largest cost for each event.
        let by_event_ns = points.iter().map(|(size, cost_ns)| cost_ns.div_ceil(*size)).max().unwrap_or(0);
        let slopes = slopes.chain([steepness_ns, by_event_ns]).filter(|slope_ns| *slope_ns >= steepness_ns);
        let lines = slopes.map(|event_ns| {
            let missing =
                points.iter().map(|(size, cost_ns)| cost_ns.saturating_sub(event_ns.saturating_mul(*size)));
            CostModel { batch_ns: missing.max().unwrap_or(0), event_ns }
        });
        let mut lines: Vec<CostModel> = lines.collect();
        lines.sort_unstable_by_key(|line| (line.of(events.max(1)), line.event_ns));
        lines.dedup();
        lines
    }
}

/// How steep the line from a smaller batch to a larger one is, rounded up.
fn slope_ns((less, less_ns): (u64, u64), (more, more_ns): (u64, u64)) -> Option<u64> {
    (less < more && less_ns <= more_ns).then(|| (more_ns - less_ns).div_ceil(more - less))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(batch_ns: u64, event_ns: u64) -> Option<CostModel> {
        Some(CostModel { batch_ns, event_ns })
    }

    #[test]
    fn costs_on_a_line_give_about_that_line() {
        let exact: Vec<_> = [1, 2, 8, 100].map(|events| (events, 200 + 3 * events)).into();
        // For more than a hundred events, an event counts as one of these.
        let first = |measured: &[(u64, u64)], events| CostModel::above(measured, events).first().copied();
        assert_eq!(first(&exact, 4), line(198, 5));
        // Steeper ones have cheaper batches: here, a line without any cost of a batch.
        assert_eq!(CostModel::above(&exact, 4).last().copied(), line(0, 203));
        // The later events cost more than the first.
        assert_eq!(first(&[(1, 10), (2, 11), (4, 130)], 4), line(0, 40));
        // A larger batch that cost less makes nothing cheaper.
        assert_eq!(first(&[(64, 640), (128, 256)], 64), line(635, 5));
        assert_eq!(first(&[(1, 10)], 4), line(0, 10));
        assert_eq!(first(&[], 4), None);
        assert_eq!(CostModel::of_event(7).of(3), 21);
    }

    #[test]
    fn one_size_bounds_smaller_and_larger_ones() {
        let found = CostModel::above(&[(4, 100)], 4)[0];
        assert_eq!(found, CostModel { batch_ns: 75, event_ns: 25 });
        assert!(found.of(1) >= 100 && found.of(8) >= 200);
    }

    #[test]
    fn no_line_is_below_what_was_measured() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..5000 {
            let measured: Vec<_> =
                (0..random.u64(1..=6)).map(|_| (random.u64(1..=200), random.u64(..1_000_000))).collect();
            let events = random.u64(1..=300);
            let (least, first_ns) = *measured.iter().min().unwrap();
            let most = measured.iter().map(|(size, _)| *size).max().unwrap();
            let most_ns = measured.iter().map(|(_, cost_ns)| *cost_ns).max().unwrap();
            for found in CostModel::above(&measured, events) {
                let is_above = |(size, cost_ns): &(u64, u64)| found.of(*size) >= *cost_ns;
                assert!(measured.iter().all(is_above), "{measured:?}: {found:?}");
                assert!((1..least).all(|size| found.of(size) >= first_ns), "{measured:?}: {found:?}");
                assert!(found.of(10 * most) >= 10 * most_ns, "{measured:?}: {found:?}");
            }
        }
    }

    #[test]
    fn costs_that_are_too_large_stay_large() {
        let found = CostModel::above(&[(1, u64::MAX), (2, u64::MAX)], u64::MAX);
        assert!(!found.is_empty() && found.iter().all(|line| line.of(u64::MAX) == u64::MAX));
    }
}
