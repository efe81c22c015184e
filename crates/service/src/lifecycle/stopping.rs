//! `STOP` and `START`: a query that runs by name ends, stays in the catalogue's log, and continues when it is told to
//! (decision 0098).

use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidemill_engine::{Cause, KeptRows, inspect};
use tidemill_sql::{Pipeline, Planner, Settings, Statement, StatementKind, ViewHandle};
use tracing::warn;

use crate::catalog::change::Change;
use crate::catalog::record::StartedQuery;
use crate::lifecycle::starting::NewQuery;
use crate::runtime::query::{Identity, NamedQuery};
use crate::runtime::report::QueryReport;
use crate::{Error, QueryState, Runtime, Session};

/// That a query has ended, or that nobody wants to wait for it any more, is noticed at most this late.
const LOOK: Duration = Duration::from_millis(20);
/// That a query has ended for whose end nobody waits any more is noticed at most this late.
const LOOK_LATER: Duration = Duration::from_millis(200);

impl Session {
    /// Carries out `STOP` or `START`; the text says what was done. A query that is already as the statement wants it stays so.
    pub(crate) fn stop_or_start(&mut self, statement: &Statement) -> Result<String, Error> {
        let name = self.query_named(statement)?;
        let is_at_gateways = self.runtime().is_at_gateways(name);
        match statement.kind {
            StatementKind::Stop(_) if is_at_gateways => Ok(self.stop_at_gateways(name)?),
            _ if is_at_gateways => Ok(self.start_again_at_gateways(name)?),
            StatementKind::Stop(_) => Ok(self.stop(name)?),
            _ => self.start(name),
        }
    }

    /// The query of the name that a statement has.
    pub(crate) fn query_named<'a>(&mut self, statement: &'a Statement) -> Result<&'a str, Error> {
        let runtime = self.runtime().clone();
        if runtime.is_idle() {
            let message = "only the definitions of the database are open here; say it to its server";
            return Err(Cause::user(message).into());
        }
        let named = Planner::at(runtime.defined_catalog(), self.settings().clone()).query_named(statement)?;
        named.ok_or_else(|| Cause::bug("the statement names no query").into())
    }

    pub(crate) fn stop(&self, name: &str) -> Result<String, Cause> {
        let (runtime, is_cancelled) = (self.runtime(), self.is_cancelled_from_here());
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
        runtime.kept_catalog().stopped(name)?;
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

    pub(crate) fn start(&mut self, name: &str) -> Result<String, Error> {
        let runtime = self.runtime().clone();
        let _change = runtime.changes().begin(name, "started")?;
        let Ok(old) = runtime.query(name) else {
            // When it was created, it could not be started.
            let pipeline = self.pipeline_by_itself(name)?;
            runtime.start(name, pipeline, self.is_strict())?;
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
        let (defaults, own) = (self.runtime().defaults(), self.settings());
        let before = Settings::decode(&kept.settings, defaults)?;
        let settings = Settings {
            max_groups: before.max_groups.max(own.max_groups),
            max_state_rows: before.max_state_rows.max(own.max_state_rows),
            ..before
        };
        Ok(StartedQuery { settings: settings.encode_beside(defaults), ..kept })
    }

    /// What is to be said about the rows of a query's answer: which of the materialized views that it reads are stopped, or have
    /// failed.
    ///
    /// # Errors
    /// If the rows of one of them are not there.
    pub fn stopped_views(&self, statement: &Statement) -> Result<Vec<String>, Error> {
        let stopped = self.runtime().stopped_names();
        let failed = self.runtime().failed_outputs();
        let at_gateways = self.runtime().stopped_at_gateways();
        if stopped.is_empty() && failed.is_empty() && at_gateways.is_empty() {
            return Ok(Vec::new());
        }
        let names = self.runtime().defined_catalog().read_by(statement);
        let at_gateways = at_gateways.iter().filter(|stopped| names.contains(stopped.as_str()));
        let at_gateways = at_gateways.map(|name| {
            Ok(format!("'{name}' is stopped at its gateways; its rows are those that they had then"))
        });
        let named = stopped.iter().filter(|stopped| names.contains(stopped.as_str()));
        let said = named.map(|name| match self.runtime().running_view(name) {
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
        let failed = failed.map(|(name, why)| self.runtime().said_of_failed(name, why));
        Ok(said.chain(failed).chain(at_gateways).collect::<Result<_, Cause>>()?)
    }
}

impl Runtime {
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

    /// The pipeline of a query that was started before, as its definitions are now.
    pub(crate) fn pipeline_of(&self, kept: &StartedQuery) -> Result<Pipeline, Cause> {
        let settings = self.settings_of(kept)?;
        let names: Vec<&str> = kept.outputs.iter().map(String::as_str).collect();
        Planner::at(self.defined_catalog(), settings).pipeline_again(&names)
    }

    /// Whether a query that has ended continues where it was.
    pub(crate) fn has_state(&self, query: &NamedQuery) -> bool {
        let folder = self.settings_of(&query.identity.kept).ok().and_then(|settings| settings.journal);
        folder.is_some_and(|folder| {
            folder.is_dir() && inspect::query(&folder).is_ok_and(|query| query.is_some())
        })
    }

    /// Lets a query that has ended continue. If that fails, it stays as it was.
    fn continue_stopped(
        &self,
        old: &Arc<NamedQuery>,
        kept: StartedQuery,
        pipeline: Pipeline,
    ) -> Result<(), Cause> {
        let clock_name = old.clock_name().to_owned();
        self.check_state(&kept, &pipeline)?;
        let query = NewQuery { kept, clock_name, pipeline, is_new: false };
        let started = self.start_with(query, |kept, views| {
            let start = self.kept_catalog().started(kept)?;
            self.kept_catalog().attach(views);
            Ok(start)
        });
        started.inspect_err(|_| {
            // It may have proven that others lack rows, too.
            self.refuse_without_end();
            if old.is_stopped() {
                self.keep_stopped_as_it_was(old);
            }
        })
    }

    /// Does what is left of a stop once the query has ended. Until then, nobody else changes it.
    fn stop_later(&self, query: Arc<NamedQuery>, change: Change) -> Result<(), Cause> {
        let runtime = self.downgrade();
        let wait = move || {
            let _change = change;
            while query.wait_for(LOOK_LATER).is_none() {
                if runtime().is_none() {
                    return;
                }
            }
            if let Some(runtime) = runtime() {
                runtime.keep_stopped(&query);
            }
        };
        let thread = thread::Builder::new().name("stop of a query".into()).spawn(wait);
        thread.map(drop).map_err(|error| Cause::resource(format!("cannot start a thread: {error}")))
    }

    /// A query that was stopped has not been started: the journal keeps what it needs, and the log says that it is stopped.
    pub(crate) fn keep_stopped_as_it_was(&self, query: &Arc<NamedQuery>) {
        if let Err(cause) = self.kept_catalog().still_stopped(&query.identity.kept.name) {
            warn!(query = query.identity.kept.name, reason = %cause, "the log cannot keep that a query is stopped");
        }
        self.keep_stopped(query);
    }

    /// The journal keeps what a query needs that is stopped, and its views are read as they are.
    fn keep_stopped(&self, query: &NamedQuery) {
        let folder = self.settings_of(&query.identity.kept).map(|settings| settings.journal);
        let kept = folder.and_then(|folder| {
            folder.map_or(Ok(()), |folder| self.clock().keep_for(query.clock_name(), &folder))
        });
        if let Err(cause) = kept {
            let name = &query.identity.kept.name;
            warn!(query = name, reason = %cause, "the journal keeps nothing for a query that is stopped");
        }
        self.attach_stopped(&query.views);
    }

    /// Queries read the rows of these views, whose cycles no other view waits for.
    fn attach_stopped(&self, views: &[ViewHandle]) {
        let current =
            views.iter().filter_map(|view| self.running_view(view.name()).or_else(|| Some(view.clone())));
        let stopped: Vec<ViewHandle> = current.map(|view| view.stopped()).collect();
        self.kept_catalog().attach(&stopped);
    }

    /// Restores a query that the log says to be stopped.
    pub(crate) fn bring_back_stopped(&self, kept: StartedQuery) {
        let name = kept.name.clone();
        self.kept_catalog().note_stopped(name.clone());
        let planned = self.pipeline_of(&kept);
        let computation =
            planned.as_ref().map_or(String::new(), |pipeline| pipeline.computation().to_owned());
        let views = planned.and_then(Pipeline::stopped_views).unwrap_or_else(|cause| {
            warn!(query = name, reason = %cause, "the rows of a view that is stopped cannot be read");
            Vec::new()
        });
        let query = NamedQuery::stopped(Identity { clock_name: name.clone(), kept, computation }, views);
        self.keep_stopped(&query);
        self.enter(name, query);
    }

    /// What is reported about a query that is stopped.
    pub(crate) fn report_stopped(&self, query: &NamedQuery, report: QueryReport) -> QueryReport {
        let kept = match self.clock().kept_for(query.clock_name()) {
            Ok(kept) => kept,
            Err(cause) => return QueryReport { kept: Some(cause.to_string()), ..report },
        };
        let Some(kept) = kept else { return report };
        let cycle = report.cycle.max(kept.after);
        let mut report = QueryReport { cycle, kept: Some(described(&kept)), ..report };
        let newest = self.clock().cycle();
        let next = cycle.map_or(0, |cycle| cycle + 1);
        report.lag.cycles = newest.map_or(0, |newest| (newest + 1).saturating_sub(next));
        if let Some(since_ns) = kept.waits_since_ns.filter(|_| report.lag.cycles > 0) {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            report.lag.oldest_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX).saturating_sub(since_ns);
        }
        report
    }
}

fn described(kept: &KeptRows) -> String {
    let from = kept.after.map_or("from the first one on".to_owned(), |cycle| format!("behind cycle {cycle}"));
    if kept.is_let_go {
        format!(
            "the rows {from} were too many for the journal, which may have removed them; START says whether they are \
             there"
        )
    } else {
        format!("the journal keeps {} rows {from} for it", kept.rows)
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
