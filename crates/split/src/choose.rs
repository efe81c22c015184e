//! Choosing a split plan: what each plan would cost and reach, and the cheapest that is fast enough.

use std::fmt;

use crate::predict::{Prediction, millions, predict};
use crate::profile::SplitProfile;
use crate::split_plan::SplitPlan;
use crate::splitters::SplittersBy;

/// The plans worth considering: the one in which every worker splits what it has, which needs no window router; one
/// splitter; both trees; and the lattice that the rate needs.
pub fn candidates(
    profile: &SplitProfile,
    partitions: u32,
    desired_rate: f64,
    workers: u32,
) -> Vec<SplitPlan> {
    let (costs, parts, workers) = (&profile.splitter, profile.parts, workers.max(1));
    let splitters = SplittersBy::Model.splitters(profile, partitions, desired_rate).min(workers);
    let mut plans = vec![
        SplitPlan::parasplit(partitions, workers),
        SplitPlan::fsplit(partitions),
        SplitPlan::exptree(partitions),
        SplitPlan::maxtree(partitions, parts, costs.consume_ratio()),
    ];
    if splitters < workers {
        plans.push(SplitPlan::parasplit(partitions, splitters));
    }
    plans.dedup();
    plans
}

/// A choice, with everything that it was chosen from.
///
/// Its text form is what EXPLAIN shows: the chosen plan stage by stage, and what the other plans would have cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The index of the chosen plan.
    pub chosen: usize,
    /// All plans considered.
    pub predictions: Vec<Prediction>,
}

impl Choice {
    /// The chosen plan with its costs.
    pub fn prediction(&self) -> &Prediction {
        &self.predictions[self.chosen]
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.prediction())?;
        for (place, other) in self.predictions.iter().enumerate().filter(|(place, _)| *place != self.chosen) {
            let rate = millions(other.rate_max);
            let lead =
                if place == usize::from(self.chosen == 0) { "\nnot chosen: " } else { "\n            " };
            write!(f, "{lead}{}, {:.1} ns per event, {rate} M events/s", other.plan, other.total_ns)?;
        }
        Ok(())
    }
}

/// The cheapest plan that reaches the desired rate, in events per second, with this many workers. If none does, the
/// fastest. Among equals the first, which is the simplest.
///
/// ```
/// use tidemill_split::choose::choose;
/// use tidemill_split::cost::{Proportions, RouterCosts, SplitterCosts};
/// use tidemill_split::profile::SplitProfile;
/// let profile = SplitProfile {
///     splitter: SplitterCosts { consume_ns: 2.0, process_ns: 3.0, emit_ns: 5.0 },
///     router: RouterCosts { read_ns: 0.0, split_ns: 0.0, emit_ns: 100.0 },
///     parts: Proportions::broadcast_part(0.0).unwrap(),
///     query_ns: 0.0,
/// };
/// let choice = choose(&profile, 64, 50e6, 2);
/// assert_eq!(choice.prediction().plan.to_string(), "lattice of 2 splitters to 64 partitions");
/// ```
pub fn choose(profile: &SplitProfile, partitions: u32, desired_rate: f64, workers: u32) -> Choice {
    let plans = candidates(profile, partitions, desired_rate, workers);
    choose_of(plans, profile, desired_rate, workers)
}

/// The same for your own plans, of which there must be at least one.
pub fn choose_of(plans: Vec<SplitPlan>, profile: &SplitProfile, desired_rate: f64, workers: u32) -> Choice {
    let predictions: Vec<Prediction> =
        plans.into_iter().map(|plan| predict(plan, profile, workers)).collect();
    let mut chosen = 0;
    for place in 1..predictions.len() {
        if is_better(&predictions[place], &predictions[chosen], desired_rate) {
            chosen = place;
        }
    }
    Choice { chosen, predictions }
}

/// The same for a given plan, which is the chosen one whatever others would cost.
///
/// ```
/// # use tidemill_split::cost::{Proportions, RouterCosts, SplitterCosts};
/// # use tidemill_split::profile::SplitProfile;
/// use tidemill_split::{SplitPlan, choose::compare};
/// # let profile = SplitProfile {
/// #     splitter: SplitterCosts { consume_ns: 2.0, process_ns: 3.0, emit_ns: 5.0 },
/// #     router: RouterCosts { read_ns: 0.0, split_ns: 0.0, emit_ns: 100.0 },
/// #     parts: Proportions::broadcast_part(0.0).unwrap(),
/// #     query_ns: 0.0,
/// # };
/// let choice = compare(SplitPlan::fsplit(64), &profile, 2);
/// assert_eq!(choice.prediction().plan, SplitPlan::fsplit(64));
/// assert!(choice.predictions.iter().any(|other| other.rate_max > choice.prediction().rate_max));
/// ```
pub fn compare(plan: SplitPlan, profile: &SplitProfile, workers: u32) -> Choice {
    let mut others = candidates(profile, plan.partitions, f64::INFINITY, workers);
    others.retain(|other| *other != plan);
    let plans = std::iter::once(plan).chain(others);
    Choice { chosen: 0, predictions: plans.map(|plan| predict(plan, profile, workers)).collect() }
}

fn is_better(a: &Prediction, b: &Prediction, desired_rate: f64) -> bool {
    // The rounding of a rate that is just reached, or of equal costs, does not count.
    let reaches = |prediction: &Prediction| prediction.rate_max >= desired_rate * (1.0 - 1e-9);
    match (reaches(a), reaches(b)) {
        (true, true) => a.total_ns < b.total_ns * (1.0 - 1e-9),
        (false, false) => a.rate_max > b.rate_max * (1.0 + 1e-9),
        (a, _) => a,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cost::{Proportions, RouterCosts, SplitterCosts};

    fn profile(broadcast: f64) -> SplitProfile {
        SplitProfile {
            splitter: SplitterCosts { consume_ns: 2.0, process_ns: 3.0, emit_ns: 5.0 },
            router: RouterCosts { read_ns: 0.0, split_ns: 0.0, emit_ns: 100.0 },
            parts: Proportions::broadcast_part(broadcast).unwrap(),
            query_ns: 0.0,
        }
    }

    #[test]
    fn every_worker_splits_and_of_other_plans_the_cheapest_that_reaches_the_rate() {
        let plan =
            |broadcast, rate, cores| choose(&profile(broadcast), 64, rate, cores).prediction().plan.clone();
        assert_eq!(plan(0.0, 1e6, 4), SplitPlan::parasplit(64, 4));
        assert_eq!(plan(0.1, 3e6, 1), SplitPlan::parasplit(64, 1));
        // More than the machine can do: as much as it can.
        assert_eq!(plan(0.0, f64::INFINITY, 2), SplitPlan::parasplit(64, 2));
        let other = |broadcast, rate| {
            let (profile, mut plans) = (profile(broadcast), candidates(&profile(broadcast), 64, rate, 64));
            plans.remove(0);
            choose_of(plans, &profile, rate, 64).prediction().plan.clone()
        };
        assert_eq!(other(0.0, 1e6), SplitPlan::fsplit(64));
        assert_eq!(other(0.0, 2.5e8), SplitPlan::parasplit(64, 3));
    }

    #[test]
    fn an_explanation_shows_the_others_too() {
        let lines: Vec<String> =
            choose(&profile(0.0), 4, 1.0, 2).to_string().lines().map(Into::into).collect();
        assert!(
            lines[0]
                .starts_with("lattice of 2 splitters to 4 partitions (p = 2, q = 4, W = 8192 rows): 10.0")
        );
        assert_eq!(lines[3], "not chosen: 1 splitter to 4 partitions, 10.0 ns per event, 99.9 M events/s");
        assert!(lines[4].starts_with("            tree of fan-outs 2, 2 to 4 partitions, 20.0 ns per event"));
    }

    proptest! {
        #[test]
        fn none_is_cheaper_that_is_fast_enough_and_none_faster_if_none_is(
            b in 0.0..1.0f64, partitions in 1u32..513, rate in 1e4..1e10f64, cores in 1u32..64
        ) {
            let choice = choose(&profile(b), partitions, rate, cores);
            let chosen = choice.prediction();
            prop_assert!(chosen.plan.validate(partitions).is_ok());
            for other in &choice.predictions {
                if chosen.rate_max >= rate {
                    let costs_as_much = other.total_ns >= chosen.total_ns * (1.0 - 1e-8);
                    prop_assert!(other.rate_max < rate * (1.0 - 1e-9) || costs_as_much);
                } else if chosen.rate_max < rate * (1.0 - 1e-9) {
                    prop_assert!(other.rate_max <= chosen.rate_max * (1.0 + 1e-8));
                }
            }
        }
    }
}
