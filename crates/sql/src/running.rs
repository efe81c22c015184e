//! A running query: its engine, and the feeds of its sources.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use tidemill_connect::standard_streams::is_output_closed;
use tidemill_engine::{
    Cause, Durability, DurableRun, DurableSource, Engine, Expression, FaultLog, Faults, Feed, FeedSettings,
    FeedStatus, FlowError, Journal, Maintenance, Plan, Progress, Recovered, Running, Sink, Source,
    SplitStatus, Status, SystemClock, WorkerProcesses,
};

use crate::definition::DurableStream;
use crate::finish::{Finish, Part};
use crate::prepared::{Output, Prepared};
use crate::split_profiles::{AskedSplits, SplitProfiles};
use crate::suspects::suspects;
use crate::translate::UsedSource;
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
    running: Option<Running>,
    feeds: Vec<(String, Feed)>,
    /// Only for a durable query, with its journal's folder; it stops when dropped, after the query and its feeds.
    maintenance: Option<(Maintenance, PathBuf)>,
    recovered: Option<Recovered>,
    faults: FaultLog,
    null_results: FaultLog,
    /// One for each sink.
    refused: Vec<FaultLog>,
    late: LateRows,
    finish: Option<Finish>,
    kept: Vec<Kept>,
    views: Vec<ViewHandle>,
    enough: Arc<AtomicBool>,
    max_latency: Option<Duration>,
    splits: AskedSplits,
    /// The file in which the costs of splits are stored.
    split_profiles: Option<PathBuf>,
}

impl Prepared {
    /// Starts the query. `sinks` belong to its [`outputs`](Prepared::outputs), in the same order.
    ///
    /// # Errors
    /// If a source cannot be opened, or the engine cannot run.
    pub fn start(self, sinks: Vec<Box<dyn Sink>>) -> Result<RunningQuery, Cause> {
        let cycles = self.cycles();
        let enough = Arc::new(AtomicBool::new(false));
        let mut kept = Vec::new();
        let sinks = match &self.finish {
            Some(finish) => self.keeping_sinks(finish, &mut kept)?,
            None => match self.rows_max {
                None => sinks,
                Some(rows) => sinks
                    .into_iter()
                    .map(|sink| Box::new(crate::limited::Limited::new(sink, rows, Arc::clone(&enough))) as _)
                    .collect(),
            },
        };
        // All sources are opened before anything runs: one that cannot be opened is reported at once.
        let refused = sinks.iter().map(|sink| sink.refused()).collect();
        let opened = self.sources.iter().map(open).collect::<Result<Vec<_>, Cause>>()?;
        let names = self.sources.iter().map(|source| source.definition.name.clone());
        let names: Vec<String> = names.collect();
        let engine = Engine::new()
            .workers(self.settings.workers)
            .processes(WorkerProcesses::new(self.settings.processes).instructions(self.instructions))
            .cycles(cycles)
            .spin(spin(self.max_latency))
            .profile_splits()
            .clock(Arc::new(SystemClock::since_1970()));
        let mut journal_folder = PathBuf::new();
        let started = match self.durability {
            Some((folder, durability)) => {
                let journal = self.journal.map_or_else(|| Journal::open(&folder), Ok)?;
                journal_folder = folder;
                durable(engine, self.plan, sinks, &self.sources, opened, journal, &durability)?
            }
            None => volatile(engine, self.plan, sinks, opened)?,
        };
        Ok(RunningQuery {
            running: Some(started.running),
            feeds: names.into_iter().zip(started.feeds).collect(),
            maintenance: started.maintenance.map(|maintenance| (maintenance, journal_folder)),
            recovered: started.recovered,
            faults: self.faults,
            null_results: self.null_results,
            refused,
            late: self.late,
            finish: self.finish,
            kept,
            views: self.views,
            enough,
            max_latency: self.max_latency,
            splits: self.splits,
            split_profiles: self.settings.split_profiles,
        })
    }

    fn keeping_sinks(&self, finish: &Finish, kept: &mut Vec<Kept>) -> Result<Vec<Box<dyn Sink>>, Cause> {
        let rows_max = self.settings.max_result_rows;
        let keep = |(output, part): (&Output, &Part)| -> Result<Box<dyn Sink>, Cause> {
            // Names may occur twice; the rows are known by their columns' numbers.
            let fields = output.schema.fields().iter().enumerate();
            let fields = fields.map(|(index, field)| field.as_ref().clone().with_name(format!("c{index}")));
            let schema = Arc::new(datafusion::arrow::datatypes::Schema::new(fields.collect::<Vec<_>>()));
            let (sink, rows) = match &part.first {
                Some(first) => Kept::first(first.clone(), &schema, rows_max),
                None => Kept::new(output, &schema, rows_max)?,
            };
            kept.push(rows);
            Ok(sink)
        };
        self.outputs.iter().zip(&finish.parts).map(keep).collect()
    }
}

/// A running engine and its feeds.
struct Started {
    running: Running,
    feeds: Vec<Feed>,
    maintenance: Option<Maintenance>,
    recovered: Option<Recovered>,
}

pub(crate) fn open(source: &UsedSource) -> Result<(Box<dyn Source>, FeedSettings), Cause> {
    let settings = FeedSettings {
        columns: source.computed.as_ref().map(|columns| {
            columns.iter().map(|column| Arc::new(column.clone()) as Arc<dyn Expression>).collect()
        }),
        event_time: source.event_time(),
        idle_after: source.definition.idle_after,
        max_ahead: source.definition.max_ahead,
    };
    Ok(((source.definition.open)(Some(&source.raw_columns))?, settings))
}

fn volatile(
    engine: Engine,
    plan: Plan,
    sinks: Vec<Box<dyn Sink>>,
    sources: Vec<(Box<dyn Source>, FeedSettings)>,
) -> Result<Started, Cause> {
    let mut running = engine.run(plan, sinks).map_err(cause_of)?;
    let mut feeds = Vec::new();
    for (index, (source, settings)) in sources.into_iter().enumerate() {
        let gateway = running.gateway(index).ok_or_else(|| Cause::bug("a gateway is missing"))?;
        feeds.push(Feed::start(source, gateway, settings)?);
    }
    Ok(Started { running, feeds, maintenance: None, recovered: None })
}

fn durable(
    engine: Engine,
    plan: Plan,
    sinks: Vec<Box<dyn Sink>>,
    used: &[UsedSource],
    sources: Vec<(Box<dyn Source>, FeedSettings)>,
    journal: Journal,
    durability: &Durability,
) -> Result<Started, Cause> {
    let sources = durable_sources(used, sources);
    let run = engine.run_durable(plan, sinks, sources, journal, durability)?;
    let DurableRun { feeds, running, maintenance, recovered } = run;
    Ok(Started { running, feeds, maintenance: Some(maintenance), recovered: Some(recovered) })
}

pub(crate) fn durable_sources(
    used: &[UsedSource],
    sources: Vec<(Box<dyn Source>, FeedSettings)>,
) -> Vec<DurableSource> {
    let durable = |((source, feed), used): ((Box<dyn Source>, FeedSettings), &UsedSource)| {
        let DurableStream { stream, sync } = used.definition.durable.clone().unwrap_or_default();
        DurableSource { source, feed, stream, sync }
    };
    sources.into_iter().zip(used).map(durable).collect()
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
        let mut faults = self.faults.read();
        let (mut late, mut skipped) = (self.late.count(), 0);
        for (_, feed) in &sources {
            faults.merge(feed.faults.clone());
            late += feed.late;
            skipped += feed.skipped;
        }
        let mut refused = Faults::default();
        self.refused.iter().for_each(|log| refused.merge(log.read()));
        QueryStatus {
            engine,
            sources,
            late,
            faults,
            null_results: self.null_results.read(),
            refused,
            skipped,
        }
    }

    /// The materialized views that it keeps.
    ///
    /// ```
    /// use tidemill_sql::{Session, parse};
    /// let mut session = Session::new();
    /// let script = "CREATE MATERIALIZED VIEW parity AS
    ///     SELECT value % 2 AS odd, count(*) AS n FROM sequence(count => 9) GROUP BY 1";
    /// for statement in parse(script, "example").unwrap() {
    ///     session.execute(&statement).unwrap_or_else(|error| panic!("{error}"));
    /// }
    /// let (pipeline, sinks) = session.pipeline().unwrap().unwrap();
    /// let running = pipeline.start(sinks).unwrap();
    /// let parity = running.views()[0].clone();
    /// running.wait().unwrap();
    /// assert_eq!(parity.read().unwrap().num_rows(), 2);
    /// ```
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
        let Some(finish) = &self.finish else { return Ok((status, None)) };
        let rows = self.kept.iter().map(Kept::read);
        let rows = rows.collect::<Result<Vec<_>, Cause>>()?;
        let answer = finish.answer(&rows).map_err(|error| Cause::user(crate::expression::plain(&error)))?;
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

/// How long workers spin before they sleep. That saves waking them, 5 to 15 us of a response, which matters only if the
/// bound is tight; a core that spins is not available to others.
fn spin(max_latency: Option<Duration>) -> Duration {
    match max_latency {
        Some(bound) if bound <= Duration::from_millis(1) => Duration::from_micros(200),
        _ => Duration::ZERO,
    }
}

pub(crate) fn cause_of(error: FlowError) -> Cause {
    use tidemill_engine::Failure;
    match error {
        // Unchanged, so that it can be recognised: it is not a failure.
        FlowError::Failed(Failure::Sink(error)) if is_output_closed(&error.cause) => error.cause,
        FlowError::Plan(error) => Cause::bug(error.to_string()),
        FlowError::Settings(text) => Cause::user(text),
        FlowError::Failed(failure) => {
            let text = failure.to_string();
            match failure {
                Failure::Operator(error) => error.cause.map_message(|_| text),
                Failure::Sink(error) => error.cause.map_message(|_| text),
                Failure::Engine { cause, .. } => cause.map_message(|_| text),
                Failure::Aborted => Cause::operation(text),
            }
        }
    }
}
