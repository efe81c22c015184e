//! How many splitters a lattice gets, by the papers' rules, and when their number changes while a query runs.

use crate::cost::{Proportions, rate_max, splitters_for_rate, splitters_heuristic};
use crate::profile::SplitProfile;
use crate::split_plan::SplitPlan;

/// The rule that says how many splitters a lattice has for a wanted rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplittersBy {
    /// The rule of thumb of Paper V, from the rate of one splitter with one output and the number of partitions. It does
    /// not look at how much is broadcast, and assumes 1 %.
    Heuristic,
    /// The cost model: as many as reach the rate with the measured shares of rows.
    Model,
}

/// Profiles of the same stream differ by about this much. A number of splitters that a cost within it explains stays.
const NOISE: f64 = 0.1;

impl SplittersBy {
    /// The splitters for a rate, in events per second; more than there can be if the rate is infinite.
    ///
    /// ```
    /// use tidemill_split::SplittersBy;
    /// use tidemill_split::cost::{Proportions, RouterCosts, SplitterCosts};
    /// use tidemill_split::profile::SplitProfile;
    /// let profile = SplitProfile {
    ///     splitter: SplitterCosts { consume_ns: 2.0, process_ns: 3.0, emit_ns: 5.0 },
    ///     router: RouterCosts::default(),
    ///     parts: Proportions::broadcast_part(0.0).unwrap(),
    ///     query_ns: 0.0,
    /// };
    /// // One splitter takes 10 ns per event, so two reach 200 M/s. The rule of thumb adds 1 % for each partition.
    /// assert_eq!(SplittersBy::Model.splitters(&profile, 64, 2e8), 2);
    /// assert_eq!(SplittersBy::Heuristic.splitters(&profile, 64, 2e8), 4);
    /// ```
    pub fn splitters(self, profile: &SplitProfile, partitions: u32, desired_rate: f64) -> u32 {
        self.with_costs(profile, partitions, desired_rate, 1.0)
    }

    /// The same if everything cost this many times as much.
    fn with_costs(self, profile: &SplitProfile, partitions: u32, desired_rate: f64, times: f64) -> u32 {
        match self {
            SplittersBy::Model => {
                let one_ns = profile.whole_split_ns(partitions) * times;
                splitters_for_rate(one_ns, desired_rate)
            }
            SplittersBy::Heuristic => {
                let assumed = Proportions::broadcast_part(0.01).unwrap_or(profile.parts);
                let one_ns = profile.splitter.fsplit(assumed, 1) * times;
                splitters_heuristic(desired_rate, rate_max(one_ns), partitions)
            }
        }
    }
}

/// A lattice whose number of splitters follows a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatticeRule {
    /// How many splitters.
    pub splitters: SplittersBy,
    /// Whether the windows pass a tree of window routers.
    pub is_tree: bool,
}

impl LatticeRule {
    /// The lattice for a rate. It has at most as many splitters as there are workers, because then each worker splits what
    /// it has.
    pub fn plan(self, profile: &SplitProfile, partitions: u32, desired_rate: f64, workers: u32) -> SplitPlan {
        self.of(partitions, self.splitters.splitters(profile, partitions, desired_rate).min(workers.max(1)))
    }

    /// The lattice with this many splitters.
    pub fn of(self, partitions: u32, splitters: u32) -> SplitPlan {
        if self.is_tree {
            SplitPlan::parasplit_tree(partitions, splitters)
        } else {
            SplitPlan::parasplit(partitions, splitters)
        }
    }

    /// Whether the current plan is that lattice, or would be if the costs differed by no more than measurements do.
    ///
    /// ```
    /// use tidemill_split::{LatticeRule, SplitPlan, SplittersBy};
    /// use tidemill_split::cost::{Proportions, RouterCosts, SplitterCosts};
    /// use tidemill_split::profile::SplitProfile;
    /// let profile = |emit_ns| SplitProfile {
    ///     splitter: SplitterCosts { consume_ns: 2.0, process_ns: 3.0, emit_ns },
    ///     router: RouterCosts::default(),
    ///     parts: Proportions::broadcast_part(0.0).unwrap(),
    ///     query_ns: 0.0,
    /// };
    /// let rule = LatticeRule { splitters: SplittersBy::Model, is_tree: false };
    /// let plan = rule.plan(&profile(4.9), 64, 2e8, 8);
    /// assert_eq!(plan, SplitPlan::parasplit(64, 2));
    /// // 10.1 ns would need three, but that is noise. 12 ns is not.
    /// assert!(rule.keeps(&plan, &profile(5.1), 2e8, 8));
    /// assert!(!rule.keeps(&plan, &profile(7.0), 2e8, 8));
    /// ```
    pub fn keeps(self, current: &SplitPlan, profile: &SplitProfile, desired_rate: f64, workers: u32) -> bool {
        let bound = |times| {
            let splitters = self.splitters.with_costs(profile, current.partitions, desired_rate, times);
            splitters.min(workers.max(1))
        };
        let splitters = current.splitters();
        let is_shaped_so =
            *current == self.of(current.partitions, splitters).with_window_rows(current.window_rows);
        is_shaped_so && (bound(1.0 - NOISE)..=bound(1.0 + NOISE)).contains(&splitters)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cost::{RouterCosts, SplitterCosts};

    fn profile(broadcast: f64, scale: f64) -> SplitProfile {
        let splitter =
            SplitterCosts { consume_ns: 2.0 * scale, process_ns: 3.0 * scale, emit_ns: 5.0 * scale };
        let parts = Proportions::broadcast_part(broadcast).unwrap();
        SplitProfile { splitter, router: RouterCosts::default(), parts, query_ns: 0.0 }
    }

    #[test]
    fn the_heuristic_is_the_papers_and_knows_nothing_of_what_is_broadcast() {
        // One splitter reaches 100 M/s with one output, whatever is broadcast.
        for broadcast in [0.0, 0.01, 1.0] {
            let by = |q, rate| SplittersBy::Heuristic.splitters(&profile(broadcast, 1.0), q, rate);
            // 1 * (0.99 + 0.01), 1 * (0.99 + 0.64), 2.5 * (0.99 + 5.12).
            assert_eq!((by(1, 1e8), by(64, 1e8), by(512, 2.5e8)), (1, 2, 16));
        }
        // The model does: 0.005 of the rows to all of 64 partitions are copied, half of the rows are shared.
        let by = |broadcast| SplittersBy::Model.splitters(&profile(broadcast, 1.0), 64, 1e9);
        // 2 + 8 * (0.995 + 0.32) = 12.52 ns.
        assert_eq!([0.0, 0.005, 0.5].map(by), [10, 13, 10]);
    }

    #[test]
    fn an_infinite_rate_takes_every_worker_and_one_worker_has_one_splitter() {
        for splitters in [SplittersBy::Heuristic, SplittersBy::Model] {
            let rule = LatticeRule { splitters, is_tree: true };
            let plan = |rate, workers| rule.plan(&profile(0.0, 1.0), 64, rate, workers);
            assert_eq!(plan(f64::INFINITY, 9), SplitPlan::parasplit_tree(64, 9));
            assert_eq!((plan(f64::INFINITY, 0).splitters(), plan(1.0, 9).splitters()), (1, 1));
        }
    }

    proptest! {
        #[test]
        fn the_rules_own_plan_stays_and_noise_does_not_change_it(
            b in 0.0..1.0f64, partitions in 1u32..600, rate in 1e4..1e10f64, workers in 1u32..64,
            noise in -0.08..0.08f64, tree in any::<bool>(), heuristic in any::<bool>(),
        ) {
            let splitters = if heuristic { SplittersBy::Heuristic } else { SplittersBy::Model };
            let rule = LatticeRule { splitters, is_tree: tree };
            let plan = rule.plan(&profile(b, 1.0), partitions, rate, workers);
            prop_assert!(rule.keeps(&plan, &profile(b, 1.0), rate, workers));
            prop_assert!(rule.keeps(&plan, &profile(b, 1.0 + noise), rate, workers));
            prop_assert!(rule.keeps(&plan.clone().with_window_rows(7), &profile(b, 1.0), rate, workers));
            // A plan of another shape does not stay, nor one with far too many splitters.
            prop_assert!(!rule.keeps(&SplitPlan::fsplit(partitions), &profile(b, 1.0), rate, workers));
            let most = rule.of(partitions, plan.splitters() * 2 + 10);
            prop_assert!(!rule.keeps(&most, &profile(b, 1.0), rate, workers));
        }
    }
}
