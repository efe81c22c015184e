//! What the sinks and materialized views of a catalogue ask to run.

use std::sync::Arc;
use std::time::Duration;

use datafusion::logical_expr::LogicalPlan;
use tidemill_engine::{Beginning, Cause};

use super::Planner;
use crate::query::pipeline::OutputTarget;
use crate::query::time_contract::TimeContract;
use crate::relations::named_relations::Relation;
use crate::statement::RelationKind;

/// A sink or materialized view that is to run.
pub(super) struct Request {
    pub name: String,
    pub plan: LogicalPlan,
    pub target: OutputTarget,
    pub max_latency: Option<Duration>,
    pub contract: Option<TimeContract>,
    pub beginning: Option<Beginning>,
}

impl Planner {
    /// What these sinks and materialized views request.
    pub(super) fn requested(&self, names: &[&str]) -> Result<Vec<Request>, Cause> {
        let all = self.requests()?;
        let missing = names.iter().find(|name| !all.iter().any(|request| request.name == **name));
        if let Some(name) = missing {
            if let Some(failed) = self.catalog.failed(RelationKind::View, name) {
                let reason = &failed.reason;
                return Err(Cause::user(format!("the definition of '{name}' has failed: {reason}")));
            }
            let hint = crate::closest(name, all.iter().map(|request| request.name.as_str()));
            let hint = hint.map_or(String::new(), |meant| format!("; did you mean '{meant}'?"));
            let message = format!("there is no sink with an input and no materialized view '{name}'{hint}");
            return Err(Cause::user(message));
        }
        if names.is_empty() {
            return Err(Cause::user("name the sinks and materialized views to run"));
        }
        let is_wanted = |request: &Request| names.contains(&request.name.as_str());
        Ok(all.into_iter().filter(is_wanted).collect())
    }

    /// What the sinks and materialized views of the catalogue request: the sinks first, each kind by name.
    pub(super) fn requests(&self) -> Result<Vec<Request>, Cause> {
        let mut requests = Vec::new();
        for (name, sink) in self.catalog.sinks.iter().filter(|(_, sink)| self.runs_sink(&sink.gateways)) {
            for input in &sink.inputs {
                requests.push(Request {
                    name: name.clone(),
                    plan: input.clone(),
                    target: OutputTarget::Sink(sink.definition.clone()),
                    max_latency: sink.max_latency,
                    contract: sink.contract.clone(),
                    beginning: sink.beginning,
                });
            }
        }
        for (name, relation) in self.catalog.relations.iter() {
            let Relation::View(view) = relation else { continue };
            let Some(materialized) = &view.materialized else { continue };
            let Some(plan) = self.plan_of_view(materialized)? else { continue };
            requests.push(Request {
                name: name.to_string(),
                plan,
                target: OutputTarget::View(Arc::clone(view)),
                max_latency: materialized.max_latency,
                contract: None,
                beginning: materialized.beginning,
            });
        }
        Ok(requests)
    }
}
