//! What a running query reports about itself.

use std::sync::Arc;

use tidemill_engine::{
    FaultLog, Faults, FeedObserver, FeedStatus, Observer, Plan, Progress, SinkOutage, Status,
};
use tidemill_operators::watermark::LateRows;

use crate::defined_functions::without_digests;
use crate::logical::{header, shown_text};
use crate::query::deadline_monitor::DeadlineMonitor;
use crate::query::left_out::LeftOut;
use crate::query::run_text::run_text;
use crate::text::wording::plain_values;

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
    /// Results that could not be computed and are NULL.
    pub null_results: Faults,
    /// Rows that a sink's target refuses and that are kept elsewhere.
    pub refused: Faults,
    /// Which of its sinks wait for their targets, and why, in words.
    pub outages: Vec<String>,
    /// Rows that were left out on request.
    pub skipped: u64,
    /// What was found about its deadline since it started, in words; empty: nothing.
    pub deadline: String,
}

impl QueryStatus {
    /// Whether everything was done as it was asked for: no row was left out because it could not be used, no result is
    /// NULL because it could not be computed, and no sink has refused a row. Rows that were late or skipped do not count.
    pub fn is_exact(&self) -> bool {
        [&self.faults, &self.null_results, &self.refused].into_iter().all(|faults| faults.count == 0)
    }

    /// What is missing from the results, because it could not be used; `None` if nothing is.
    pub fn left_out(&self) -> Option<LeftOut> {
        LeftOut::of(&self.faults, &self.null_results)
    }

    /// Rows taken in.
    pub fn rows_in(&self) -> u64 {
        self.sources.iter().map(|(_, feed)| feed.rows).sum()
    }

    /// How fast it answers, which answers were late and what ran instead, and what its pool has done: some lines.
    pub fn describe(&self) -> String {
        format!("{}{}", self.deadline, run_text(&self.engine))
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

/// Reads the progress of a query from any thread, while it runs and after.
///
/// ```
/// use tidemill_sql::{Planner, parse};
/// let mut planner = Planner::new();
/// let script = "CREATE MATERIALIZED VIEW some AS SELECT value FROM sequence(count => 9)";
/// for statement in parse(script, "example").unwrap() {
///     planner.execute(&statement).unwrap_or_else(|error| panic!("{error}"));
/// }
/// let running = planner.pipeline().unwrap().expect("there is a view").open().unwrap().start().unwrap();
/// let observer = running.observer();
/// running.wait().unwrap();
/// assert_eq!(observer.status().rows_in(), 9);
/// assert_eq!(observer.plan().sinks[0].name, "some");
/// ```
#[derive(Clone)]
pub struct QueryObserver {
    pub(crate) engine: Observer,
    pub(crate) deadline: Arc<DeadlineMonitor>,
    pub(crate) feeds: Vec<(String, FeedObserver)>,
    pub(crate) reports: Reports,
}

impl QueryObserver {
    /// Its progress.
    pub fn status(&self) -> QueryStatus {
        self.status_with(self.engine.status())
    }

    /// What runs.
    pub fn plan(&self) -> &Plan {
        self.engine.plan()
    }

    pub(crate) fn status_with(&self, mut engine: Status) -> QueryStatus {
        engine.work.iter_mut().for_each(|work| work.name = plain_values(&shown_text(&work.name)));
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
            null_results: plainly(self.reports.null_results.read()),
            refused,
            outages: self.reports.outages.iter().filter_map(told).collect(),
            skipped,
            deadline: self.deadline.describe(),
        }
    }
}

/// What could not be done as it was asked for.
#[derive(Clone)]
pub(crate) struct Reports {
    /// Rows for which an expression could not be computed.
    pub faults: FaultLog,
    /// Results that could not be computed and are NULL.
    pub null_results: FaultLog,
    /// One for each sink.
    pub refused: Vec<FaultLog>,
    /// One for each sink, with its name.
    pub outages: Vec<(String, SinkOutage)>,
    pub late: LateRows,
}

fn told((sink, outage): &(String, SinkOutage)) -> Option<String> {
    let (lasted, reason) = outage.read()?;
    Some(format!("sink '{sink}' has been waiting for its target for {} s: {reason}", lasted.as_secs()))
}

/// The faults in the words of the query: the planner names columns in its own.
fn plainly(faults: Faults) -> Faults {
    let samples = faults.samples.iter().map(|sample| without_digests(&header(sample))).collect();
    Faults { samples, ..faults }
}
