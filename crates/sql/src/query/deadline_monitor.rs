//! The deadline of a running query: it is analysed once enough of its cycles are measured, and again when a cycle costs more, or
//! when something else runs beside it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tidemill_engine::{CycleCosts, CyclePolicy, Running};
use tracing::{info, warn};

use super::costs_text::measured_text;
use super::real_time::RealTime;

/// How often a query is analysed again because a cycle has cost more.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How often a running query is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Looks after the deadline of a query.
pub(crate) struct DeadlineMonitor {
    /// When cycles close without an analysis.
    policy: CyclePolicy,
    state: Mutex<State>,
}

struct State {
    real_time: RealTime,
    looked: Option<Instant>,
    /// When it was last analysed here, and how many cycles had cost too much by then; `None`: as it was planned.
    analysed: Option<(Instant, u64)>,
    /// What was measured, if it was analysed with that.
    costs: Option<CycleCosts>,
    /// Whether its pool has another definition than the one in which it runs.
    has_earlier_pool: bool,
}

impl DeadlineMonitor {
    pub fn new(real_time: RealTime, policy: CyclePolicy) -> DeadlineMonitor {
        let state = State { real_time, looked: None, analysed: None, costs: None, has_earlier_pool: false };
        if let Some(refusal) = state.real_time.refusal() {
            warn!("{refusal}; it runs nevertheless, and late answers are counted");
        }
        DeadlineMonitor { policy, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The sinks that state something.
    pub fn sinks(&self) -> Vec<String> {
        self.lock().real_time.sinks.clone()
    }

    /// Analyses it if there is a reason. Called every few milliseconds.
    pub fn look(&self, running: &Running) {
        let mut state = self.lock();
        if state.real_time.measurement.is_none() || state.looked.is_some_and(|looked| looked.elapsed() < LOOK)
        {
            return;
        }
        state.looked = Some(Instant::now());
        let Some(measurement) = &state.real_time.measurement else { return };
        let is_due = match (state.real_time.cost, state.analysed) {
            (None, _) => measurement.cycles_left(&measurement.known) <= running.cycles_measured(),
            (Some(_), analysed) => {
                let (is_soon, before) =
                    analysed.map_or((false, 0), |(last, exceeded)| (last.elapsed() < AGAIN_AFTER, exceeded));
                !is_soon && running.costs().exceeded > before
            }
        };
        if is_due {
            self.analyse(&mut state, running);
        }
    }

    fn analyse(&self, state: &mut State, running: &Running) {
        let costs = running.costs();
        let Some(measurement) = &state.real_time.measurement else { return };
        let all = measurement.with(&costs);
        measurement.keep(&all);
        state.real_time.analyse_measured(&all);
        state.analysed = Some((Instant::now(), costs.exceeded));
        state.costs = Some(all);
        self.follow(&state.real_time, running);
        match state.real_time.refusal() {
            Some(refusal) => warn!("{refusal}; late answers are counted"),
            None => info!(sinks = ?state.real_time.sinks, "{}", state.real_time.deadline_text().trim_end()),
        }
    }

    /// From the next cycle on, the query does what its analysis says.
    fn follow(&self, real_time: &RealTime, running: &Running) {
        if let Some(cost) = real_time.cost {
            running.state_costs(cost);
        }
        // A rule that was planned can be followed; if it cannot, the earlier one stays.
        let _ = running.set_cycles(real_time.cycles(self.policy.clone()));
    }

    /// Something else runs beside it from now on.
    pub fn replace(&self, mut real_time: RealTime, running: &Running) {
        let mut state = self.lock();
        if !real_time.one_at_a_time() {
            return;
        }
        let pools = (&state.real_time.pool, &real_time.pool);
        if !matches!(pools, (None, None)) && !matches!(pools, (Some(old), Some(new)) if Arc::ptr_eq(old, new))
        {
            state.has_earlier_pool = true;
            return;
        }
        // What this run has measured counts once.
        if let (Some(new), Some(old)) = (&mut real_time.measurement, state.real_time.measurement.take()) {
            new.known = old.known;
        }
        state.real_time = real_time;
        if state.costs.is_some() {
            return self.analyse(&mut state, running);
        }
        state.analysed = Some((Instant::now(), running.costs().exceeded));
        self.follow(&state.real_time, running);
    }

    /// Keeps what was measured, for the next run.
    pub fn keep(&self, costs: &CycleCosts) {
        if let Some(measurement) = &self.lock().real_time.measurement {
            measurement.keep(&measurement.with(costs));
        }
    }

    /// What has changed since it was planned.
    pub fn describe(&self) -> String {
        let state = self.lock();
        let pool = if state.has_earlier_pool {
            "its pool was replaced since it started: until it starts again, it runs in the earlier one, and the \
                 bound counts what ran beside it before\n"
        } else {
            ""
        };
        if state.analysed.is_none() {
            return pool.to_owned();
        }
        let measured = state.real_time.measurement.as_ref().zip(state.costs.as_ref());
        let measured = measured
            .map_or(String::new(), |(measured, costs)| measured_text(measured, costs, state.real_time.cost));
        format!("{pool}analysed since it started:\n{}{measured}", state.real_time.deadline_text())
    }
}
