//! Choosing split plans while a query runs: profiles samples of its rows, on a thread of its own, and proposes
//! what the model says is better. What it proposes takes over at a cut, and changes no result.

use std::time::Duration;

use tidemill_core::error::Cause;
use tidemill_plan::AutoSplit;
use tidemill_split::choose::{Choice, candidates, choose_of};
use tidemill_split::predict::{Prediction, predict};
use tidemill_split::profile::{SplitProfile, profile};

use crate::panics::guard;
use crate::shared::Shared;
use crate::split_desk::check;
use crate::topology::{EdgeKind, SplitEdge, Topology};
use crate::work::Part;

/// Below so many rows in a batch, splitting is no work and its costs cannot be measured.
const SAMPLE_ROWS_MIN: usize = 512;
/// A plan takes the place of another one only if it is so much better: profiles are never the same twice.
const GAIN_MIN: f64 = 1.1;
/// The shortest time between two choices.
const EVERY_MIN: Duration = Duration::from_millis(1);

/// The edges whose split is chosen while the query runs.
fn auto_edges(topology: &Topology) -> impl Iterator<Item = (usize, &SplitEdge, &AutoSplit, Duration)> {
    topology.edges.iter().enumerate().filter_map(|(edge, kind)| match &kind.kind {
        EdgeKind::Split(split) => {
            let auto = split.auto.as_ref()?;
            Some((edge, split, auto, auto.every?))
        }
        EdgeKind::Whole { .. } | EdgeKind::Empty => None,
    })
}

/// Whether there is anything to choose.
pub(crate) fn is_needed(topology: &Topology) -> bool {
    auto_edges(topology).next().is_some()
}

/// Chooses until the query has ended.
pub(crate) fn run(shared: &Shared, topology: &Topology) {
    let every = auto_edges(topology).map(|(.., every)| every).min().unwrap_or(EVERY_MIN).max(EVERY_MIN);
    auto_edges(topology).for_each(|(edge, ..)| shared.splits.want_sample(edge));
    // The first choice need not wait so long.
    let mut wait = every.min(Duration::from_millis(20));
    while shared.splits.wait(wait) {
        wait = every;
        for (edge, split, auto, _) in auto_edges(topology) {
            choose_for(shared, topology, edge, split, auto);
        }
    }
}

fn choose_for(shared: &Shared, topology: &Topology, edge: usize, split: &SplitEdge, auto: &AutoSplit) {
    // A routing function that fails will fail on the worker too, and there it is reported.
    if let Ok(Some(profile)) = guard(|| profile_of(shared, topology, edge, split)) {
        let workers = topology.workers.min(cores());
        let choice = best(&profile, split, auto.desired_rate, workers);
        let current = shared.splits.splits()[edge].clone();
        let current = current.map(|plan| predict((*plan).clone(), &profile, workers));
        if current.is_some_and(|current| is_worth_it(&current, choice.prediction(), auto.desired_rate)) {
            shared.splits.propose(edge, choice.prediction().plan.clone());
        }
        shared.splits.set_choice(edge, choice);
    }
    shared.splits.want_sample(edge);
}

/// What splitting a sample costs, if there is one.
fn profile_of(
    shared: &Shared,
    topology: &Topology,
    edge: usize,
    split: &SplitEdge,
) -> Result<Option<SplitProfile>, Cause> {
    let sample = shared.splits.take_sample(edge).filter(|sample| sample.len() >= SAMPLE_ROWS_MIN);
    let Some(sample) = sample else { return Ok(None) };
    let clock = || shared.clock.now_ns();
    // One thread: the workers are at work beside it.
    let measured = profile(&[sample], &split.route, split.plan.partitions, &split.columns, 1, &clock);
    let measured = measured.map_err(|error| Cause::User(error.to_string()))?;
    let work = shared.work.read(Part::Operator(topology.operator_of(edge)));
    let query_ns = work.time_ns as f64 / work.rows_in.max(1) as f64;
    Ok(Some(measured.with_query_ns(query_ns)))
}

fn best(profile: &SplitProfile, split: &SplitEdge, desired_rate: f64, workers: u32) -> Choice {
    let partitions = split.plan.partitions;
    let mut plans = candidates(profile, partitions, desired_rate, workers);
    plans.retain(|plan| check(plan, partitions, split.levels).is_ok());
    choose_of(plans, profile, desired_rate, workers)
}

/// Whether a plan is so much better than the one in force that it should take its place.
fn is_worth_it(current: &Prediction, chosen: &Prediction, desired_rate: f64) -> bool {
    match current.rate_max >= desired_rate {
        true => chosen.total_ns * GAIN_MIN < current.total_ns,
        false => chosen.rate_max > current.rate_max * GAIN_MIN,
    }
}

fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}
