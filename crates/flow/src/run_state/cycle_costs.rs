//! The worst that cycles have cost, by their events and by the parts of the plan.

use std::collections::BTreeMap;
use std::time::Duration;

/// What cycles have cost so far, in processor time of workers and threads of sinks. Only cycles count that were in flight alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CycleCosts {
    /// The names of the parts: the plan's transforms, then its operators.
    pub parts: Vec<String>,
    /// How many cycles were measured.
    pub cycles: u64,
    /// The worst cases, by a cycle's events: one, two, up to four, up to eight, and so on.
    pub by_events: BTreeMap<u64, SizeCosts>,
    /// The most for each event of a cycle, of all cycles.
    pub per_event: Duration,
    /// How many cycles have cost more than was stated.
    pub exceeded: u64,
    /// The cycle that has cost the most more.
    pub worst: Option<CostExceeded>,
}

/// The worst cases of cycles of about the same size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SizeCosts {
    /// The fewest events that one of them had.
    pub events_min: u64,
    /// The most that a whole cycle has cost.
    pub whole: Duration,
    /// The most that each part has cost in a cycle.
    pub parts: Vec<Duration>,
    /// The most that was left of a cycle: splitting and moving rows, the sinks, the engine itself.
    pub rest: Duration,
}

/// A cycle that has cost more than was stated: whatever was admitted because of that may be late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostExceeded {
    /// The cycle.
    pub cycle: u64,
    /// Its events.
    pub events: u64,
    /// What it has cost.
    pub cost: Duration,
    /// What it was to cost at most.
    pub stated: Duration,
}

/// What a cycle has cost.
pub(crate) struct OneCycle {
    pub events: u64,
    pub whole: Duration,
    pub parts: Vec<Duration>,
}

impl CycleCosts {
    /// Nothing was measured of these parts yet.
    pub fn of(parts: Vec<String>) -> CycleCosts {
        CycleCosts { parts, ..CycleCosts::default() }
    }

    pub(crate) fn add(&mut self, one: &OneCycle) {
        let OneCycle { events, whole, parts } = one;
        let rest = whole.saturating_sub(parts.iter().sum());
        let new = SizeCosts { events_min: *events, whole: *whole, parts: parts.clone(), rest };
        self.cycles += 1;
        self.per_event = self.per_event.max(*whole / u32::try_from(*events).unwrap_or(u32::MAX).max(1));
        self.by_events.entry(events.next_power_of_two()).or_default().add(&new);
    }

    pub(crate) fn exceeds(&mut self, exceeded: CostExceeded) {
        let excess = |worst: &CostExceeded| worst.cost.saturating_sub(worst.stated);
        self.exceeded += 1;
        if self.worst.as_ref().is_none_or(|worst| excess(worst) < excess(&exceeded)) {
            self.worst = Some(exceeded);
        }
    }

    /// The worst of this run and of another one of the same parts. What was exceeded is that of this run.
    pub fn merge(&mut self, other: &CycleCosts) {
        if self.parts != other.parts {
            return;
        }
        self.cycles = self.cycles.saturating_add(other.cycles);
        self.per_event = self.per_event.max(other.per_event);
        for (size, costs) in &other.by_events {
            self.by_events.entry(*size).or_default().add(costs);
        }
    }

    /// The worst case by events: for each size the fewest events of such a cycle, and the sum of the worst cases of all parts,
    /// which need not have come in the same cycle.
    pub fn worst_cases(&self) -> Vec<(u64, Duration)> {
        self.by_events.values().map(|costs| (costs.events_min, costs.together())).collect()
    }
}

impl SizeCosts {
    /// The sum of the worst cases of all parts.
    pub fn together(&self) -> Duration {
        self.parts.iter().fold(self.rest, |sum, part| sum.saturating_add(*part)).max(self.whole)
    }

    fn add(&mut self, other: &SizeCosts) {
        self.events_min = match self.events_min {
            0 => other.events_min,
            events_min => events_min.min(other.events_min),
        };
        self.parts.resize(self.parts.len().max(other.parts.len()), Duration::ZERO);
        for (most, part) in self.parts.iter_mut().zip(&other.parts) {
            *most = (*most).max(*part);
        }
        (self.whole, self.rest) = (self.whole.max(other.whole), self.rest.max(other.rest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    fn costs(cycles: &[(u64, u64, [u64; 2])]) -> CycleCosts {
        let mut costs = CycleCosts::of(vec!["filter".into(), "count".into()]);
        for (events, whole, parts) in cycles {
            costs.add(&OneCycle { events: *events, whole: ms(*whole), parts: parts.map(ms).to_vec() });
        }
        costs
    }

    #[test]
    fn worst_cases_are_kept_by_size_and_part() {
        let costs = costs(&[(1, 3, [1, 1]), (4, 20, [2, 14]), (3, 14, [8, 4]), (1, 4, [0, 1])]);
        let of = |events_min, whole, parts: [u64; 2], rest| SizeCosts {
            events_min,
            whole: ms(whole),
            parts: parts.map(ms).to_vec(),
            rest: ms(rest),
        };
        assert_eq!(costs.by_events, BTreeMap::from([(1, of(1, 4, [1, 1], 3)), (4, of(3, 20, [8, 14], 4))]));
        assert_eq!((costs.cycles, costs.per_event), (4, ms(5)));
        // The worst of each part may come together.
        assert_eq!(costs.worst_cases(), [(1, ms(5)), (3, ms(26))]);
    }

    #[test]
    fn runs_are_merged_and_other_plans_are_not() {
        let mut one = costs(&[(1, 3, [1, 1]), (8, 20, [2, 14])]);
        let other = costs(&[(1, 2, [2, 0]), (5, 30, [1, 1])]);
        one.merge(&other);
        assert_eq!(one.cycles, 4);
        assert_eq!(one.worst_cases(), [(1, ms(4)), (5, ms(44))]);
        let before = one.clone();
        one.merge(&CycleCosts { cycles: 9, ..CycleCosts::of(vec!["another".into()]) });
        assert_eq!(one, before);
    }

    #[test]
    fn the_cycle_that_exceeds_most_is_kept() {
        let mut costs = costs(&[]);
        for (cycle, cost) in [(2, 14), (3, 20), (4, 15)] {
            costs.exceeds(CostExceeded { cycle, events: 1, cost: ms(cost), stated: ms(12) });
        }
        assert_eq!((costs.exceeded, costs.worst.unwrap().cycle), (3, 3));
    }
}
