//! A query that runs by name, without anybody who waits for it.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tidemill_engine::{Cause, Fault, QueryPosition, Recovered};
use tidemill_sql::{Explained, Planner, QueryStatus, RunningQuery, ViewHandle};

use crate::catalog::record::StartedQuery;
use crate::query_watcher::{Looked, QueryWatcher};
use crate::runtime::dataflow::Dataflow;
use crate::runtime::plan_report::PlanReport;
use crate::runtime::query_state::QueryState;
use crate::runtime::report::{QueryReport, Watched, progress};

/// How long it takes at most until it is looked whether everything was done as it was asked for.
const LOOK_STRICT: Duration = Duration::from_millis(50);
/// How long it takes at most until the end of any other query is noticed.
const LOOK: Duration = Duration::from_secs(1);

enum QueryPhase {
    /// Boxed, because it is much larger than the others.
    Running(Box<RunningQuery>),
    /// With the last status before.
    Ending(Option<QueryStatus>),
    Ended(Result<QueryStatus, Cause>),
}

/// A query that runs by name.
pub(crate) struct NamedQuery {
    phase: Mutex<QueryPhase>,
    ended: Condvar,
    /// Notices its end.
    watcher: QueryWatcher,
    /// Whether it ends only because its database is closed, and is to run again with it.
    is_closed: AtomicBool,
    /// Whether it was stopped, and may continue.
    is_stopped: AtomicBool,
    /// As whom and what it was started.
    pub identity: Identity,
    pub views: Vec<ViewHandle>,
    pub recovered: Option<Recovered>,
    pub begins_after: Option<u64>,
    pub position: Option<QueryPosition>,
    pub max_latency: Option<Duration>,
    /// Its plan, as it was when it started; `None`: it could not be started.
    explained: Option<Explained>,
    pub dataflow: Arc<Dataflow>,
    watched: Mutex<Watched>,
}

/// As whom and what a query was started.
pub(crate) struct Identity {
    /// What the log says of it.
    pub kept: StartedQuery,
    /// The name that it has in the journal of the database.
    pub clock_name: String,
    /// What it computes, see [`Pipeline::computation`](tidemill_sql::Pipeline::computation); empty if it cannot be planned.
    pub computation: String,
}

/// What is done when a query has ended by itself or in order.
pub(crate) type AtEnd = Box<dyn FnOnce() + Send>;

impl NamedQuery {
    pub fn start(
        identity: Identity,
        (explained, running): (Explained, RunningQuery),
        at_end: AtEnd,
        watcher: &QueryWatcher,
    ) -> Result<Arc<NamedQuery>, Cause> {
        let observer = running.observer();
        let is_strict = identity.kept.is_strict;
        let query = Arc::new(NamedQuery {
            identity,
            dataflow: Arc::new(Dataflow::of(observer.plan())),
            watched: Mutex::new(Watched::Live(observer)),
            views: running.views().to_vec(),
            recovered: running.recovered().cloned(),
            begins_after: running.begins_after(),
            position: running.position().cloned(),
            max_latency: running.max_latency(),
            explained: Some(explained),
            phase: Mutex::new(QueryPhase::Running(Box::new(running))),
            ended: Condvar::new(),
            watcher: watcher.clone(),
            is_closed: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
        });
        let (watched, mut at_end) = (Arc::clone(&query), Some(at_end));
        let longest = if is_strict { LOOK_STRICT } else { LOOK };
        watcher.watch(longest, move || watched.look(is_strict, &mut at_end))?;
        Ok(query)
    }

    /// A query that could not be started.
    pub fn failed(identity: Identity, cause: Cause) -> Arc<NamedQuery> {
        NamedQuery::without_run(identity, Vec::new(), cause, false)
    }

    /// A query that was stopped before the database was opened.
    pub fn stopped(identity: Identity, views: Vec<ViewHandle>) -> Arc<NamedQuery> {
        let cause =
            Cause::operation(format!("query '{}' is stopped; START continues it", identity.kept.name));
        NamedQuery::without_run(identity, views, cause, true)
    }

    fn without_run(
        identity: Identity,
        views: Vec<ViewHandle>,
        cause: Cause,
        is_stopped: bool,
    ) -> Arc<NamedQuery> {
        Arc::new(NamedQuery {
            identity,
            views,
            recovered: None,
            begins_after: None,
            position: None,
            max_latency: None,
            explained: None,
            dataflow: Arc::default(),
            watched: Mutex::new(Watched::Last(None)),
            phase: Mutex::new(QueryPhase::Ended(Err(cause))),
            ended: Condvar::new(),
            watcher: QueryWatcher::default(),
            is_closed: AtomicBool::new(false),
            is_stopped: AtomicBool::new(is_stopped),
        })
    }

    /// The names of its outputs.
    pub fn outputs(&self) -> &[String] {
        &self.identity.kept.outputs
    }

    /// The name that it has in the journal of the database.
    pub fn clock_name(&self) -> &str {
        &self.identity.clock_name
    }

    fn lock(&self) -> MutexGuard<'_, QueryPhase> {
        self.phase.lock()
    }

    /// Looks whether the query has ended.
    fn look(self: &Arc<Self>, is_strict: bool, at_end: &mut Option<AtEnd>) -> Looked {
        let mut phase = self.lock();
        let QueryPhase::Running(running) = &*phase else { return Looked::Over(None) };
        if !running.has_ended() {
            if is_strict && running.status().is_some_and(|status| !status.is_exact()) {
                running.stop();
            }
            return Looked::GoesOn;
        }
        let last = running.status();
        let QueryPhase::Running(running) = mem::replace(&mut *phase, QueryPhase::Ending(last)) else {
            return Looked::Over(None);
        };
        drop(phase);
        let (query, at_end) = (Arc::clone(self), at_end.take());
        Looked::Over(Some(Box::new(move || query.complete(*running, at_end))))
    }

    /// Waits for what is left of a query that has ended, and keeps its outcome.
    fn complete(&self, running: RunningQuery, at_end: Option<AtEnd>) {
        let outcome = running.wait().map(|(status, _)| status);
        Watched::end(&self.watched);
        // Before others learn that it has ended, so that they can rely on it.
        let is_over = outcome.is_ok() && !self.is_closed.load(Ordering::SeqCst);
        if is_over && matches!(&*self.lock(), QueryPhase::Ending(_)) {
            at_end.into_iter().for_each(|at_end| at_end());
        }
        let mut phase = self.lock();
        // It may have been abandoned meanwhile.
        if let QueryPhase::Ending(_) = &*phase {
            *phase = QueryPhase::Ended(outcome);
        }
        drop(phase);
        self.ended.notify_all();
    }

    /// Tells its sources to stop.
    pub fn stop(&self) {
        if let QueryPhase::Running(running) = &*self.lock() {
            running.stop();
        }
        self.watcher.look_soon();
    }

    /// As [`stop`](NamedQuery::stop), because its database is closed: what is done at its end is left undone, unless it had
    /// taken in everything before.
    pub fn close(&self) {
        if let QueryPhase::Running(running) = &*self.lock()
            && !running.has_ended()
        {
            self.is_closed.store(true, Ordering::SeqCst);
            running.stop();
        }
        self.watcher.look_soon();
    }

    /// As [`close`](NamedQuery::close), because it was stopped: it may continue.
    pub fn stop_for_now(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.close();
    }

    /// Whether it was stopped, and may continue.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    /// Other things run beside it from now on.
    pub fn keep_deadline_beside(&self, planner: &Planner) {
        if let QueryPhase::Running(running) = &*self.lock() {
            planner.keep_deadline(running);
        }
    }

    /// Ends it at once. Its remaining results are lost.
    pub fn abandon(&self) {
        let mut phase = self.lock();
        if let QueryPhase::Ended(_) = &*phase {
            return;
        }
        let cause =
            Cause::operation("the query was stopped at once; the answers that it had not yet given are lost");
        let before = mem::replace(&mut *phase, QueryPhase::Ended(Err(cause)));
        drop(phase);
        self.watcher.look_soon();
        // Its threads are joined without the lock.
        drop(before);
        Watched::end(&self.watched);
        self.ended.notify_all();
    }

    /// Whether it has ended because it needs more of something than it may have.
    pub fn has_reached_limit(&self) -> bool {
        matches!(&*self.lock(), QueryPhase::Ended(Err(cause)) if cause.fault == Fault::Resource)
    }

    pub fn state(&self) -> QueryState {
        match &*self.lock() {
            // Its thread may not have noticed yet.
            QueryPhase::Running(running) if running.has_ended() => QueryState::Ending,
            QueryPhase::Running(_) => QueryState::Running,
            QueryPhase::Ending(_) => QueryState::Ending,
            QueryPhase::Ended(_) if self.is_stopped() => QueryState::Stopped,
            QueryPhase::Ended(Ok(_)) => QueryState::Ended,
            QueryPhase::Ended(Err(_)) => QueryState::Failed,
        }
    }

    /// Its progress, or its last one; `None` if it has failed.
    pub fn status(&self) -> Option<QueryStatus> {
        match &*self.lock() {
            QueryPhase::Running(running) => running.status(),
            QueryPhase::Ending(last) => last.clone(),
            QueryPhase::Ended(outcome) => outcome.as_ref().ok().cloned(),
        }
    }

    /// Its plan, and what it has done; `None`: it could not be started.
    pub fn explain(&self) -> Option<String> {
        let done = self.last_status().map_or(String::new(), |status| status.describe());
        Some(format!("{}{done}", self.explained.as_ref()?.text()))
    }

    /// Its plan with what was measured; `None`: it could not be started.
    pub fn plan(&self) -> Option<PlanReport> {
        Some(PlanReport::new(self.explained.as_ref()?, self.last_status().as_ref()))
    }

    /// Its progress, or its last one, also if it has failed.
    fn last_status(&self) -> Option<QueryStatus> {
        self.watched.lock().status()
    }

    /// The last cycle of the clock that it has to do nothing for any more; `None`: that is not known.
    pub fn stopped_at(&self) -> Option<u64> {
        self.report("").cycle
    }

    /// What is reported about it.
    pub fn report(&self, name: &str) -> QueryReport {
        let problem = match &*self.lock() {
            QueryPhase::Ended(Err(cause)) if !self.is_stopped() => Some(cause.to_string()),
            _ => None,
        };
        let status = self.last_status();
        let (cycle, lag) = progress(status.as_ref(), self.position.as_ref());
        QueryReport {
            name: name.to_owned(),
            state: Some(self.state()),
            outputs: self.outputs().to_vec(),
            status,
            cycle,
            lag,
            max_latency: self.max_latency,
            problem,
            kept: None,
            dataflow: Arc::clone(&self.dataflow),
        }
    }

    /// Waits for its end, up to a time; `None` if it has not ended by then.
    pub fn wait_for(&self, time: Duration) -> Option<Result<QueryStatus, Cause>> {
        let is_going_on = |phase: &mut QueryPhase| !matches!(phase, QueryPhase::Ended(_));
        let mut phase = self.lock();
        self.ended.wait_while_for(&mut phase, is_going_on, time);
        match &*phase {
            QueryPhase::Ended(outcome) => Some(outcome.clone()),
            _ => None,
        }
    }
}
