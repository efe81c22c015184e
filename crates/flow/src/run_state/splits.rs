//! The split plans of a running query: those in force from the next cycle on, earlier ones, and samples to choose by.
//! Touched per cycle and per batch, never per row.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tidemill_core::{Batch, SplitChange};
use tidemill_split::choose::Choice;
use tidemill_split::profile::SplitProfile;
use tidemill_split::window_search::WindowComparison;
use tidemill_split::{SplitPlan, SplitPlanError};

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

/// The most changes that are kept. Those of nothing but a window's size are dropped first: a search makes many of them.
const CHANGES_MAX: usize = 256;
/// In batches with fewer rows, splitting takes so little time that its costs cannot be measured.
const SAMPLE_ROWS_MIN: usize = 512;

/// An edge's plan, as a search for the size of its window sees it.
pub(crate) struct PlanInForce {
    pub plan: Arc<SplitPlan>,
    /// The first cycle that is split by it.
    pub first_cycle: u64,
    /// Whether another plan is proposed.
    pub is_pending: bool,
}

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
    /// For each edge, whether the cut that is being made has the plan that was proposed.
    is_in_cut: Vec<bool>,
    /// Whether a cut was made that is not replayed.
    is_replay_over: bool,
    /// For each edge, the last choice, and the profile on which it was based.
    choices: Vec<Option<(SplitProfile, Choice)>>,
    changes: Changes,
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
            is_in_cut: vec![false; edges],
            is_replay_over: false,
            choices: vec![None; edges],
            changes: Changes::default(),
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
        Arc::clone(&self.state.lock().splits)
    }

    /// Proposes a plan that takes effect at the next cut.
    pub fn propose(&self, edge: usize, plan: SplitPlan) {
        self.state.lock().next[edge] = Some(plan);
    }

    /// Proposes another window for a plan, unless another plan is in force or proposed by now.
    pub fn propose_window(&self, edge: usize, plan: &Arc<SplitPlan>, window_rows: u32) {
        let mut state = self.state.lock();
        let is_in_force = state.splits[edge].as_ref().is_some_and(|in_force| Arc::ptr_eq(in_force, plan));
        if is_in_force && !state.is_pending(edge) {
            state.next[edge] = Some(SplitPlan::clone(plan).with_window_rows(window_rows));
        }
    }

    /// Records the last choice for an edge, and its basis.
    pub fn set_choice(&self, edge: usize, profile: SplitProfile, choice: Choice) {
        self.state.lock().choices[edge] = Some((profile, choice));
    }

    pub fn choice(&self, edge: usize) -> Option<(SplitProfile, Choice)> {
        self.state.lock().choices[edge].clone()
    }

    /// Records what a comparison of windows has measured for an edge.
    pub fn set_window(&self, edge: usize, comparison: Option<WindowComparison>) {
        self.state.lock().windows[edge] = comparison;
    }

    pub fn window(&self, edge: usize) -> Option<WindowComparison> {
        self.state.lock().windows[edge].clone()
    }

    /// The plan of an edge; `None` before the first cut that is not replayed, because a replay changes plans.
    pub fn in_force(&self, edge: usize) -> Option<PlanInForce> {
        let state = self.state.lock();
        let plan = state.splits[edge].as_ref().filter(|_| state.is_replay_over)?;
        Some(PlanInForce {
            plan: Arc::clone(plan),
            first_cycle: state.first_cycles[edge],
            is_pending: state.is_pending(edge),
        })
    }

    /// The stored changes, oldest first.
    pub fn changes(&self) -> Vec<Replan> {
        self.state.lock().changes.list()
    }

    /// The changes that take effect at the next cut, for its record.
    pub fn take_proposals(&self, topology: &Topology) -> Vec<SplitChange> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.is_replay_over = true;
        let change = |(edge, plan): (usize, SplitPlan)| {
            state.is_in_cut[edge] = true;
            let (operator, input) = topology.reader_of(edge);
            SplitChange { operator, input: input as u32, plan: plan.to_bytes() }
        };
        let proposals = state.next.iter_mut().enumerate();
        proposals.filter_map(|(edge, plan)| Some((edge, plan.take()?))).map(change).collect()
    }

    /// Applies these changes at a cut; returns the plans of the cycle, and the edges that are split otherwise from now on: a
    /// plan that differs in nothing but the size of its window has the same stages. A change that does not fit this run is
    /// skipped: its plan may have other levels than that of the run which logged it.
    pub fn at_cut(
        &self,
        cycle: u64,
        changes: &[SplitChange],
        topology: &Topology,
    ) -> (CycleSplitPlans, Vec<usize>) {
        let mut state = self.state.lock();
        let changed: Vec<(usize, Replan)> =
            changes.iter().filter_map(|change| replan(change, cycle, topology)).collect();
        let mut reshaped = Vec::new();
        state.is_in_cut.fill(false);
        if !changed.is_empty() {
            let mut splits = state.splits.to_vec();
            for (edge, change) in &changed {
                let before = splits[*edge].replace(Arc::new(change.plan.clone()));
                let is_reshaped = before.is_none_or(|before| !before.differs_by_window(&change.plan));
                if is_reshaped {
                    reshaped.push(*edge);
                }
                state.first_cycles[*edge] = cycle;
                state.changes.push(change.clone(), is_reshaped);
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
            *sample.batch.lock() = Some(batch.clone());
            sample.wanted.store(false, Ordering::Relaxed);
        }
    }

    /// The sample, if one was provided.
    pub fn take_sample(&self, edge: usize) -> Option<Batch> {
        self.samples[edge].batch.lock().take()
    }

    /// Waits for this time; false if the query ends first.
    pub fn wait(&self, time: Duration) -> bool {
        let mut ended = self.ended.lock();
        self.changed.wait_while_for(&mut ended, |ended| !*ended, time);
        !*ended
    }

    /// The query has ended.
    pub fn end(&self) {
        *self.ended.lock() = true;
        self.changed.notify_all();
    }
}

impl State {
    /// Whether a plan is proposed for an edge that is not in force yet.
    fn is_pending(&self, edge: usize) -> bool {
        self.next[edge].is_some() || self.is_in_cut[edge]
    }
}

/// The last changes, each with whether more than the size of the window has changed.
#[derive(Default)]
struct Changes(VecDeque<(Replan, bool)>);

impl Changes {
    fn push(&mut self, change: Replan, is_reshaped: bool) {
        if self.0.len() == CHANGES_MAX {
            let place = self.0.iter().position(|(_, is_reshaped)| !is_reshaped);
            self.0.remove(place.unwrap_or(0));
        }
        self.0.push_back((change, is_reshaped));
    }

    fn list(&self) -> Vec<Replan> {
        self.0.iter().map(|(change, _)| change.clone()).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_are_tried_do_not_push_out_other_changes() {
        let mut changes = Changes::default();
        let change = |first_cycle: u64| Replan {
            operator: "sum".into(),
            input: 0,
            first_cycle,
            plan: SplitPlan::fsplit(7).with_window_rows(64 + first_cycle as u32),
        };
        let cycles_of = |changes: &Changes| -> Vec<u64> {
            changes.list().iter().map(|change| change.first_cycle).collect()
        };
        (0..1000).for_each(|cycle| changes.push(change(cycle), cycle == 100));
        let expected: Vec<u64> = [100].into_iter().chain(745..1000).collect();
        assert_eq!(cycles_of(&changes), expected);
        // Without any, the oldest ones go.
        (1000..1300).for_each(|cycle| changes.push(change(cycle), true));
        assert_eq!(cycles_of(&changes), (1044..1300).collect::<Vec<u64>>());
    }
}
