//! A running query: its engine, and the feeds of its sources.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::DataFusionError;
use tidemill_connect::standard_streams::is_output_closed;
use tidemill_engine::{
    Cause, Failure, Fault, Feed, FlowError, Maintenance, MemoryBudget, QueryPosition, Recovered, Running,
    SplitStatus, StateLimit, Status, Takeover,
};

use crate::expressions::compiled::plain;
use crate::logical::header;
use crate::query::deadline_monitor::DeadlineMonitor;
use crate::query::divided_query::DividedQuery;
use crate::query::real_time::RealTime;
use crate::query::status::{QueryObserver, QueryStatus};
use crate::query::suspects::suspects;
use crate::query::view::{RowStorage, ViewHandle};
use crate::split_profiles::{RequestedSplits, SplitProfiles};

/// How often it is looked whether a query has ended, and after its deadline.
const LOOK: Duration = Duration::from_millis(2);

/// A running query. Dropping it stops it at once.
pub struct RunningQuery {
    pub(crate) running: Option<Running>,
    pub(crate) feeds: Vec<(String, Feed)>,
    pub(crate) observer: QueryObserver,
    /// Only for a durable query, with its journal's folder; it stops when dropped, after the query and its feeds.
    pub(crate) maintenance: Option<(Maintenance, PathBuf)>,
    pub(crate) recovered: Option<Recovered>,
    pub(crate) begins_after: Option<u64>,
    pub(crate) position: Option<QueryPosition>,
    pub(crate) collected: Option<CollectedParts>,
    pub(crate) views: Vec<ViewHandle>,
    pub(crate) enough: Arc<AtomicBool>,
    pub(crate) max_latency: Option<Duration>,
    pub(crate) memory: MemoryBudget,
    pub(crate) splits: RequestedSplits,
    /// The file in which the costs of splits are stored.
    pub(crate) split_profiles: Option<PathBuf>,
    /// What looks after its deadline.
    pub(crate) deadline: Arc<DeadlineMonitor>,
}

/// The rows from which an answer is computed at the end.
pub(crate) struct CollectedParts {
    pub finish: DividedQuery,
    /// Those of each part.
    pub rows: Vec<RowStorage>,
}

impl RunningQuery {
    /// What a durable query found from earlier runs.
    pub fn recovered(&self) -> Option<&Recovered> {
        self.recovered.as_ref()
    }

    /// Whether a durable query has taken over from the one that it replaces; `None`: it replaces none.
    pub fn takeover(&self) -> Option<Takeover> {
        self.maintenance.as_ref().and_then(|(maintenance, _)| maintenance.takeover())
    }

    /// The cycle of the database after which it begins; `None`: it has all of them, or a clock of its own.
    pub fn begins_after(&self) -> Option<u64> {
        self.begins_after
    }

    /// How far it is under the clock of a database; `None`: it has a clock of its own.
    pub fn position(&self) -> Option<&QueryPosition> {
        self.position.as_ref()
    }

    /// Its progress.
    pub fn status(&self) -> Option<QueryStatus> {
        self.running.as_ref().map(|_| self.observer.status())
    }

    /// A handle to read the progress from any thread.
    pub fn observer(&self) -> QueryObserver {
        self.observer.clone()
    }

    /// The materialized views that it keeps, see [`Pipeline`](crate::Pipeline).
    pub fn views(&self) -> &[ViewHandle] {
        &self.views
    }

    /// Closes a cycle now, with all rows that have been taken in, and waits until its workers have done it. For queries with
    /// [stand-ins](crate::StandIns), whose cycles close in no other way before their end.
    ///
    /// # Errors
    /// If the query has failed or ended.
    pub fn close_cycle(&self) -> Result<(), Cause> {
        let running = self.running.as_ref().ok_or_else(|| Cause::bug("the query was already awaited"))?;
        // A snapshot is of a whole cycle.
        running.snapshot().map(drop).map_err(Cause::from)
    }

    /// Tells the sources to stop; rows that they have returned are still processed.
    pub fn stop(&self) {
        self.feeds.iter().for_each(|(_, feed)| feed.stop());
    }

    /// The sinks that state something about time.
    pub(crate) fn timed_sinks(&self) -> Vec<String> {
        self.deadline.sinks()
    }

    /// Something else runs beside it: from the next cycle on, it keeps its deadline as this says.
    pub(crate) fn keep_deadline_as(&self, real_time: RealTime) {
        if let Some(running) = &self.running {
            self.deadline.replace(real_time, running);
        }
    }

    /// Whether it has ended and only needs to be waited for. Call it every few milliseconds: meanwhile it looks after the
    /// deadline.
    pub fn has_ended(&self) -> bool {
        if self.enough.load(Ordering::Acquire) {
            self.stop();
        }
        if let Some(running) = &self.running {
            self.deadline.look(running);
        }
        let failed = self.running.as_ref().is_none_or(Running::has_failed);
        failed || self.feeds.iter().all(|(_, feed)| feed.status().ended)
    }

    /// Whether its answer comes only when all input has ended.
    pub fn is_answered_at_end(&self) -> bool {
        self.collected.is_some()
    }

    /// Waits until [`wait`](RunningQuery::wait) has nothing to wait for, at most for some time; returns whether that
    /// is so. What is then left is to compute the answer, if it comes at the end.
    pub fn wait_for_end(&self, time_max: Duration) -> bool {
        self.running.as_ref().is_none_or(|running| running.wait_for_end(time_max))
    }

    /// The bound on the time from arrival to result.
    pub fn max_latency(&self) -> Option<Duration> {
        self.max_latency
    }

    /// Waits for the end; returns the last status, and the answer if it comes at the end.
    ///
    /// # Errors
    /// Why it stopped before its end.
    pub fn wait(mut self) -> Result<(QueryStatus, Option<RecordBatch>), Cause> {
        while !self.has_ended() && !self.wait_for_end(LOOK) {}
        let running =
            self.running.take().ok_or_else(|| Cause::bug("the end of the query was already awaited"))?;
        let engine = running.join().map_err(|error| self.cause_of_end(error))?;
        let status = self.observer.status_with(engine);
        self.keep_profiles(&status.engine);
        self.deadline.keep(&status.engine.costs);
        let Some(CollectedParts { finish, rows }) = &self.collected else { return Ok((status, None)) };
        let rows = rows.iter().map(RowStorage::read).collect::<Result<Vec<_>, Cause>>()?;
        let answer = finish
            .answer(&rows, &self.memory)
            .map_err(|error| Cause::new(fault_of(&error), plain(&error)).with_source(error))?;
        Ok((status, Some(answer)))
    }

    /// Why it ended, with the rows that it may be due to and what can be done about them.
    fn cause_of_end(&self, error: FlowError) -> Cause {
        let limit = match &error {
            FlowError::Failed(Failure::Operator(failed)) => StateLimit::of(&failed.cause),
            _ => None,
        };
        let limit = limit.filter(|_| self.maintenance.is_some());
        let suspects = match (&self.maintenance, &error) {
            (Some((maintenance, folder)), FlowError::Failed(failure)) => {
                suspects(&maintenance.suspects(failure), folder)
            }
            _ => None,
        };
        let more = limit.map(way_out).into_iter().chain(suspects);
        more.fold(cause_of(error), |cause, more| {
            cause.map_message(|text| format!("{}. {more}", text.trim_end_matches('.')))
        })
    }

    /// Stores the costs of splits for the next run. Failing to store them is not an error.
    fn keep_profiles(&self, status: &Status) {
        let Some(path) = &self.split_profiles else { return };
        let profile = |split: &SplitStatus| {
            let requested = self.splits.get(&(split.operator.clone(), split.input))?;
            Some((requested.key.clone(), split.profile?))
        };
        let profiles: Vec<_> = status.splits.iter().filter_map(profile).collect();
        if !profiles.is_empty() {
            let _ = SplitProfiles::add_to(path, profiles);
        }
    }
}

/// Whose fault it is that an answer cannot be computed.
fn fault_of(error: &DataFusionError) -> Fault {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => Fault::Resource,
        _ => Fault::User,
    }
}

/// The cause of an end. That a reader has closed the output stays recognisable: it is not a failure.
/// How a query continues that has reached a limit: what it has kept does not depend on it.
fn way_out(StateLimit { setting }: StateLimit) -> String {
    format!(
        "To continue where it was, SET {setting} to more: in the script, or in a session of the server before START"
    )
}

fn cause_of(error: FlowError) -> Cause {
    match error {
        FlowError::Failed(Failure::Sink(error)) if is_output_closed(&error.cause) => error.cause,
        error => Cause::from(error).map_message(header),
    }
}
