//! What a query promises of time: its pool, its deadline, and the analysis that admits it.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use tidemill_engine::analysis::{Admission, Arrivals, CostModel, Processors, Stream, admit};
use tidemill_engine::{Cause, CycleCosts, CyclePolicy};

use super::costs_text::{measured_text, worst_cases_text};
use super::higher_priority_work::{CompetingWork, HigherPriorityWork};
use super::measurement::Measurement;
use super::time_contract::{SinkContract, StatedCost};
use crate::pool_definition::PoolDefinition;
use crate::query::bound_text::{admission_text, pool_text, refusal_text, time};
use crate::settings::Settings;

/// What the queries of a pipeline promise together.
#[derive(Clone, Debug, Default)]
pub(crate) struct RealTime {
    /// The sinks that state something.
    pub sinks: Vec<String>,
    pub pool: Option<Arc<PoolDefinition>>,
    pub deadline: Option<Duration>,
    /// What a cycle may cost, if that is stated or was measured.
    pub cost: Option<CostModel>,
    pub measurement: Option<Measurement>,
    analysis: Option<Analysis>,
    outcome: Outcome,
    buffer_max: Option<u32>,
    /// Whether cycles that wait close at multiples of the interval.
    pub is_periodic: bool,
    best_effort: bool,
    /// What the bound does not count.
    not_counted: Vec<String>,
}

/// What is known beside the costs.
#[derive(Clone, Debug)]
struct Analysis {
    arrivals: Arrivals,
    processors: Processors,
    deadline_ns: u64,
}

/// The result of the analysis.
#[derive(Clone, Debug, Default)]
pub(crate) enum Outcome {
    /// There was none, or none yet.
    #[default]
    None,
    Admitted(Admission),
    /// The deadline cannot be kept for certain, for this reason.
    Refused(String),
}

impl RealTime {
    /// What these sinks promise together, beside others that run by themselves. `measurement` is what is known of the costs of
    /// all of them together, for a margin.
    ///
    /// # Errors
    /// If they contradict each other.
    pub fn of(
        own: &[SinkContract],
        competing: CompetingWork<'_>,
        settings: &Settings,
        measurement: impl FnOnce(f64) -> Measurement,
    ) -> Result<RealTime, Cause> {
        let Some(first) = own.first() else { return Ok(RealTime::default()) };
        check_together(own)?;
        let contracts = || own.iter().map(|sink| &sink.contract);
        let deadline_ns = contracts().filter_map(|contract| contract.deadline_ns).min();
        let deadline = deadline_ns.map(Duration::from_nanos);
        let pool = first.contract.pool.as_ref().and_then(|pool| competing.pools.get(pool)).cloned();
        let HigherPriorityWork { processors, not_counted } =
            competing.higher_priority_work(pool.as_ref().map(|pool| &pool.settings), deadline);
        let arrivals = contracts().find_map(|contract| contract.arrivals());
        let is_analysed = contracts().all(|contract| contract.is_analysed());
        let analysis = arrivals.zip(deadline_ns).filter(|_| is_analysed);
        let analysis = analysis.map(|(arrivals, deadline_ns)| Analysis { arrivals, processors, deadline_ns });
        if analysis.is_some() && settings.cycle_fixed {
            return Err(Cause::user(
                "cycles of a fixed size do not close in time for a deadline; SET cycle_fixed = false, or remove \
                 wcet, min_gap and burst from the sink",
            ));
        }
        // If one of them is measured, all of them are: their work is one.
        let margins = contracts().filter_map(|contract| match contract.cost? {
            StatedCost::Measured { margin } => Some(margin),
            StatedCost::Event(_) => None,
        });
        let margin = margins.reduce(f64::max).filter(|_| analysis.is_some());
        if margin.is_some() && settings.processes > 1 {
            return Err(Cause::user(
                "costs are measured in one process only; state wcet, or run the query in one process",
            ));
        }
        let mut real_time = RealTime {
            sinks: own.iter().map(|sink| sink.name.clone()).collect(),
            pool,
            deadline,
            cost: None,
            measurement: margin.map(measurement),
            analysis,
            outcome: Outcome::None,
            buffer_max: contracts().filter_map(|contract| contract.buffer_max).min(),
            is_periodic: contracts().any(|contract| contract.is_periodic),
            best_effort: contracts().any(|contract| contract.best_effort),
            not_counted,
        };
        match &real_time.measurement {
            Some(measurement) => {
                let known = measurement.known.clone();
                real_time.analyse_measured(&known);
            }
            None => real_time.analyse(stated(own).into_iter().collect()),
        }
        Ok(real_time)
    }

    /// Analyses it with costs of which each is a bound, and takes the first that keeps the deadline.
    fn analyse(&mut self, costs: Vec<CostModel>) {
        (self.cost, self.outcome) = (costs.first().copied(), Outcome::None);
        let Some(Analysis { arrivals, processors, deadline_ns }) = &self.analysis else { return };
        for cost in costs {
            match admit(&Stream::of(*arrivals, cost), processors, *deadline_ns) {
                Ok(admission) => {
                    (self.cost, self.outcome) = (Some(cost), Outcome::Admitted(admission));
                    return;
                }
                Err(refusal) if matches!(self.outcome, Outcome::None) => {
                    self.outcome = Outcome::Refused(refusal_text(&refusal));
                }
                Err(_) => {}
            }
        }
    }

    /// Analyses it with these measured costs, if there are enough of them.
    pub fn analyse_measured(&mut self, costs: &CycleCosts) {
        if let (Some(measurement), Some(analysis)) = (&self.measurement, &self.analysis) {
            self.analyse(measurement.models(costs, analysis.arrivals.burst));
        }
    }

    /// Why the deadline cannot be kept for certain, in a sentence; `None` if it can, or nobody knows.
    pub fn refusal(&self) -> Option<String> {
        let (Outcome::Refused(reason), Some(deadline)) = (&self.outcome, self.deadline) else { return None };
        let (sink, deadline) = (self.sinks.join("', '"), time(deadline.as_nanos() as u64));
        let by = if self.measurement.is_some() { " by the costs that were measured" } else { "" };
        Some(format!("sink '{sink}' cannot keep its deadline of {deadline}{by}: {reason}"))
    }

    /// The [refusal](RealTime::refusal), unless the user accepts it.
    pub fn check(&self) -> Result<(), Cause> {
        match self.refusal().filter(|_| !self.best_effort) {
            Some(refusal) => Err(Cause::user(refusal)),
            None => Ok(()),
        }
    }

    /// As `check`, where the query starts. What was only measured does not keep it from that: it would not come back after a
    /// restart.
    pub fn check_start(&self) -> Result<(), Cause> {
        if self.measurement.is_some() { Ok(()) } else { self.check() }
    }

    /// The settings of a query that runs in the pool: with as many workers as that has.
    pub fn settings(&self, settings: &Settings) -> Settings {
        let workers = self.pool.as_ref().map_or(settings.workers, |pool| pool.settings.workers);
        Settings { workers, ..settings.clone() }
    }

    /// When cycles close: as the analysis says; as long as it says nothing, half of the deadline is for the wait. Without an
    /// analysis an event waits for a fifth of the deadline.
    pub fn cycles(&self, policy: CyclePolicy) -> CyclePolicy {
        let events_max = |most: u64| u32::try_from(most).unwrap_or(u32::MAX).min(1 << 30);
        let policy = match (&self.outcome, &self.analysis) {
            (Outcome::Admitted(Admission { release, .. }), _) => CyclePolicy {
                events_max: events_max(release.buffer_max),
                wait_max: Some(Duration::from_nanos(release.interval_ns)),
                close_when_idle: false,
            },
            (_, Some(analysis)) => CyclePolicy {
                wait_max: Some(Duration::from_nanos(analysis.deadline_ns / 2)),
                close_when_idle: false,
                ..policy
            },
            _ => policy,
        };
        let most = self.buffer_max.unwrap_or(policy.events_max);
        CyclePolicy { events_max: policy.events_max.min(most), ..policy }
    }

    /// Whether cycles are processed one after another, as the analysis assumes.
    pub fn one_at_a_time(&self) -> bool {
        self.analysis.is_some()
    }

    /// Whether its sources are read, and its cycles closed, for it alone: by threads of its pool, as the analysis says.
    pub fn has_own_cycles(&self) -> bool {
        self.pool.is_some() || self.analysis.is_some()
    }

    /// Pool, deadline, bound and terms, each on a line.
    pub fn explain(&self) -> String {
        let mut text = String::new();
        if let Some(pool) = &self.pool {
            let _ = writeln!(text, "pool: {}, {}", pool.settings.name, pool_text(&pool.settings));
        }
        text.push_str(&self.deadline_text());
        if let Some(measured) = &self.measurement {
            text.push_str(&measured_text(measured, &measured.known, self.cost));
            text.push_str(&worst_cases_text(&measured.known));
        }
        text
    }

    /// The deadline, the result of its analysis, and what that does not count.
    pub fn deadline_text(&self) -> String {
        let Some(deadline) = self.deadline else { return String::new() };
        let deadline = time(deadline.as_nanos() as u64);
        let text = match (&self.outcome, &self.analysis) {
            (Outcome::Admitted(admission), _) => admission_text(admission, self.is_periodic),
            (Outcome::Refused(reason), _) => format!(
                "not kept for certain: {reason}; a cycle is released after half of the deadline, late answers \
                 are counted"
            ),
            (Outcome::None, Some(_)) => {
                "not analysed yet: costs are measured first, and meanwhile a cycle is released after half of the \
                 deadline"
                    .to_owned()
            }
            (Outcome::None, None) => {
                "not analysed: late answers are counted; min_gap gives a bound".to_owned()
            }
        };
        let not_counted = match (self.not_counted.as_slice(), &self.analysis) {
            ([], _) | (_, None) => String::new(),
            (parts, Some(_)) => format!("the bound does not include {}\n", parts.join("; ")),
        };
        format!("deadline: {deadline}; {text}\n{not_counted}")
    }
}

/// Refuses sinks that run together and differ in what must be the same.
fn check_together(own: &[SinkContract]) -> Result<(), Cause> {
    let Some((first, rest)) = own.split_first() else { return Ok(()) };
    let differs = |other: &&SinkContract| {
        let (one, other) = (&first.contract, &other.contract);
        other.pool != one.pool
            || (other.is_analysed() && (other.burst, other.min_gap_ns) != (one.burst, one.min_gap_ns))
    };
    match rest.iter().find(differs) {
        Some(other) => Err(Cause::user(format!(
            "sinks '{}' and '{}' run together, but differ in pool, burst or min_gap; make \
             them the same, or run them one by one",
            first.name, other.name
        ))),
        None => Ok(()),
    }
}

/// Each event costs what all queries do with it.
fn stated(own: &[SinkContract]) -> Option<CostModel> {
    let costs = own.iter().map(|sink| sink.cost);
    costs.reduce(|sum, cost| {
        let (sum, cost) = (sum?, cost?);
        Some(CostModel {
            batch_ns: sum.batch_ns.saturating_add(cost.batch_ns),
            event_ns: sum.event_ns.saturating_add(cost.event_ns),
        })
    })?
}
