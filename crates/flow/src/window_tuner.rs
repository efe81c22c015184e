//! Searches the size of an edge's window while a query runs: measures some cycles with a size, and proposes the next one at a
//! cut. No result depends on it.

use std::sync::Arc;

use tidemill_split::SplitPlan;
use tidemill_split::window_search::WindowSearch;

use crate::run_state::RunState;

/// The cycles of a turn.
const CYCLES_OF_A_TURN: usize = 8;
/// Cycles with fewer rows are not counted: what is the same for each cycle would outweigh the rows.
const ROWS_MIN: u64 = 512;
/// The search rests after this many looks without enough cycles.
const LOOKS_MAX: u32 = 10;

/// The search for one edge.
pub(crate) struct WindowTuner {
    edge: usize,
    state: Option<State>,
}

struct State {
    /// The plan, with any size of its window.
    plan: Arc<SplitPlan>,
    search: WindowSearch,
    /// The costs of the turn so far, in nanoseconds per row.
    cycles_ns: Vec<f64>,
    looks: u32,
    /// The first cycle that was not looked at yet.
    next_cycle: u64,
}

impl WindowTuner {
    pub fn new(edge: usize) -> WindowTuner {
        WindowTuner { edge, state: None }
    }

    /// Looks at the cycles since the last time.
    pub fn look(&mut self, run_state: &RunState, workers: u32) {
        let Some(in_force) = run_state.splits.in_force(self.edge) else { return };
        if in_force.is_pending {
            // It takes effect at the next cut.
            return;
        }
        let plan = in_force.plan;
        if !plan.needs_splitters(workers) {
            // No windows are dealt.
            if self.state.take().is_some() {
                run_state.window_costs.measure(self.edge, false);
                run_state.splits.set_window(self.edge, None);
            }
            return;
        }
        let state = match &mut self.state {
            Some(state) if state.is_of(&plan) => state,
            // The search begins, or another size was set meanwhile: the program changes plans, too.
            _ => {
                run_state.window_costs.measure(self.edge, true);
                run_state.splits.set_window(self.edge, None);
                self.state.insert(State::new(plan.clone()))
            }
        };
        // Rows of cycles before were dealt otherwise, and were still there in the first cycle.
        state.next_cycle = state.next_cycle.max(in_force.first_cycle + 1);
        state.look(self.edge, run_state);
        let wanted = state.search.window_rows();
        if wanted != plan.window_rows {
            run_state.splits.propose_window(self.edge, &plan, wanted);
        }
    }
}

impl State {
    fn new(plan: Arc<SplitPlan>) -> State {
        let search = WindowSearch::new(plan.window_rows);
        State { plan, search, cycles_ns: Vec::new(), looks: 0, next_cycle: 0 }
    }

    /// Whether a plan is the one whose costs this search measures now.
    fn is_of(&self, plan: &SplitPlan) -> bool {
        self.plan.differs_by_window(plan) && self.search.window_rows() == plan.window_rows
    }

    fn look(&mut self, edge: usize, run_state: &RunState) {
        let (costs, end) = (&run_state.window_costs, run_state.progress.committed_cycles());
        if self.search.rests() {
            self.search.measured(&[], costs.batch_rows(edge));
            costs.measure(edge, !self.search.rests());
            self.next_cycle = self.next_cycle.max(end + 1);
            return;
        }
        self.cycles_ns.extend(costs.take(edge, self.next_cycle, end, ROWS_MIN));
        self.next_cycle = self.next_cycle.max(end);
        self.looks += 1;
        if self.cycles_ns.len() >= CYCLES_OF_A_TURN {
            let before = self.search.chosen();
            self.search.measured(&self.cycles_ns, costs.batch_rows(edge));
            self.tell(edge, run_state, before);
        } else if self.looks >= LOOKS_MAX {
            self.search.give_up();
        } else {
            return;
        }
        self.cycles_ns.clear();
        self.looks = 0;
        if self.search.rests() {
            costs.measure(edge, false);
        }
    }

    /// Shows the last comparison, and logs a size that takes over.
    fn tell(&self, edge: usize, run_state: &RunState, before: u32) {
        let Some(comparison) = self.search.last() else { return };
        run_state.splits.set_window(edge, Some(comparison.clone()));
        let window_rows = self.search.chosen();
        if window_rows != before {
            let (operator, input) = run_state.topology().reader_of(edge);
            tracing::info!(operator, input, before, window_rows, %comparison, "another window is cheaper");
        }
    }
}
