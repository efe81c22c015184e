//! A running query: its engine, and the feeds of its sources.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use tidemill_connect::standard_streams::is_output_closed;
use tidemill_engine::{
    Cause, Failure, FaultLog, Faults, Feed, FeedStatus, FlowError, Maintenance, Progress, Recovered, Running,
    SplitStatus, Status,
};

use crate::finish::Finish;
use crate::split_profiles::{AskedSplits, SplitProfiles};
use crate::suspects::suspects;
use crate::view::{Kept, ViewHandle};
use tidemill_operators::watermark::LateRows;

/// The progress of a running query.
#[derive(Clone, Debug)]
pub struct QueryStatus {
    /// The engine's counters and response times.
    pub engine: Status,
    /// For each source its name and progress.
    pub sources: Vec<(String, FeedStatus)>,
    /// Rows that came too late, at intake or at an operator.
    pub late: u64,
    /// Records that could not be read, and rows that could not be computed.
    pub faults: Faults,
    /// Results that could not be represented and are NULL.
    pub null_results: Faults,
    /// Rows that a sink's target refuses and that are kept elsewhere.
    pub refused: Faults,
    /// Rows that were left out because it was asked for.
    pub skipped: u64,
}

impl QueryStatus {
    /// Whether everything was done as it was asked for: no row was left out because it could not be used, no result is
    /// NULL because it did not fit, and no sink has refused a row. Rows that were late or skipped do not count.
    pub fn is_exact(&self) -> bool {
        [&self.faults, &self.null_results, &self.refused].into_iter().all(|faults| faults.count == 0)
    }

    /// Rows taken in.
    pub fn rows_in(&self) -> u64 {
        self.sources.iter().map(|(_, feed)| feed.rows).sum()
    }

    /// The common progress of all sources; `None` if one of them has no end.
    pub fn progress(&self) -> Option<Progress> {
        let mut all = Progress { done: 0, total: Some(0) };
        for (_, feed) in &self.sources {
            all.done += feed.progress.done;
            all.total = Some(all.total? + feed.progress.total?);
        }
        Some(all)
    }
}

/// A running query. Dropping it stops it at once.
pub struct RunningQuery {
    pub(crate) running: Option<Running>,
    pub(crate) feeds: Vec<(String, Feed)>,
    /// Only for a durable query, with its journal's folder; it stops when dropped, after the query and its feeds.
    pub(crate) maintenance: Option<(Maintenance, PathBuf)>,
    pub(crate) recovered: Option<Recovered>,
    pub(crate) reports: Reports,
    pub(crate) collected: Option<Collected>,
    pub(crate) views: Vec<ViewHandle>,
    pub(crate) enough: Arc<AtomicBool>,
    pub(crate) max_latency: Option<Duration>,
    pub(crate) splits: AskedSplits,
    /// The file in which the costs of splits are stored.
    pub(crate) split_profiles: Option<PathBuf>,
}

/// What could not be done as it was asked for.
pub(crate) struct Reports {
    /// Rows for which an expression could not be computed.
    pub faults: FaultLog,
    /// Results that could not be represented and are NULL.
    pub null_results: FaultLog,
    /// One for each sink.
    pub refused: Vec<FaultLog>,
    pub late: LateRows,
}

/// The rows from which an answer is computed at the end.
pub(crate) struct Collected {
    pub finish: Finish,
    /// Those of each part.
    pub rows: Vec<Kept>,
}

impl RunningQuery {
    /// What a durable query found from earlier runs.
    pub fn recovered(&self) -> Option<&Recovered> {
        self.recovered.as_ref()
    }

    /// Its progress.
    pub fn status(&self) -> Option<QueryStatus> {
        let engine = self.running.as_ref()?.status();
        Some(self.status_with(engine))
    }

    fn status_with(&self, engine: Status) -> QueryStatus {
        let sources: Vec<_> = self.feeds.iter().map(|(name, feed)| (name.clone(), feed.status())).collect();
        let mut faults = self.reports.faults.read();
        let (mut late, mut skipped) = (self.reports.late.count(), 0);
        for (_, feed) in &sources {
            faults.merge(feed.faults.clone());
            late += feed.late;
            skipped += feed.skipped;
        }
        let mut refused = Faults::default();
        self.reports.refused.iter().for_each(|log| refused.merge(log.read()));
        QueryStatus {
            engine,
            sources,
            late,
            faults,
            null_results: self.reports.null_results.read(),
            refused,
            skipped,
        }
    }

    /// The materialized views that it keeps, see [`Pipeline`](crate::Pipeline).
    pub fn views(&self) -> &[ViewHandle] {
        &self.views
    }

    /// Tells the sources to stop; rows that they have returned are still processed.
    pub fn stop(&self) {
        self.feeds.iter().for_each(|(_, feed)| feed.stop());
    }

    /// Whether it has ended and only needs to be waited for.
    pub fn has_ended(&self) -> bool {
        if self.enough.load(Ordering::Acquire) {
            self.stop();
        }
        let failed = self.running.as_ref().is_none_or(Running::has_failed);
        failed || self.feeds.iter().all(|(_, feed)| feed.status().ended)
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
        while !self.has_ended() {
            std::thread::sleep(Duration::from_millis(2));
        }
        let running = self.running.take().ok_or_else(|| Cause::bug("the query was waited for before"))?;
        let engine = running.join().map_err(|error| self.cause_of_end(error))?;
        let status = self.status_with(engine);
        self.keep_profiles(&status.engine);
        let Some(Collected { finish, rows }) = &self.collected else { return Ok((status, None)) };
        let rows = rows.iter().map(Kept::read).collect::<Result<Vec<_>, Cause>>()?;
        let answer = finish
            .answer(&rows)
            .map_err(|error| Cause::user(crate::expression::plain(&error)).with_source(error))?;
        Ok((status, Some(answer)))
    }

    /// Why it ended, with the rows that it may be due to and what can be done about them.
    fn cause_of_end(&self, error: FlowError) -> Cause {
        let suspects = match (&self.maintenance, &error) {
            (Some((maintenance, folder)), FlowError::Failed(failure)) => {
                suspects(&maintenance.suspects(failure), folder)
            }
            _ => None,
        };
        let cause = cause_of(error);
        match suspects {
            Some(suspects) => cause.map_message(|text| format!("{}. {suspects}", text.trim_end_matches('.'))),
            None => cause,
        }
    }

    /// Stores the costs of splits for the next run. Failing to store them is not an error.
    fn keep_profiles(&self, status: &Status) {
        let Some(path) = &self.split_profiles else { return };
        let profile = |split: &SplitStatus| {
            let asked = self.splits.get(&(split.operator.clone(), split.input))?;
            Some((asked.key.clone(), split.profile?))
        };
        let profiles: Vec<_> = status.splits.iter().filter_map(profile).collect();
        if !profiles.is_empty() {
            let _ = SplitProfiles::add_to(path, profiles);
        }
    }
}

/// The cause of an end. That a reader has closed the output stays recognisable: it is not a failure.
fn cause_of(error: FlowError) -> Cause {
    match error {
        FlowError::Failed(Failure::Sink(error)) if is_output_closed(&error.cause) => error.cause,
        error => error.into(),
    }
}
