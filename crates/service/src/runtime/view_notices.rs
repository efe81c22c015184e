//! What is to be said about views whose rows are not computed any more.

use tidemill_engine::Cause;
use tidemill_sql::Statement;

use crate::{QueryState, Runtime};

impl Runtime {
    /// What is to be said about the rows of a query's answer: which of the materialized views that it reads are stopped, or have
    /// failed.
    ///
    /// # Errors
    /// If the rows of one of them are not there.
    pub(crate) fn notices_of_views(&self, statement: &Statement) -> Result<Vec<String>, Cause> {
        let stopped = self.stopped_names();
        let failed = self.failed_outputs();
        let at_gateways = self.stopped_at_gateways();
        if stopped.is_empty() && failed.is_empty() && at_gateways.is_empty() {
            return Ok(Vec::new());
        }
        let names = self.defined_catalog().read_by(statement);
        let at_gateways = at_gateways.iter().filter(|stopped| names.contains(stopped.as_str()));
        let at_gateways = at_gateways.map(|name| {
            Ok(format!("'{name}' is stopped at its gateways; its rows are those that they had then"))
        });
        let named = stopped.iter().filter(|stopped| names.contains(stopped.as_str()));
        let said = named.map(|name| match self.running_view(name) {
            Some(view) => Ok(match view.store().latest().cycle() {
                Some(cycle) => format!("'{name}' is stopped; its rows are those after cycle {cycle}"),
                None => format!("'{name}' is stopped, and has no rows yet"),
            }),
            None => Err(Cause::user(format!(
                "'{name}' is stopped, and its rows, which were in memory only, were lost when the database was opened \
                 again; START MATERIALIZED VIEW {name} fills it with those that come"
            ))),
        });
        let failed = failed.iter().filter(|(name, _)| names.contains(name.as_str()));
        let failed = failed.map(|(name, why)| self.said_of_failed(name, why));
        said.chain(failed).chain(at_gateways).collect()
    }

    /// Why nobody can follow the changes of a view: its query is stopped, has failed, or could not be started; `None`: it is none of
    /// these.
    pub(crate) fn why_not_running(&self, name: &str) -> Option<String> {
        if self.stopped_names().iter().any(|stopped| stopped == name) {
            return Some("it is stopped, and its rows were in memory only; START continues it".to_owned());
        }
        self.failed_outputs().into_iter().find(|(output, _)| output == name).map(|(_, why)| why)
    }

    /// The names of the queries that are stopped.
    fn stopped_names(&self) -> Vec<String> {
        self.running()
            .iter()
            .filter(|query| query.is_stopped())
            .map(|query| query.identity.kept.name.clone())
            .collect()
    }

    /// The outputs of queries that have failed or could not be started, each with the reason.
    fn failed_outputs(&self) -> Vec<(String, String)> {
        let failed = self.running().into_iter().filter(|query| query.state() == QueryState::Failed);
        let outputs = failed.flat_map(|query| {
            let why = query.report("").problem.unwrap_or_default();
            query.outputs().iter().map(|output| (output.clone(), why.clone())).collect::<Vec<_>>()
        });
        outputs.chain(self.not_started()).chain(self.starting()).collect()
    }

    /// The outputs of queries that are being opened: a query over a view must not take it for one to be computed.
    fn starting(&self) -> Vec<(String, String)> {
        let entries = self.entries();
        let opened = entries.values().filter(|entry| entry.started().is_none());
        let outputs = opened.flat_map(|entry| entry.outputs().to_vec());
        let outputs = outputs.filter(|output| self.running_view(output).is_none());
        outputs.map(|output| (output, "it is being started; try again".to_owned())).collect()
    }

    /// What is to be said about the rows of a view whose query has failed.
    fn said_of_failed(&self, name: &str, why: &str) -> Result<String, Cause> {
        let rows = self.running_view(name);
        let cycle = rows.as_ref().map(|view| view.store().latest().cycle());
        match cycle {
            Some(Some(cycle)) => {
                Ok(format!("'{name}' has failed, and its rows are those after cycle {cycle}: {why}"))
            }
            Some(None) => Ok(format!("'{name}' has failed before it had rows: {why}")),
            None => Err(Cause::operation(format!("'{name}' has no rows to read: {why}"))),
        }
    }
}
