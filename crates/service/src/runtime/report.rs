//! What a runtime reports about its queries.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidemill_engine::{Counter, QueryLag, QueryPosition};
use tidemill_sql::{Explained, QueryObserver, QueryStatus};

use crate::runtime::dataflow::Dataflow;
use crate::runtime::execution::Execution;
use crate::runtime::plan_report::PlanReport;
use crate::runtime::query_state::QueryState;

/// What a runtime reports about a query.
#[derive(Clone, Debug)]
pub struct QueryReport {
    /// Its name.
    pub name: String,
    /// How far it is; `None` while it is being opened.
    pub state: Option<QueryState>,
    /// The sinks and materialized views that it writes to.
    pub outputs: Vec<String>,
    /// Its progress, or its last one; `None` if it has never run.
    pub status: Option<QueryStatus>,
    /// The last cycle whose results it has: under the clock of the runtime, all that it has to do up to there is done. `None`:
    /// there was none.
    pub cycle: Option<u64>,
    /// What it has not committed.
    pub lag: QueryLag,
    /// The bound on the time from arrival to result.
    pub max_latency: Option<Duration>,
    /// Why it has failed.
    pub problem: Option<String>,
    /// If it is stopped: what the journal of the database keeps for it.
    pub kept: Option<String>,
    /// What it consists of.
    pub dataflow: Arc<Dataflow>,
}

impl QueryReport {
    /// Why it has failed, what holds it up, what is kept for it, or what it had to leave out; empty: there is nothing to say.
    pub fn reason(&self) -> String {
        let outages = self.status.as_ref().map(|status| status.outages.join("; ")).unwrap_or_default();
        let outages = Some(outages).filter(|outages| !outages.is_empty());
        let left_out = || Some(self.status.as_ref()?.left_out()?.sentence());
        self.problem.clone().or(outages).or_else(|| self.kept.clone()).or_else(left_out).unwrap_or_default()
    }

    /// Of a definition whose query was not started.
    pub(crate) fn not_started(output: String, why: String) -> QueryReport {
        let starting = QueryReport::starting(&output, std::slice::from_ref(&output));
        QueryReport { state: Some(QueryState::Failed), problem: Some(why), ..starting }
    }

    /// Of a query that is being opened.
    pub(crate) fn starting(name: &str, outputs: &[String]) -> QueryReport {
        QueryReport {
            name: name.to_owned(),
            state: None,
            outputs: outputs.to_vec(),
            status: None,
            cycle: None,
            lag: QueryLag::default(),
            max_latency: None,
            problem: None,
            kept: None,
            dataflow: Arc::default(),
        }
    }
}

/// What a query has not committed of the cycles that it has begun.
fn own_lag(status: &QueryStatus) -> QueryLag {
    let engine = &status.engine;
    // Read one after the other, while the query runs.
    let cycles = engine.get(Counter::CyclesCut).saturating_sub(engine.get(Counter::CyclesCommitted));
    QueryLag { cycles, oldest_ns: engine.oldest_ns }
}

/// The last cycle whose results a query has, and what it has not committed.
pub(crate) fn progress(
    status: Option<&QueryStatus>,
    position: Option<&QueryPosition>,
) -> (Option<u64>, QueryLag) {
    let Some(status) = status else { return (None, QueryLag::default()) };
    let committed = status.engine.committed_end.checked_sub(1);
    let own = own_lag(status);
    let Some(position) = position else { return (committed, own) };
    let lag = position.lag(committed);
    let cycle = match position.reached(committed) {
        // It has ended, and has all cycles that concern it.
        u64::MAX => committed,
        reached => reached.checked_sub(1),
    };
    (cycle, QueryLag { oldest_ns: lag.oldest_ns.max(own.oldest_ns), ..lag })
}

/// The progress of a query that may have ended.
pub(crate) enum Watched {
    Live(QueryObserver),
    /// What is left of an observer when the query has ended. The observer itself would keep the plan in memory.
    Last(Option<Box<QueryStatus>>),
}

impl Watched {
    pub fn status(&self) -> Option<QueryStatus> {
        match self {
            Watched::Live(observer) => Some(observer.status()),
            Watched::Last(status) => status.as_deref().cloned(),
        }
    }

    /// The query has ended.
    pub fn end(watched: &Mutex<Watched>) {
        let mut watched = watched.lock();
        if let Watched::Live(observer) = &*watched {
            *watched = Watched::Last(Some(Box::new(observer.status())));
        }
    }
}

/// A query that somebody waits for, and that a runtime reports nevertheless, until this is dropped.
///
/// See [`Runtime::observe`](crate::Runtime::observe).
pub struct Observed {
    name: String,
    outputs: Vec<String>,
    max_latency: Option<Duration>,
    dataflow: Arc<Dataflow>,
    explained: Explained,
    observer: QueryObserver,
}

impl Observed {
    pub(crate) fn new(name: &str, explained: Explained, execution: &Execution) -> Observed {
        let observer = execution.running().observer();
        Observed {
            name: name.to_owned(),
            outputs: observer.plan().sinks.iter().map(|sink| sink.name.clone()).collect(),
            max_latency: execution.running().max_latency(),
            dataflow: Arc::new(Dataflow::of(observer.plan())),
            explained,
            observer,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn plan(&self) -> PlanReport {
        PlanReport::new(&self.explained, Some(&self.observer.status()))
    }

    pub(crate) fn report(&self) -> QueryReport {
        let status = self.observer.status();
        let state = if status.sources.iter().all(|(_, feed)| feed.ended) {
            QueryState::Ending
        } else {
            QueryState::Running
        };
        QueryReport {
            name: self.name.clone(),
            state: Some(state),
            outputs: self.outputs.clone(),
            cycle: status.engine.committed_end.checked_sub(1),
            lag: own_lag(&status),
            status: Some(status),
            max_latency: self.max_latency,
            problem: None,
            kept: None,
            dataflow: Arc::clone(&self.dataflow),
        }
    }
}
