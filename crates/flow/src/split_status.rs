//! How an operator input is split, and what that costs: measured next to predicted.

use std::fmt;
use std::sync::Arc;

use tidemill_split::SplitPlan;
use tidemill_split::choose::Choice;
use tidemill_split::predict::{SPLITTERS, WINDOW_ROUTER, name_of_level};
use tidemill_split::profile::SplitProfile;
use tidemill_split::window_search::WindowComparison;

use crate::run_state::RunState;
use crate::run_state::work::{Part, Work};
use crate::topology::{EdgeKind, SplitEdge};

/// The split of one operator input. Its text form shows each stage's measured cost next to the predicted one.
///
/// Both are processor time, so other programs on the machine affect neither. The model covers the split and the operator.
/// It leaves out sources, expressions before the split (in SQL also the route) and sinks, which make the query slower.
#[derive(Clone, Debug, PartialEq)]
pub struct SplitStatus {
    /// The operator.
    pub operator: String,
    /// The number of its input.
    pub input: usize,
    /// The plan in force.
    pub plan: SplitPlan,
    /// The last choice, if the engine chooses. For a given plan: that plan, and what others would cost.
    pub choice: Option<Choice>,
    /// The profile on which the choice was based.
    pub profile: Option<SplitProfile>,
    /// What windows of other sizes have cost while the query ran, if the engine searches the size of the window and has
    /// compared some.
    pub window: Option<WindowComparison>,
    /// The work of each stage of the plan since the plan took effect, in the order of events. If only the size of the window
    /// changes, the work before counts, too.
    pub stages: Vec<Work>,
}

impl SplitStatus {
    pub(crate) fn list(run_state: &RunState) -> Vec<SplitStatus> {
        let splits = run_state.splits.splits();
        let topology = run_state.topology();
        let status = |(index, plan): (usize, &Option<Arc<SplitPlan>>)| {
            let plan = SplitPlan::clone(plan.as_ref()?);
            let EdgeKind::Split(split) = &topology.edges[index].kind else { return None };
            let (operator, input) = topology.reader_of(index);
            let stages = stages(run_state, index, split, &plan, topology.workers);
            let (profile, choice) = run_state.splits.choice(index).unzip();
            let window = run_state.splits.window(index);
            Some(SplitStatus { operator, input, choice, profile, plan, window, stages })
        };
        splits.iter().enumerate().filter_map(status).collect()
    }

    /// Worker time of splitting per incoming row.
    pub fn splitting_ns(&self) -> f64 {
        let all_ns: u64 = self.stages.iter().map(|stage| stage.time_ns).sum();
        all_ns as f64 / self.rows_in()
    }

    /// The stage that took the most worker time.
    pub fn bottleneck(&self) -> Option<&Work> {
        self.stages.iter().max_by_key(|stage| stage.time_ns)
    }

    fn rows_in(&self) -> f64 {
        self.stages.first().map_or(1, |stage| stage.rows_in.max(1)) as f64
    }
}

fn stages(run_state: &RunState, edge: usize, split: &SplitEdge, plan: &SplitPlan, workers: u32) -> Vec<Work> {
    let levels = if plan.needs_splitters(workers) { plan.levels().min(split.levels) } else { 0 };
    let name = |stage| match (stage, levels) {
        (0, 0) => SPLITTERS.to_string(),
        (0, _) => WINDOW_ROUTER.to_string(),
        _ => name_of_level(plan, stage),
    };
    let work = |stage| Work { name: name(stage), ..run_state.work.read(Part::Split { edge, stage }) };
    (0..=levels).map(work).collect()
}

impl fmt::Display for SplitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SplitStatus { operator, input, plan, .. } = self;
        write!(f, "operator '{operator}', input {input}: {plan}; processor time")?;
        let slowest = self.bottleneck().map(|stage| &stage.name);
        for stage in &self.stages {
            let measured_ns = stage.time_ns as f64 / self.rows_in();
            write!(f, "\n  {:<22} {measured_ns:>8.1} ns per event", stage.name)?;
            if let Some(predicted_ns) = self.predicted_ns(&stage.name) {
                write!(f, ", predicted {predicted_ns:>8.1}")?;
            }
            write!(f, "; {} rows in, {} out", stage.rows_in, stage.rows_out)?;
            if slowest == Some(&stage.name) {
                write!(f, "  <- the most work")?;
            }
        }
        if let Some(window) = &self.window {
            write!(f, "\nby the busiest worker's processor time while running: {window}")?;
        }
        match &self.choice {
            Some(choice) => write!(f, "\nby the model, for the split and the operator alone: {choice}"),
            None => Ok(()),
        }
    }
}

impl SplitStatus {
    /// What the last choice predicts for a stage of the plan in force, in nanoseconds for each row that comes in.
    pub fn predicted_ns(&self, stage: &str) -> Option<f64> {
        let prediction = self.choice.as_ref()?.predictions.iter().find(|one| one.plan == self.plan)?;
        prediction.stages.iter().find(|one| one.name == stage).map(|one| one.total_ns())
    }
}
