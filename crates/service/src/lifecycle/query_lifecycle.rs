//! Queries that run by name: what a statement of a session does to them.
//!
//! `STOP` and `START` are here: a query that runs by name ends, stays in the catalogue's log, and continues when it is told to
//! (decision 0098).

use std::path::Path;
use std::time::Duration;

use tidemill_engine::Cause;
use tidemill_sql::{Catalog, Pipeline, Planner, Settings, Statement};

use crate::catalog::record::StartedQuery;
use crate::lifecycle::gateway_lifecycle::GatewayLifecycle;
use crate::runtime::query::NamedQuery;
use crate::{Cancellation, Error, QueryState, Runtime};

/// That a query has ended, or that nobody wants to wait for it any more, is noticed at most this late.
const LOOK: Duration = Duration::from_millis(20);

/// Starts, stops, replaces and alters queries that run by name, for one statement.
pub(crate) struct QueryLifecycle<'a> {
    pub runtime: &'a Runtime,
    /// Has the settings of the session.
    pub planner: &'a mut Planner,
    pub cancellation: &'a Cancellation,
    pub is_strict: bool,
}

impl QueryLifecycle<'_> {
    /// The same for views with parts at gateways.
    pub fn at_gateways(&self) -> GatewayLifecycle<'_> {
        let (runtime, cancellation) = (self.runtime, self.cancellation);
        GatewayLifecycle {
            runtime,
            settings: self.planner.settings(),
            cancellation,
            is_strict: self.is_strict,
        }
    }

    /// Returns whether the statement is cancelled from here on, or the database closed.
    pub(super) fn is_cancelled_from_here(&self) -> impl Fn() -> bool + use<> {
        self.runtime.is_cancelled_from_here(self.cancellation)
    }

    /// Carries out `STOP`; the text says what was done. A query that is stopped already stays so.
    pub fn stop_named(&self, statement: &Statement) -> Result<String, Error> {
        let name = self.query_named(statement)?;
        let is_at_gateways = self.runtime.is_at_gateways(name);
        Ok(if is_at_gateways { self.at_gateways().stop(name)? } else { self.stop(name)? })
    }

    /// Carries out `START`; the text says what was done. A query that runs already continues.
    pub fn start_named(&mut self, statement: &Statement) -> Result<String, Error> {
        let name = self.query_named(statement)?;
        let is_at_gateways = self.runtime.is_at_gateways(name);
        if is_at_gateways { Ok(self.at_gateways().start_again(name)?) } else { self.start(name) }
    }

    /// The query of the name that a statement has.
    pub(super) fn query_named<'a>(&self, statement: &'a Statement) -> Result<&'a str, Error> {
        let runtime = self.runtime;
        if runtime.is_idle() {
            let message = "only the definitions of the database are open here; say it to its server";
            return Err(Cause::user(message).into());
        }
        let named =
            Planner::at(runtime.defined_catalog(), self.planner.settings().clone()).query_named(statement)?;
        named.ok_or_else(|| Cause::bug("the statement names no query").into())
    }

    pub fn stop(&self, name: &str) -> Result<String, Cause> {
        let (runtime, is_cancelled) = (self.runtime, self.is_cancelled_from_here());
        let change = runtime.changes().begin(name, "stopped")?;
        let query = runtime.query(name).map_err(|_| does_not_run(name))?;
        match query.state() {
            QueryState::Stopped => return Ok(format!("'{name}' is stopped already")),
            QueryState::Ended => {
                let message = "has ended, because its sources have, so there is nothing to stop";
                return Err(Cause::user(format!("'{name}' {message}")));
            }
            QueryState::Running | QueryState::Ending | QueryState::Failed => {}
        }
        // From here on it stays stopped, whenever the process ends.
        runtime.catalog_store().stopped(name)?;
        query.stop_for_now();
        if !has_ended(&query, &is_cancelled) {
            runtime.stop_later(query, change)?;
            return Ok(format!(
                "'{name}' is being stopped: it ends once it has answered what it has taken in"
            ));
        }
        runtime.keep_stopped(&query);
        let has_state = runtime.has_state(&query);
        Ok(match query.report(name).cycle {
            Some(cycle) if has_state => format!(
                "'{name}' is stopped, behind cycle {cycle}. START continues there: until then, the journal keeps its \
                 rows, up to half of journal_max of each source"
            ),
            _ if has_state => format!(
                "'{name}' is stopped. START continues where it is: until then, the journal keeps its rows, up to half \
                 of journal_max of each source"
            ),
            _ => format!(
                "'{name}' is stopped. Its sources keep no rows: START begins with the rows that come then, and with an \
                 empty state"
            ),
        })
    }

    pub fn start(&mut self, name: &str) -> Result<String, Error> {
        let runtime = self.runtime;
        let _change = runtime.changes().begin(name, "started")?;
        let Ok(old) = runtime.query(name) else {
            // When it was created, it could not be started.
            let pipeline = self.pipeline_by_itself(name)?;
            runtime.start(name, pipeline, self.is_strict)?;
            return Ok(format!("'{name}' had not been started, and begins now"));
        };
        match old.state() {
            QueryState::Running | QueryState::Ending => return Ok(format!("'{name}' is running already")),
            QueryState::Ended => {
                let message = "has ended, because its sources have; CREATE OR REPLACE begins it again";
                return Err(Cause::user(format!("'{name}' {message}")).into());
            }
            QueryState::Stopped | QueryState::Failed => {}
        }
        let (stopped_at, has_state) = (old.stopped_at(), runtime.has_state(&old));
        let kept = self.with_limits(&old)?;
        let pipeline = runtime.pipeline_of(&kept)?;
        let starts_over = pipeline.starts_over();
        runtime.continue_stopped(&old, kept, pipeline)?;
        let begins_after = runtime.begins_after(name)?;
        Ok(match (has_state, begins_after, stopped_at) {
            (true, Some(cycle), _) => format!("'{name}' continues behind cycle {cycle}"),
            (true, None, _) => format!("'{name}' continues where it was"),
            (false, ..) if starts_over => {
                format!(
                    "'{name}' begins again, at the beginning of its files: their rows are given once more"
                )
            }
            (false, Some(cycle), Some(stopped_at)) => format!(
                "'{name}' begins behind cycle {cycle} with an empty state. Its sources keep no rows: those that came \
                 behind cycle {stopped_at}, when it was stopped, are missed"
            ),
            (false, ..) => format!(
                "'{name}' begins with an empty state. Its sources keep no rows: those that came while it was stopped \
                 are missed"
            ),
        })
    }

    /// What a query is started with again. One that has reached a limit gets those of this session where they are larger: they change
    /// none of its rows, and without them it would reach the same limit again.
    fn with_limits(&self, old: &NamedQuery) -> Result<StartedQuery, Cause> {
        let kept = old.identity.kept.clone();
        if !old.has_reached_limit() {
            return Ok(kept);
        }
        let (defaults, own) = (self.runtime.defaults(), self.planner.settings());
        let before = Settings::decode(&kept.settings, defaults)?;
        let settings = Settings {
            max_groups: before.max_groups.max(own.max_groups),
            max_state_rows: before.max_state_rows.max(own.max_state_rows),
            ..before
        };
        Ok(StartedQuery { settings: settings.encode_beside(defaults), ..kept })
    }

    /// Plans what one sink or view needs, with a journal in a folder of its own in the journal of the database.
    ///
    /// # Errors
    /// If there is no such sink or view, or it cannot run.
    pub fn pipeline_by_itself(&mut self, name: &str) -> Result<Pipeline, Error> {
        self.planner.set_catalog(self.runtime.defined_catalog());
        self.pipeline_in(name, self.runtime.query_folder(name).as_deref())
    }

    /// Plans what a statement defines in a version of the catalogue, with the settings of the session and a journal in a folder. Returns the
    /// next version, too.
    pub(super) fn plan_replaced(
        &mut self,
        statement: &Statement,
        name: &str,
        folder: Option<&Path>,
        catalog: Catalog,
    ) -> Result<(Pipeline, Catalog), Error> {
        self.planner.set_catalog(catalog);
        self.planner.execute(statement)?;
        let pipeline = self.pipeline_in(name, folder)?;
        Ok((pipeline, self.planner.catalog().clone()))
    }

    /// Plans one sink or view of the planner's catalogue, with a journal in a folder, or without one as the settings say.
    fn pipeline_in(&mut self, name: &str, folder: Option<&Path>) -> Result<Pipeline, Error> {
        let before = self.planner.settings().journal.clone();
        self.planner.settings_mut().journal = folder.map(Path::to_owned).or_else(|| before.clone());
        let pipeline = self.planner.pipeline_of(&[name]);
        self.planner.settings_mut().journal = before;
        Ok(pipeline?)
    }
}

fn does_not_run(name: &str) -> Cause {
    Cause::user(format!(
        "'{name}' is defined, but no query was started for it alone, so there is nothing to stop"
    ))
}

/// Waits until a query has ended in order; false if the statement was cancelled meanwhile.
fn has_ended(query: &NamedQuery, is_cancelled: &dyn Fn() -> bool) -> bool {
    loop {
        if query.wait_for(LOOK).is_some() {
            return true;
        }
        if is_cancelled() {
            return false;
        }
    }
}
