//! Queries that are stopped: what is kept for them, and how they continue.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidemill_engine::{Cause, RetainedRows, inspect};
use tidemill_sql::{Pipeline, Planner, ViewHandle};
use tracing::warn;

use crate::Runtime;
use crate::catalog::change::Change;
use crate::catalog::record::StartedQuery;
use crate::lifecycle::starting::NewQuery;
use crate::runtime::query::{Identity, NamedQuery};
use crate::runtime::report::QueryReport;

/// That a query has ended for whose end nobody waits any more is noticed at most this late.
const LOOK_LATER: Duration = Duration::from_millis(200);

impl Runtime {
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
    pub(super) fn continue_stopped(
        &self,
        old: &Arc<NamedQuery>,
        kept: StartedQuery,
        pipeline: Pipeline,
    ) -> Result<(), Cause> {
        let clock_name = old.clock_name().to_owned();
        self.check_state(&kept, &pipeline)?;
        let query = NewQuery { kept, clock_name, pipeline, is_new: false };
        let started = self.start_with(query, |kept, views| {
            let start = self.catalog_store().started(kept)?;
            self.catalog_store().attach(views);
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
    pub(super) fn stop_later(&self, query: Arc<NamedQuery>, change: Change) -> Result<(), Cause> {
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
        if let Err(cause) = self.catalog_store().still_stopped(&query.identity.kept.name) {
            warn!(query = query.identity.kept.name, reason = %cause, "the log cannot keep that a query is stopped");
        }
        self.keep_stopped(query);
    }

    /// The journal keeps what a query needs that is stopped, and its views are read as they are.
    pub(super) fn keep_stopped(&self, query: &NamedQuery) {
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
        self.catalog_store().attach(&stopped);
    }

    /// Restores a query that the log says to be stopped.
    pub(crate) fn bring_back_stopped(&self, kept: StartedQuery) {
        let name = kept.name.clone();
        self.catalog_store().note_stopped(name.clone());
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

fn described(kept: &RetainedRows) -> String {
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
