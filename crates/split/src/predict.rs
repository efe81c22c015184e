//! Predictions of the model for a split plan: its stages, their costs, and the rate that they reach.

use std::fmt;

use crate::cost::{Proportions, load_cores, nodes_of_level, rate_max};
use crate::profile::SplitProfile;
use crate::split_plan::{Shape, SplitPlan};

/// One stage of a split plan, according to the model.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictedStage {
    /// Its name, such as `splitters of level 2`.
    pub name: String,
    /// The number of its processes.
    pub processes: u32,
    /// The cost of one of them per event of the plan's input.
    pub cost_ns: f64,
}

impl PredictedStage {
    /// All processes of the stage together, per event of the plan's input.
    pub fn total_ns(&self) -> f64 {
        f64::from(self.processes) * self.cost_ns
    }

    /// The rate, in events per second of the plan's input, that it reaches with a core for each process.
    ///
    /// ```
    /// use tidemill_split::predict::PredictedStage;
    /// let stage = PredictedStage { name: "splitters".into(), processes: 2, cost_ns: 5.0 };
    /// assert_eq!((stage.total_ns(), stage.rate_max()), (10.0, 200e6));
    /// ```
    pub fn rate_max(&self) -> f64 {
        rate_max(self.cost_ns)
    }
}

/// A split plan with the model's predictions.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The plan.
    pub plan: SplitPlan,
    /// Its stages, in the order of events; the query's partitions are the last.
    pub stages: Vec<PredictedStage>,
    /// Whether broadcast rows are written once, and merged by each partition. That is a cost of the query.
    pub shares_broadcast: bool,
    /// All processes of all stages together, per event.
    pub total_ns: f64,
    /// The rate, in events per second, that it reaches with the given number of workers: that of the busiest one.
    pub rate_max: f64,
}

impl Prediction {
    /// The stage that would be saturated first if each process had a core.
    pub fn bottleneck(&self) -> Option<&PredictedStage> {
        // Of equal ones the first.
        self.stages.iter().rev().max_by(|a, b| a.cost_ns.total_cmp(&b.cost_ns))
    }

    /// All splitting, without the query's partitions, per event.
    pub fn splitting_ns(&self) -> f64 {
        self.stages.iter().filter(|stage| stage.name != QUERY).map(PredictedStage::total_ns).sum()
    }

    /// How many cores it keeps busy at a rate of events per second.
    ///
    /// ```
    /// use tidemill_split::{SplitPlan, predict::Prediction};
    /// let prediction = Prediction { plan: SplitPlan::fsplit(2), stages: vec![], shares_broadcast: false, total_ns: 10.0, rate_max: 1e8 };
    /// assert_eq!(prediction.load_cores(5e7), 0.5);
    /// ```
    pub fn load_cores(&self, rate: f64) -> f64 {
        load_cores(self.total_ns, rate)
    }
}

/// The name of the stage of the query's own partitions.
pub const QUERY: &str = "query";
/// The name of the stage that deals windows.
pub const WINDOW_ROUTER: &str = "window router";
/// The name of the second level of a tree of window routers.
pub const WINDOW_ROUTERS: &str = "window routers";
/// The name of the only level of splitters.
pub const SPLITTERS: &str = "splitters";

/// The name of a level behind the first window router, from 1.
///
/// ```
/// use tidemill_split::{SplitPlan, predict::name_of_level};
/// assert_eq!(name_of_level(&SplitPlan::exptree(8), 2), "splitters of level 2");
/// assert_eq!(name_of_level(&SplitPlan::parasplit_tree(8, 4), 1), "window routers");
/// assert_eq!(name_of_level(&SplitPlan::parasplit_tree(8, 4), 2), "splitters");
/// ```
pub fn name_of_level(plan: &SplitPlan, level: usize) -> String {
    match (plan.levels_of_routers(), plan.fan_outs().len()) {
        (routers, _) if level <= routers => WINDOW_ROUTERS.into(),
        (_, 1) => SPLITTERS.into(),
        (routers, _) => format!("splitters of level {}", level - routers),
    }
}

/// What the model predicts for a plan with this many workers, each with its own core.
///
/// ```
/// use tidemill_split::cost::{Proportions, RouterCosts, SplitterCosts};
/// use tidemill_split::{SplitPlan, predict::predict, profile::SplitProfile};
/// let profile = SplitProfile {
///     splitter: SplitterCosts { consume_ns: 2.0, process_ns: 3.0, emit_ns: 5.0 },
///     router: RouterCosts { read_ns: 0.0, split_ns: 0.0, emit_ns: 8192.0 },
///     parts: Proportions::broadcast_part(0.0).unwrap(),
///     query_ns: 20.0,
/// };
/// let text = predict(SplitPlan::exptree(8), &profile, 2).to_string();
/// assert_eq!(text, "\
/// tree of fan-outs 2, 4 to 8 partitions (p = 1, q = 8, W = 8192 rows): 41.0 ns per event, 39.2 M events/s
///   window router            1 of    1.0 ns per event, 1000.0 M events/s
///   splitters of level 1     1 of   10.0 ns per event,  100.0 M events/s  <- bottleneck
///   splitters of level 2     2 of    5.0 ns per event,  200.0 M events/s
///   query                    8 of    2.5 ns per event,  400.0 M events/s");
/// ```
pub fn predict(plan: SplitPlan, profile: &SplitProfile, workers: u32) -> Prediction {
    let workers = workers.max(1);
    let stages = stages(&plan, profile, workers);
    let total_ns = stages.iter().map(PredictedStage::total_ns).sum();
    let busiest_ns = loads(&plan, &stages, workers).into_iter().fold(0.0, f64::max);
    let shares_broadcast = profile.parts.are_shared(plan.partitions);
    Prediction { plan, stages, shares_broadcast, total_ns, rate_max: rate_max(busiest_ns) }
}

fn stages(plan: &SplitPlan, profile: &SplitProfile, workers: u32) -> Vec<PredictedStage> {
    let (costs, parts, width) = (&profile.splitter, profile.parts, plan.partitions);
    let mut stages = Vec::new();
    let mut add = |name: String, processes, cost_ns| stages.push(PredictedStage { name, processes, cost_ns });
    if plan.needs_splitters(workers) {
        let router_ns = profile.lattice(plan.window_rows).router_ns();
        add(WINDOW_ROUTER.into(), 1, router_ns);
        if plan.levels_of_routers() > 0 {
            // Each passes on its share of the windows.
            add(WINDOW_ROUTERS.into(), plan.routers(), router_ns / f64::from(plan.routers()));
        }
    }
    let is_shared = parts.are_shared(width);
    let whole_ns = profile.whole_split_ns(width);
    match &plan.shape {
        Shape::Fsplit => add(SPLITTERS.into(), 1, whole_ns),
        Shape::Lattice { splitters, .. } => {
            // Each takes in, routes and writes its share of the events.
            add(SPLITTERS.into(), *splitters, whole_ns / f64::from(*splitters));
        }
        Shape::Tree { fan_outs } => {
            let levels_ns = if is_shared {
                costs.shared_tree_levels(parts, fan_outs)
            } else {
                costs.tree_levels(parts, fan_outs)
            };
            for (level, cost_ns) in (1..).zip(levels_ns) {
                let processes = nodes_of_level(fan_outs, level, width);
                let seen_ns = cost_ns * part_seen(parts, processes, workers);
                add(name_of_level(plan, level), processes, seen_ns);
            }
        }
    }
    add(QUERY.into(), width, profile.query_ns * parts.output_rate(1.0, width));
    stages
}

/// The share of their input that splitters of a level look at. If everything is broadcast, the splitters on one worker
/// share one batch.
fn part_seen(parts: Proportions, splitters: u32, workers: u32) -> f64 {
    let is_one_batch = parts.broadcast() == 1.0;
    if is_one_batch { f64::from(splitters.min(workers)) / f64::from(splitters) } else { 1.0 }
}

/// The work of each worker per event of the input.
fn loads(plan: &SplitPlan, stages: &[PredictedStage], workers: u32) -> Vec<f64> {
    let mut loads = vec![0.0; workers as usize];
    let spread = plan.needs_splitters(workers);
    let mut level = 0;
    for stage in stages {
        if stage.name == WINDOW_ROUTER || (stage.name == SPLITTERS && !spread) {
            // Every worker does it for the events that it has.
            loads.iter_mut().for_each(|load| *load += stage.total_ns() / f64::from(workers));
            continue;
        }
        level += usize::from(stage.name != QUERY);
        for process in 0..stage.processes {
            let worker =
                if stage.name == QUERY { process % workers } else { plan.worker_of(level, process, workers) };
            loads[worker as usize] += stage.cost_ns;
        }
    }
    loads
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SplitPlan { partitions, window_rows, .. } = self.plan;
        let (plan, splitters) = (&self.plan, self.plan.splitters());
        write!(f, "{plan} (p = {splitters}, q = {partitions}, W = {window_rows} rows): ")?;
        write!(f, "{:.1} ns per event, {} M events/s", self.total_ns, millions(self.rate_max))?;
        let first = self.bottleneck().map(|stage| &stage.name);
        for stage in &self.stages {
            let PredictedStage { name, processes, cost_ns } = stage;
            let rate = millions(stage.rate_max());
            write!(f, "\n  {name:<22} {processes:>3} of {cost_ns:>6.1} ns per event, {rate:>6} M events/s")?;
            if first == Some(name) {
                write!(f, "  <- bottleneck")?;
            }
        }
        if self.shares_broadcast {
            write!(
                f,
                "\n  broadcast rows are written once; merging them in each partition is a part of the query"
            )?;
        }
        Ok(())
    }
}

/// A rate in millions. A stage without cost has no limit.
pub(crate) fn millions(rate: f64) -> String {
    if rate.is_finite() { format!("{:.1}", rate / 1e6) } else { "any".into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{RouterCosts, SplitterCosts};

    fn profile(broadcast: f64, query_ns: f64) -> SplitProfile {
        SplitProfile {
            splitter: SplitterCosts { consume_ns: 2.0, process_ns: 3.0, emit_ns: 5.0 },
            router: RouterCosts::default(),
            parts: Proportions::broadcast_part(broadcast).unwrap(),
            query_ns,
        }
    }

    #[test]
    fn a_prediction_names_its_bottleneck() {
        let prediction = predict(SplitPlan::exptree(8), &profile(0.0, 0.0), 100);
        let processes: Vec<u32> = prediction.stages.iter().map(|stage| stage.processes).collect();
        assert_eq!(processes, [1, 1, 2, 8]);
        assert_eq!(prediction.bottleneck().unwrap().name, "splitters of level 1");
        // Each splitter has its own worker.
        assert_eq!((prediction.rate_max, prediction.total_ns), (1e8, 20.0));
        // On one worker all share it.
        assert_eq!(predict(SplitPlan::exptree(8), &profile(0.0, 0.0), 1).rate_max, 5e7);
    }

    #[test]
    fn a_splitter_takes_its_time_from_the_partitions_beside_it() {
        // 10 ns of splitting, and 30 of the query: 25 on the worker with the splitter, 15 on the other.
        let one = predict(SplitPlan::fsplit(8), &profile(0.0, 30.0), 2);
        assert!((one.rate_max - 1e9 / 25.0).abs() < 1.0);
        assert_eq!(one.splitting_ns(), 10.0);
        let all = predict(SplitPlan::parasplit(8, 2), &profile(0.0, 30.0), 2);
        assert!((all.rate_max - 1e9 / 20.0).abs() < 1.0);
        // More splitters than workers are as many as workers; three of four is uneven.
        assert_eq!(predict(SplitPlan::parasplit(8, 7), &profile(0.0, 30.0), 2).rate_max, all.rate_max);
        let three = predict(SplitPlan::parasplit(8, 3), &profile(0.0, 0.0), 4);
        assert!((three.rate_max - 3e8).abs() < 1.0);
    }

    #[test]
    fn a_tree_of_window_routers_costs_one_more_hop_for_each_window() {
        let profile = SplitProfile {
            router: RouterCosts { read_ns: 0.0, split_ns: 0.0, emit_ns: 8192.0 },
            ..profile(0.0, 0.0)
        };
        let single = predict(SplitPlan::parasplit(8, 4), &profile, 5);
        let tree = predict(SplitPlan::parasplit_tree(8, 4), &profile, 5);
        let stages = |prediction: &Prediction| -> Vec<(String, u32, f64)> {
            let stage = |stage: &PredictedStage| (stage.name.clone(), stage.processes, stage.total_ns());
            prediction.stages.iter().map(stage).collect()
        };
        let stage = |name: &str, processes, total_ns| (name.to_owned(), processes, total_ns);
        let (router, splitters) = (stage(WINDOW_ROUTER, 1, 1.0), stage(SPLITTERS, 4, 10.0));
        let query = stage(QUERY, 8, 0.0);
        assert_eq!(stages(&single), [router.clone(), splitters.clone(), query.clone()]);
        assert_eq!(stages(&tree), [router, stage(WINDOW_ROUTERS, 2, 1.0), splitters, query]);
        // Each worker has a fifth of the first router's work. Worker 0 has a router and the last splitter.
        let busiest_ns = 0.2 + 0.5 + 2.5;
        assert!((tree.rate_max - 1e9 / busiest_ns).abs() < 1.0, "{tree}");
        // With a splitter on every worker there are no routers.
        assert_eq!(stages(&predict(SplitPlan::parasplit_tree(8, 4), &profile, 4)).len(), 2);
    }

    #[test]
    fn what_is_all_broadcast_is_looked_at_once_on_each_worker() {
        let seen = |broadcast, workers| {
            let mut profile = profile(broadcast, 0.0);
            (profile.splitter.process_ns, profile.splitter.emit_ns) = (0.0, 0.0);
            let stages = predict(SplitPlan::exptree(64), &profile, workers).stages;
            stages.iter().map(PredictedStage::total_ns).collect::<Vec<_>>()
        };
        // The window router, one splitter, two, eight, and the query.
        assert_eq!(seen(1.0, 4), [0.0, 2.0, 4.0, 8.0, 0.0]);
        assert_eq!(seen(1.0, 100), [0.0, 2.0, 4.0, 16.0, 0.0]);
        // Shared rows cost at the root only. A few are copied, and taken in again on each level.
        assert_eq!(seen(0.5, 4), [0.0, 2.0, 1.0, 1.0, 0.0]);
        assert!(seen(0.01, 4)[3] > 2.0);
        let says_so = |part| {
            predict(SplitPlan::fsplit(64), &profile(part, 1.0), 2).to_string().contains("written once")
        };
        assert_eq!([0.01, 0.3, 1.0].map(says_so), [false, true, false]);
    }
}
