//! Chooses split plans while a query runs: profiles samples of its rows, on its own thread, and proposes plans
//! that the model predicts to be better. A proposal takes effect at a cut and changes no result. On request, given
//! plans are profiled too, to show what the model predicts for them.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tidemill_core::error::Cause;
use tidemill_core::{Clock, ThreadTime};
use tidemill_plan::AutoSplit;
use tidemill_split::SplitPlan;
use tidemill_split::choose::{Choice, candidates, choose_of, compare};
use tidemill_split::predict::{Prediction, predict};
use tidemill_split::profile::{SplitProfile, profile};

use crate::error::FlowError;
use crate::panics::guard;
use crate::run_state::RunState;
use crate::run_state::splits::check;
use crate::run_state::work::Part;
use crate::threads::spawn;
use crate::topology::{EdgeKind, SplitEdge, Topology};
use crate::window_tuner::WindowTuner;

/// How much better a plan must be to replace another one: two profiles are never the same.
const GAIN_MIN: f64 = 1.1;
/// The shortest time between two choices.
const EVERY_MIN: Duration = Duration::from_millis(1);

/// An edge whose split is measured.
struct Measured<'a> {
    edge: usize,
    split: &'a SplitEdge,
    /// How a plan is chosen, and how often; `None`: the query has given it.
    chosen: Option<(&'a AutoSplit, Duration)>,
}

/// The edges whose plan is chosen and, on request, those whose plan is given.
fn measured_edges(topology: &Topology, with_given: bool) -> impl Iterator<Item = Measured<'_>> {
    topology.edges.iter().enumerate().filter_map(move |(edge, kind)| match &kind.kind {
        EdgeKind::Split(split) => {
            let chosen = split.auto.as_ref().and_then(|auto| Some((auto, auto.every?)));
            let is_measured = chosen.is_some() || (with_given && split.is_given);
            is_measured.then_some(Measured { edge, split, chosen })
        }
        EdgeKind::Whole { .. } | EdgeKind::Empty => None,
    })
}

/// Chooses the split plans of a run, for the edges that have one.
pub(crate) struct SplitOptimizer {
    run_state: Arc<RunState>,
    with_given: bool,
}

impl SplitOptimizer {
    /// Call it before the first cycle. Chooses plans by the measurements of earlier runs, and starts a thread that measures
    /// this run, if there is anything to measure.
    pub fn start(run_state: &Arc<RunState>, with_given: bool) -> Result<Option<JoinHandle<()>>, FlowError> {
        let optimizer = SplitOptimizer { run_state: Arc::clone(run_state), with_given };
        optimizer.choose_by_earlier_runs();
        let edges: Vec<usize> =
            measured_edges(run_state.topology(), with_given).map(|measured| measured.edge).collect();
        if edges.is_empty() {
            return Ok(None);
        }
        // Here and not on the thread: a short query may end before the thread has run.
        edges.iter().for_each(|&edge| run_state.splits.want_sample(edge));
        spawn("split-optimizer".into(), move || optimizer.run()).map(Some)
    }

    fn choose_by_earlier_runs(&self) {
        let topology = self.run_state.topology();
        for measured in measured_edges(topology, false) {
            if let Some((AutoSplit { profile: Some(profile), .. }, _)) = measured.chosen {
                measured.choose(&self.run_state, topology, profile);
            }
        }
    }

    /// Measures and chooses until the query has ended. A given plan is measured once, even if the query has ended
    /// by then.
    fn run(&self) {
        let (topology, splits) = (self.run_state.topology(), &self.run_state.splits);
        let edges: Vec<Measured<'_>> = measured_edges(topology, self.with_given).collect();
        let every = edges.iter().filter_map(|measured| Some(measured.chosen?.1)).min();
        let every = every.unwrap_or(Duration::from_secs(1)).max(EVERY_MIN);
        // The first choice need not wait that long.
        let mut wait = every.min(Duration::from_millis(20));
        let mut tuners = self.tuners(&edges);
        let is_unknown = |measured: &&Measured<'_>| splits.choice(measured.edge).is_none();
        let is_due = |measured: &&Measured<'_>| measured.chosen.is_some() || is_unknown(measured);
        while splits.wait(wait) {
            wait = every;
            // Before the choices: another plan counts more than another size of the window.
            tuners.iter_mut().for_each(|tuner| tuner.look(&self.run_state, topology.workers));
            // One thread, because the workers are running.
            edges.iter().filter(is_due).for_each(|measured| measured.measure(&self.run_state, topology, 1));
        }
        if self.with_given {
            // No worker runs now. Measure with as many threads as have split, because they contend for memory.
            let threads = topology.workers.min(cores());
            edges
                .iter()
                .filter(is_unknown)
                .for_each(|measured| measured.measure(&self.run_state, topology, threads));
        }
    }
}

impl SplitOptimizer {
    /// Of a query in a pool, the size of windows stays: its bounds hold for what was measured.
    fn tuners(&self, edges: &[Measured<'_>]) -> Vec<WindowTuner> {
        let layout = self.run_state.topology().layout;
        let searched = edges.iter().filter(|measured| measured.split.searches_window(layout));
        let is_alone = self.run_state.pool.is_none();
        searched.filter(|_| is_alone).map(|measured| WindowTuner::new(measured.edge)).collect()
    }
}

impl Measured<'_> {
    /// Profiles the current sample on this number of threads, if there is one, and requests the next.
    fn measure(&self, run_state: &RunState, topology: &Topology, threads: u32) {
        // A routing function that fails will fail on the worker too, and there it is reported.
        if let Ok(Some(profile)) = guard(|| profile_of(run_state, topology, self, threads)) {
            self.choose(run_state, topology, &profile);
        }
        run_state.splits.want_sample(self.edge);
    }

    fn choose(&self, run_state: &RunState, topology: &Topology, profile: &SplitProfile) {
        let workers = topology.workers.min(cores());
        let Some(current) = run_state.splits.splits()[self.edge].as_deref().cloned() else { return };
        let choice = match self.chosen {
            None => compare(current, profile, workers),
            Some((auto, _)) => {
                let (choice, is_better) = chosen(auto, current, profile, self.split, workers);
                if is_better {
                    run_state.splits.propose(self.edge, choice.prediction().plan.clone());
                }
                choice
            }
        };
        run_state.splits.set_choice(self.edge, *profile, choice);
    }
}

/// The cost of splitting a sample on this number of threads, if there is one. It is processor time, as the costs of the
/// stages are.
fn profile_of(
    run_state: &RunState,
    topology: &Topology,
    measured: &Measured<'_>,
    threads: u32,
) -> Result<Option<SplitProfile>, Cause> {
    let Measured { edge, split, .. } = *measured;
    let Some(sample) = run_state.splits.take_sample(edge) else { return Ok(None) };
    let clock = || ThreadTime.now_ns();
    let profile = profile(&[sample], &split.route, split.plan.partitions, &split.columns, threads, &clock);
    let profile = profile.map_err(|error| Cause::user(error.to_string()).with_source(error))?;
    let work = run_state.work.read(Part::Operator(topology.operator_of(edge)));
    let query_ns = work.time_ns as f64 / work.rows_in.max(1) as f64;
    Ok(Some(profile.with_query_ns(query_ns)))
}

/// The choice from all plans or by a rule, and whether it is to replace the current plan.
fn chosen(
    auto: &AutoSplit,
    current: SplitPlan,
    profile: &SplitProfile,
    split: &SplitEdge,
    workers: u32,
) -> (Choice, bool) {
    let rate = auto.desired_rate;
    match auto.lattice {
        _ if auto.keeps_shape => (compare(current, profile, workers), false),
        Some(rule) if rule.keeps(&current, profile, rate, workers) => {
            (compare(current, profile, workers), false)
        }
        Some(rule) => {
            let plan = rule.plan(profile, current.partitions, rate, workers);
            let plan = plan.with_window_rows(current.window_rows);
            (compare(plan, profile, workers), true)
        }
        None => {
            let choice = best(profile, split, rate, workers);
            let is_better = is_worth_it(&predict(current, profile, workers), choice.prediction(), rate);
            (choice, is_better)
        }
    }
}

fn best(profile: &SplitProfile, split: &SplitEdge, desired_rate: f64, workers: u32) -> Choice {
    let partitions = split.plan.partitions;
    let mut plans = candidates(profile, partitions, desired_rate, workers);
    plans.retain(|plan| check(plan, partitions, split.levels).is_ok());
    choose_of(plans, profile, desired_rate, workers)
}

/// Whether a plan is so much better than the current one that it should replace it.
fn is_worth_it(current: &Prediction, chosen: &Prediction, desired_rate: f64) -> bool {
    if current.rate_max >= desired_rate {
        chosen.total_ns * GAIN_MIN < current.total_ns
    } else {
        chosen.rate_max > current.rate_max * GAIN_MIN
    }
}

fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}
