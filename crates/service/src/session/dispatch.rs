//! Executes a statement: the one place that says what each kind of statement does.

use std::sync::Arc;

use tidemill_engine::Cause;
use tidemill_sql::{Reply as Planned, Statement, StatementKind};

use super::adding_columns::add_columns;
use super::live_sources::query;
use super::subscribing::subscribe;
use super::why::explain_why;
use crate::lifecycle::announcement::{announced, stays};
use crate::runtime::readers::planning;
use crate::{Error, Reply, Session};

impl Session {
    /// Executes a statement. A definition is added to the catalogue of the runtime; a query is planned and can then be
    /// started.
    ///
    /// # Errors
    /// The error, with its place.
    pub fn execute(&mut self, statement: &Statement) -> Result<Reply, Error> {
        self.has_defined = false;
        if let Some(added) = self.as_added_columns(statement) {
            return self.execute(&added);
        }
        match &statement.kind {
            StatementKind::AddColumns(add) => {
                let done = add_columns(self, statement, add)?;
                self.has_defined = true;
                Ok(Reply::Done(done))
            }
            StatementKind::CreateSource(_)
            | StatementKind::CreateTable(_)
            | StatementKind::CreateFunction(_)
            | StatementKind::CreateView(_)
            | StatementKind::CreateMaterializedView(_)
            | StatementKind::CreateProcess(_)
            | StatementKind::CreatePlaces(_)
            | StatementKind::CreatePool(_)
            | StatementKind::CreateSink(_)
            | StatementKind::InsertInto { .. }
            | StatementKind::Drop { .. } => self.define(statement),
            StatementKind::Stop(_) => self.lifecycle().stop_named(statement).map(Reply::Done),
            StatementKind::Start(_) => self.lifecycle().start_named(statement).map(Reply::Done),
            StatementKind::Alter(alter) => self.lifecycle().alter(statement, alter).map(Reply::Done),
            StatementKind::Query(..) => {
                drop(self.stopped_views(statement)?);
                self.wait_for_own_changes(statement)?;
                self.plan(statement)
            }
            StatementKind::Subscribe(name) => Ok(Reply::Changes(Box::new(subscribe(self, name, statement)?))),
            StatementKind::Explain { analyze, statement: explained, .. } => {
                self.explain(statement, explained, *analyze)
            }
            StatementKind::ExplainWhy(query) => explain_why(self, query),
            StatementKind::ExplainOutput(name) => match self.runtime.explain_output(name.as_str()) {
                Some(text) => Ok(Reply::Text(text)),
                None => self.plan(statement),
            },
            StatementKind::Set { .. } | StatementKind::Show(_) | StatementKind::Describe(_) => {
                self.plan(statement)
            }
        }
    }

    /// Plans a statement that changes nothing in the catalogue.
    fn plan(&mut self, statement: &Statement) -> Result<Reply, Error> {
        let turns = Arc::clone(&self.turns);
        let _planning = planning(&turns, statement)?;
        self.refresh();
        let planned = self.planner.execute(statement)?;
        self.reply(planned)
    }

    /// Returns the statement that gives a source columns, if a definition that replaces it does no more than that.
    fn as_added_columns(&mut self, statement: &Statement) -> Option<Statement> {
        let StatementKind::CreateSource(create) = &statement.kind else { return None };
        if !create.or_replace {
            return None;
        }
        self.planner.set_catalog(self.runtime.defined_catalog());
        self.planner.as_added_columns(statement)
    }

    /// Makes the next version of the catalogue.
    pub(super) fn define(&mut self, statement: &Statement) -> Result<Reply, Error> {
        self.runtime.check_gateways(statement)?;
        let announced = if self.runs_definitions {
            announced(&statement.kind, &self.runtime, self.planner.settings(), self.is_strict)
        } else {
            None
        };
        let is_cancelled = self.runtime.is_cancelled_from_here(&self.cancellation);
        let (planner, has_defined) = (&mut self.planner, &mut self.has_defined);
        let planned = self.runtime.define(&statement.kind, announced, &is_cancelled, |catalog| {
            *has_defined = !stays(&statement.kind, &catalog);
            planner.set_catalog(catalog);
            let planned = planner.execute(statement)?;
            Ok((planned, planner.catalog().clone()))
        })?;
        self.runtime.keep_deadlines(&statement.kind);
        self.reply(planned)
    }

    /// Returns the plan of a statement, and what would become of the query that it replaces or alters; or what is to be run for its
    /// measurements.
    fn explain(
        &mut self,
        statement: &Statement,
        explained: &Statement,
        analyze: bool,
    ) -> Result<Reply, Error> {
        if let StatementKind::Alter(alter) = &explained.kind {
            return self.lifecycle().explain_alter(explained, alter).map(Reply::Text);
        }
        if analyze || self.replaces(explained).is_none() {
            return self.plan(statement);
        }
        let replacement = self.lifecycle().describe_replacement(explained)?;
        self.refresh();
        let Planned::Text(plan) = self.planner.execute(statement)? else {
            return Err(Cause::bug("a definition is explained by a text").into());
        };
        Ok(Reply::Text(format!("{plan}\n{replacement}")))
    }

    /// Returns what was planned, with what is needed to start it.
    ///
    /// # Errors
    /// If it would open a source that the session may not open.
    pub(super) fn reply(&self, planned: Planned) -> Result<Reply, Error> {
        planned.with_query(|prepared| query(self, *prepared))
    }
}
