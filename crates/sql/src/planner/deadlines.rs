//! The analysis of deadlines over the whole catalogue: what each sink promises beside the others, and whether a new definition
//! breaks the promise of an earlier one.

use datafusion::logical_expr::LogicalPlan;
use tidemill_engine::Cause;
use tidemill_engine::analysis::CostModel;

use super::{Planner, Reply, Request};
use crate::catalog::{Catalog, SinkEntry};
use crate::cost_profiles;
use crate::query::higher_priority_work::CompetingWork;
use crate::query::measurement::Measurement;
use crate::query::pipeline::{OutputTarget, Pipeline};
use crate::query::real_time::RealTime;
use crate::query::running::RunningQuery;
use crate::query::time_contract::{SinkContract, StatedCost, TimeContract};
use crate::statement::{Statement, StatementKind};
use crate::text::TextError;

/// An output of a query, as its costs are kept, and what it asks of time.
pub(super) struct AnalysedSink {
    pub name: String,
    pub contract: Option<TimeContract>,
    pub connector: String,
    pub plans: Vec<LogicalPlan>,
}

impl AnalysedSink {
    fn of(name: &str, sink: &SinkEntry) -> AnalysedSink {
        AnalysedSink {
            name: name.to_owned(),
            contract: sink.contract.clone(),
            connector: sink.definition.connector.clone(),
            plans: sink.inputs.clone(),
        }
    }
}

/// A pipeline, unless a deadline that is stated with its costs cannot be kept.
pub(super) fn may_start(pipeline: Pipeline) -> Result<Pipeline, Cause> {
    pipeline.prepared.real_time.check_start()?;
    Ok(pipeline)
}

impl Request {
    pub(super) fn analysed_sink(&self) -> AnalysedSink {
        let connector = match &self.target {
            OutputTarget::Sink(definition) => definition.connector.clone(),
            OutputTarget::View(_) => "view".to_owned(),
        };
        let plans = vec![self.plan.clone()];
        AnalysedSink { name: self.name.clone(), contract: self.contract.clone(), connector, plans }
    }
}

impl Planner {
    /// Refuses definitions that break the deadline of a sink which was kept for certain before, and sinks whose own deadline is
    /// not. Each sink is then taken for a query of its own, as it is under a server; the sinks of a script run together, and are
    /// analysed when they start. A planner that executes definitions again refuses nothing.
    pub fn set_checks_deadlines(&mut self, checks_deadlines: bool) {
        self.checks_deadlines = checks_deadlines;
    }

    /// See [`set_checks_deadlines`](Planner::set_checks_deadlines).
    pub fn checks_deadlines(&self) -> bool {
        self.checks_deadlines
    }

    /// As [`pipeline_of`](Planner::pipeline_of), for a query that ran before: what was defined since then, or is measured now, does
    /// not keep it from running again, even if its deadline is not kept for certain any more.
    ///
    /// # Errors
    /// As `pipeline_of`.
    pub fn pipeline_again(&self, names: &[&str]) -> Result<Pipeline, Cause> {
        self.requested(names).and_then(|requests| self.pipeline_for(requests))
    }

    /// What outputs that run together promise of time, beside the other sinks of the catalogue.
    pub(super) fn real_time(&self, own: &[AnalysedSink]) -> Result<RealTime, Cause> {
        let runs_here = |name: &String| own.iter().any(|analysed| analysed.name == *name);
        let others = self.catalog.sinks.iter().filter(|(name, sink)| {
            let is_in_pool = sink.contract.as_ref().is_some_and(|contract| contract.pool.is_some());
            is_in_pool && !runs_here(name) && !sink.inputs.is_empty()
        });
        let others = others.filter_map(|(name, sink)| self.sink_contract(&AnalysedSink::of(name, sink)));
        let others: Vec<SinkContract> = others.collect();
        let contracts: Vec<SinkContract> =
            own.iter().filter_map(|analysed| self.sink_contract(analysed)).collect();
        let competing = CompetingWork { sinks: &others, pools: &self.catalog.pools };
        RealTime::of(&contracts, competing, &self.settings, |margin| self.measurement(own, margin))
    }

    /// The catalogue has changed since a query started: from the next cycle on, it keeps its deadline beside what there is now, if
    /// that is possible. A query with a sink that is not there any more continues as before.
    pub fn keep_deadline(&self, running: &RunningQuery) {
        let sinks = running.timed_sinks();
        let analysed = sinks.iter().map(|name| Some(AnalysedSink::of(name, self.catalog.sinks.get(name)?)));
        let analysed: Option<Vec<AnalysedSink>> = analysed.collect();
        let real_time =
            analysed.filter(|analysed| !analysed.is_empty()).map(|analysed| self.real_time(&analysed));
        if let Some(Ok(real_time)) = real_time {
            running.keep_deadline_as(real_time);
        }
    }

    fn sink_contract(&self, analysed: &AnalysedSink) -> Option<SinkContract> {
        let contract = analysed.contract.clone()?;
        let cost = contract.cost.and_then(|cost| match cost {
            StatedCost::Event(event_ns) => Some(CostModel::of_event(event_ns)),
            StatedCost::Measured { margin } => {
                let measurement = self.measurement(std::slice::from_ref(analysed), margin);
                measurement.models(&measurement.known, contract.burst).into_iter().next()
            }
        });
        Some(SinkContract { name: analysed.name.clone(), contract, cost })
    }

    /// What is known of the costs of outputs that run together.
    fn measurement(&self, own: &[AnalysedSink], margin: f64) -> Measurement {
        let pools = own.iter().filter_map(|analysed| analysed.contract.as_ref()?.pool.as_ref());
        let pool = pools.filter_map(|pool| self.catalog.pools.get(pool)).next();
        let workers = pool.map_or(self.settings.workers, |pool| pool.settings.workers);
        let texts = own.iter().flat_map(|analysed| {
            analysed.plans.iter().map(|plan| (analysed.connector.as_str(), plan.display_indent().to_string()))
        });
        let key = cost_profiles::key(&texts.collect::<Vec<_>>(), workers);
        Measurement::of(key, self.settings.cost_profiles.clone(), margin)
    }

    /// A definition that breaks a deadline has no effect; one that may break it says so.
    pub(super) fn keep_deadlines(
        &mut self,
        before: Catalog,
        statement: &Statement,
        reply: &mut Reply,
    ) -> Result<(), TextError> {
        let earlier = Planner::at(before, self.settings.clone());
        let accepted = match self.check_deadlines(&earlier, statement) {
            Ok(accepted) => accepted,
            Err(error) => {
                self.catalog = earlier.catalog;
                return Err(error);
            }
        };
        if let Reply::Done(text) = reply {
            accepted.iter().for_each(|warning| text.push_str(&format!("; but {warning}")));
        }
        Ok(())
    }

    /// Checks the deadlines of all sinks after a definition. Returns what is not kept for certain, if the user accepts that.
    fn check_deadlines(&self, before: &Planner, statement: &Statement) -> Result<Vec<String>, TextError> {
        let (name, is_accepted) = match &statement.kind {
            StatementKind::CreateSink(create) => (&create.name, self.is_best_effort(create.name.as_str())),
            StatementKind::InsertInto { sink, .. } => (sink, self.is_best_effort(sink.as_str())),
            StatementKind::CreatePool(create) => {
                let pool = self.catalog.pools.get(create.name.as_str());
                (&create.name, pool.is_some_and(|pool| pool.settings.best_effort))
            }
            _ => return Ok(Vec::new()),
        };
        let mut accepted = Vec::new();
        for sink in
            self.catalog.sinks.iter().filter(|(_, sink)| sink.contract.is_some()).map(|(sink, _)| sink)
        {
            let Some(refusal) = self.refusal_of(sink) else { continue };
            let is_own = sink == name.as_str();
            if !is_own && before.refusal_of(sink).is_some() {
                continue;
            }
            let message = if is_own { refusal } else { format!("beside '{name}', {refusal}") };
            if !is_accepted && !self.is_best_effort(sink) {
                let error = statement.error(name.span, message);
                return Err(error.with_hint(
                    "change one of them, or add best_effort = true: then this is a warning, and late answers \
                     are counted",
                ));
            }
            accepted.push(message);
        }
        Ok(accepted)
    }

    fn is_best_effort(&self, sink: &str) -> bool {
        let sink = self.catalog.sinks.get(sink).and_then(|sink| sink.contract.as_ref());
        sink.is_some_and(|contract| contract.best_effort)
    }

    /// Why a sink's deadline is not kept for certain, where it runs by itself.
    fn refusal_of(&self, sink: &str) -> Option<String> {
        let entry = self.catalog.sinks.get(sink).filter(|sink| !sink.inputs.is_empty())?;
        // Contradictions are reported where it starts.
        self.real_time(&[AnalysedSink::of(sink, entry)]).ok()?.refusal()
    }
}
