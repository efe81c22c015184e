//! Which split plan: what each would cost and reach, and the cheapest that is fast enough.

use crate::cost::{load_cores, nodes_of_level, rate_max, splitters_for_rate};
use crate::profile::SplitProfile;
use crate::split_plan::{Shape, SplitPlan};

/// One stage of a split plan, by the model.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictedStage {
    /// What it is: `splitters of level 2`.
    pub name: String,
    /// How many there are of it.
    pub processes: u32,
    /// What one of them costs per event of the plan's input.
    pub cost_ns: f64,
}

/// A split plan with what the model says of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The plan.
    pub plan: SplitPlan,
    /// Its stages, in the order of events.
    pub stages: Vec<PredictedStage>,
    /// All processes of all stages together, per event.
    pub total_ns: f64,
    /// The rate, in events per second, that it reaches on so many cores.
    pub rate_max: f64,
}

impl Prediction {
    /// The stage that is busy first.
    pub fn bottleneck(&self) -> Option<&PredictedStage> {
        self.stages.iter().max_by(|a, b| a.cost_ns.total_cmp(&b.cost_ns))
    }

    /// How many cores it keeps busy at a rate of events per second.
    ///
    /// ```
    /// use tidemill_split::{SplitPlan, choose::Prediction};
    /// let prediction = Prediction { plan: SplitPlan::fsplit(2), stages: vec![], total_ns: 10.0, rate_max: 1e8 };
    /// assert_eq!(prediction.load_cores(5e7), 0.5);
    /// ```
    pub fn load_cores(&self, rate: f64) -> f64 {
        load_cores(self.total_ns, rate)
    }
}

/// What the model says of a plan on so many cores.
pub fn predict(plan: SplitPlan, profile: &SplitProfile, cores: u32) -> Prediction {
    let router_ns = profile.lattice(plan.window_rows).router_ns();
    let mut stages = vec![PredictedStage { name: "window router".into(), processes: 1, cost_ns: router_ns }];
    let (costs, parts) = (&profile.splitter, profile.parts);
    match &plan.shape {
        Shape::Fsplit => stages.push(splitters(costs.fsplit(parts, plan.partitions), 1)),
        Shape::Lattice { splitters: p } => {
            // Each takes in, routes and writes its share of the events.
            let all_ns = costs.fsplit(parts, plan.partitions);
            stages.push(splitters(all_ns / f64::from(*p), *p));
        }
        Shape::Tree { fan_outs } => {
            for (level, cost_ns) in (1..).zip(costs.tree_levels(parts, fan_outs)) {
                let processes = nodes_of_level(fan_outs, level, plan.partitions);
                stages.push(PredictedStage {
                    name: format!("splitters of level {level}"),
                    processes,
                    cost_ns,
                });
            }
        }
    }
    let total_ns = stages.iter().map(|stage| f64::from(stage.processes) * stage.cost_ns).sum();
    let slowest_ns = stages.iter().map(|stage| stage.cost_ns).fold(0.0, f64::max);
    let rate_max = rate_max(slowest_ns).min(f64::from(cores) * rate_max(total_ns));
    Prediction { plan, stages, total_ns, rate_max }
}

fn splitters(cost_ns: f64, processes: u32) -> PredictedStage {
    PredictedStage { name: "splitters".into(), processes, cost_ns }
}

/// The plans that are worth looking at: one splitter, both trees, and the lattice that the rate needs.
pub fn candidates(profile: &SplitProfile, partitions: u32, desired_rate: f64, cores: u32) -> Vec<SplitPlan> {
    let (costs, parts) = (&profile.splitter, profile.parts);
    let lattice = profile.lattice(SplitPlan::fsplit(partitions).window_rows);
    let splitters = splitters_for_rate(&lattice, desired_rate, parts, partitions).clamp(1, cores.max(1));
    vec![
        SplitPlan::fsplit(partitions),
        SplitPlan::exptree(partitions),
        SplitPlan::maxtree(partitions, parts, costs.consume_ratio()),
        SplitPlan::parasplit(partitions, splitters),
    ]
}

/// A choice, with all that it was chosen from.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The place of the chosen one.
    pub chosen: usize,
    /// All that were looked at.
    pub predictions: Vec<Prediction>,
}

impl Choice {
    /// The chosen plan with its costs.
    pub fn prediction(&self) -> &Prediction {
        &self.predictions[self.chosen]
    }
}

/// The cheapest plan that reaches the desired rate of events per second on so many cores; if none does, the
/// fastest. Of equal ones the first, which is the simplest.
///
/// ```
/// use tidemill_split::choose::choose;
/// use tidemill_split::cost::{Proportions, RouterCosts, SplitterCosts};
/// use tidemill_split::profile::SplitProfile;
/// let profile = SplitProfile {
///     splitter: SplitterCosts { consume_ns: 2.0, process_ns: 3.0, emit_ns: 5.0 },
///     router: RouterCosts { read_ns: 0.0, split_ns: 0.0, emit_ns: 100.0 },
///     parts: Proportions::broadcast_part(0.0).unwrap(),
/// };
/// assert_eq!(choose(&profile, 64, 50e6, 8).prediction().plan.to_string(), "1 splitter to 64 partitions");
/// let fast = choose(&profile, 64, 250e6, 8);
/// assert_eq!(fast.prediction().plan.to_string(), "lattice of 3 splitters to 64 partitions");
/// ```
pub fn choose(profile: &SplitProfile, partitions: u32, desired_rate: f64, cores: u32) -> Choice {
    let plans = candidates(profile, partitions, desired_rate, cores);
    let predictions: Vec<Prediction> = plans.into_iter().map(|plan| predict(plan, profile, cores)).collect();
    // The rounding of a rate that is just reached does not count.
    let reaches = |prediction: &Prediction| prediction.rate_max >= desired_rate * (1.0 - 1e-9);
    let better = |a: &Prediction, b: &Prediction| match (reaches(a), reaches(b)) {
        (true, true) => a.total_ns < b.total_ns,
        (false, false) => a.rate_max > b.rate_max,
        (a, _) => a,
    };
    let mut chosen = 0;
    for place in 1..predictions.len() {
        if better(&predictions[place], &predictions[chosen]) {
            chosen = place;
        }
    }
    Choice { chosen, predictions }
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
        }
    }

    #[test]
    fn little_is_done_by_one_and_much_by_several() {
        let plan =
            |broadcast, rate, cores| choose(&profile(broadcast), 64, rate, cores).prediction().plan.clone();
        assert_eq!(plan(0.0, 1e6, 4), SplitPlan::fsplit(64));
        assert_eq!(plan(0.1, 3e6, 1), SplitPlan::fsplit(64));
        assert_eq!(plan(0.0, 3e8, 4), SplitPlan::parasplit(64, 3));
        // More than the machine can do: as much as it can.
        assert_eq!(plan(0.0, 1e12, 4), SplitPlan::parasplit(64, 4));
        assert_eq!(plan(0.0, f64::INFINITY, 2), SplitPlan::parasplit(64, 2));
    }

    #[test]
    fn a_prediction_names_its_bottleneck() {
        let prediction = predict(SplitPlan::exptree(8), &profile(0.0), 100);
        let processes: Vec<u32> = prediction.stages.iter().map(|stage| stage.processes).collect();
        assert_eq!(processes, [1, 1, 2]);
        assert_eq!(prediction.bottleneck().unwrap().name, "splitters of level 1");
        assert!((prediction.rate_max - 1e8).abs() < 1.0);
        assert!((prediction.total_ns - (100.0 / 8192.0 + 10.0 + 10.0)).abs() < 1e-9);
        // On one core all stages share it.
        let one = predict(SplitPlan::exptree(8), &profile(0.0), 1);
        assert!((one.rate_max - 1e9 / one.total_ns).abs() < 1.0);
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
                    prop_assert!(other.rate_max < rate * (1.0 - 1e-9) || other.total_ns >= chosen.total_ns);
                } else if chosen.rate_max < rate * (1.0 - 1e-9) {
                    prop_assert!(other.rate_max <= chosen.rate_max);
                }
            }
        }
    }
}
