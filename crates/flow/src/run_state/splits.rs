//! The split plans of a running query: those in force from the next cycle on, earlier ones, and samples to choose by.
//! Touched per cycle and per batch, never per row.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tidemill_core::{Batch, SplitChange};
use tidemill_split::choose::Choice;
use tidemill_split::profile::SplitProfile;
use tidemill_split::window_search::WindowComparison;
use tidemill_split::{SplitPlan, SplitPlanError};

use crate::sync::lock;
use crate::topology::{EdgeKind, Topology};

/// The split plan of each edge in a cycle; `None` for edges that are not split.
pub(crate) type CycleSplitPlans = Arc<[Option<Arc<SplitPlan>>]>;

/// A split plan that replaced another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replan {
    /// The operator whose input is split.
    pub operator: String,
    /// The number of the input.
    pub input: usize,
    /// The first cycle that is split by it.
    pub first_cycle: u64,
    /// The plan.
    pub plan: SplitPlan,
}

/// The most changes that are kept.
const CHANGES_MAX: usize = 256;
/// In batches with fewer rows, splitting takes so little time that its costs cannot be measured.
const SAMPLE_ROWS_MIN: usize = 512;

pub(crate) struct SplitPlans {
    state: Mutex<State>,
    samples: Vec<SampleSlot>,
    /// For the split optimizer: the query has ended.
    ended: Mutex<bool>,
    changed: Condvar,
}

struct State {
    splits: CycleSplitPlans,
    /// For each edge, the plan that takes effect at the next cut.
    next: Vec<Option<SplitPlan>>,
    /// For each edge, the last choice, and the profile on which it was based.
    choices: Vec<Option<(SplitProfile, Choice)>>,
    changes: VecDeque<Replan>,
    /// For each edge, the first cycle of its plan.
    first_cycles: Vec<u64>,
    /// For each edge, what the last comparison of windows has measured.
    windows: Vec<Option<WindowComparison>>,
}

/// A batch of an edge's rows, if one is requested.
#[derive(Default)]
struct SampleSlot {
    wanted: AtomicBool,
    batch: Mutex<Option<Batch>>,
}

impl SplitPlans {
    pub fn new(topology: &Topology) -> Self {
        let plan_of = |kind: &EdgeKind| match kind {
            EdgeKind::Split(split) => Some(Arc::new(split.plan.clone())),
            EdgeKind::Whole { .. } | EdgeKind::Empty => None,
        };
        let edges = topology.edges.len();
        let state = State {
            splits: topology.edges.iter().map(|edge| plan_of(&edge.kind)).collect(),
            next: vec![None; edges],
            choices: vec![None; edges],
            changes: VecDeque::new(),
            first_cycles: vec![0; edges],
            windows: vec![None; edges],
        };
        SplitPlans {
            state: Mutex::new(state),
            samples: (0..edges).map(|_| SampleSlot::default()).collect(),
            ended: Mutex::new(false),
            changed: Condvar::new(),
        }
    }

    /// The plans in force.
    pub fn splits(&self) -> CycleSplitPlans {
        Arc::clone(&lock(&self.state).splits)
    }

    /// Proposes a plan that takes effect at the next cut.
    pub fn propose(&self, edge: usize, plan: SplitPlan) {
        lock(&self.state).next[edge] = Some(plan);
    }

    /// Records the last choice for an edge, and its basis.
    pub fn set_choice(&self, edge: usize, profile: SplitProfile, choice: Choice) {
        lock(&self.state).choices[edge] = Some((profile, choice));
    }

    pub fn choice(&self, edge: usize) -> Option<(SplitProfile, Choice)> {
        lock(&self.state).choices[edge].clone()
    }

    /// Records what a comparison of windows has measured for an edge.
    pub fn set_window(&self, edge: usize, comparison: Option<WindowComparison>) {
        lock(&self.state).windows[edge] = comparison;
    }

    pub fn window(&self, edge: usize) -> Option<WindowComparison> {
        lock(&self.state).windows[edge].clone()
    }

    /// The plan of an edge, and its first cycle.
    pub fn in_force(&self, edge: usize) -> Option<(Arc<SplitPlan>, u64)> {
        let state = lock(&self.state);
        Some((Arc::clone(state.splits[edge].as_ref()?), state.first_cycles[edge]))
    }

    /// The stored changes, oldest first.
    pub fn changes(&self) -> Vec<Replan> {
        lock(&self.state).changes.iter().cloned().collect()
    }

    /// The changes that take effect at the next cut, for its record.
    pub fn take_proposals(&self, topology: &Topology) -> Vec<SplitChange> {
        let mut state = lock(&self.state);
        let proposals = state.next.iter_mut().enumerate();
        let change = |(edge, plan): (usize, SplitPlan)| {
            let (operator, input) = topology.reader_of(edge);
            SplitChange { operator, input: input as u32, plan: plan.to_bytes() }
        };
        proposals.filter_map(|(edge, plan)| Some((edge, plan.take()?))).map(change).collect()
    }

    /// Applies these changes at a cut; returns the plans of the cycle, and the edges that are split otherwise from now on: a
    /// plan that differs in nothing but the size of its window has the same stages. A change that does not fit this run is skipped: its plan may have other levels than that of the run which logged it.
    pub fn at_cut(
        &self,
        cycle: u64,
        changes: &[SplitChange],
        topology: &Topology,
    ) -> (CycleSplitPlans, Vec<usize>) {
        let mut state = lock(&self.state);
        let changed: Vec<(usize, Replan)> =
            changes.iter().filter_map(|change| replan(change, cycle, topology)).collect();
        let mut reshaped = Vec::new();
        if !changed.is_empty() {
            let mut splits = state.splits.to_vec();
            for (edge, change) in &changed {
                if state.changes.len() == CHANGES_MAX {
                    state.changes.pop_front();
                }
                let before = splits[*edge].replace(Arc::new(change.plan.clone()));
                if before.is_none_or(|before| !before.differs_by_window(&change.plan)) {
                    reshaped.push(*edge);
                }
                state.first_cycles[*edge] = cycle;
                state.changes.push_back(change.clone());
            }
            state.splits = splits.into();
        }
        (Arc::clone(&state.splits), reshaped)
    }

    /// Requests a sample of an edge's rows.
    pub fn want_sample(&self, edge: usize) {
        self.samples[edge].wanted.store(true, Ordering::Relaxed);
    }

    /// Provides a batch, by reference, if one is requested and this one has rows enough.
    pub fn offer_sample(&self, edge: usize, batch: &Batch) {
        let sample = &self.samples[edge];
        if batch.len() >= SAMPLE_ROWS_MIN && sample.wanted.load(Ordering::Relaxed) {
            *lock(&sample.batch) = Some(batch.clone());
            sample.wanted.store(false, Ordering::Relaxed);
        }
    }

    /// The sample, if one was provided.
    pub fn take_sample(&self, edge: usize) -> Option<Batch> {
        lock(&self.samples[edge].batch).take()
    }

    /// Waits for this time; false if the query ends first.
    pub fn wait(&self, time: Duration) -> bool {
        let ended = lock(&self.ended);
        let waited = self.changed.wait_timeout_while(ended, time, |ended| !*ended);
        let (ended, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        !*ended
    }

    /// The query has ended.
    pub fn end(&self) {
        *lock(&self.ended) = true;
        self.changed.notify_all();
    }
}

/// A logged change, with its edge.
fn replan(change: &SplitChange, first_cycle: u64, topology: &Topology) -> Option<(usize, Replan)> {
    let SplitChange { operator, input, plan } = change;
    let input = *input as usize;
    let edge = topology.edge_named(operator, input)?;
    let EdgeKind::Split(split) = &topology.edges[edge].kind else { return None };
    let plan = SplitPlan::from_bytes(plan).ok()?;
    check(&plan, split.plan.partitions, split.levels).ok()?;
    Some((edge, Replan { operator: operator.clone(), input, first_cycle, plan }))
}

/// Checks that a plan can run on an edge with this many partitions and levels of splitters.
pub(crate) fn check(plan: &SplitPlan, partitions: u32, levels: usize) -> Result<(), String> {
    plan.validate(partitions).map_err(|error: SplitPlanError| error.to_string())?;
    let planned = plan.levels();
    if planned > levels {
        return Err(format!(
            "the tree has {planned} levels, but a split that changes while it runs has at most {levels}"
        ));
    }
    Ok(())
}
