//! Durable queries: what they take in is journaled, and after a crash they resume as if nothing had happened
//! (docs/decisions/0013).

mod changed_sinks;
mod description;
mod feed;
mod feed_start;
mod forward;
mod guard;
mod maintenance;
mod opening;
mod protocol;
mod reach;
mod recovery;
mod repair;
mod replacement;
mod skip;
mod stopped_query;
mod suspects;
mod write;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidemill_core::error::Cause;
use tidemill_core::{Sink, Source};
use tidemill_flow::Running;
use tidemill_journal::{Journal, StreamSettings};
use tidemill_plan::Plan;

use crate::engine::Engine;
use crate::feed::Feed;
use crate::feed_settings::FeedSettings;
pub use changed_sinks::{AddedSink, ChangedSinks};
pub(crate) use description::{Description, sources_of};
pub(crate) use feed::{BATCHES_HANDED_ON, parts};
pub(crate) use feed_start::FeedStart;
pub(crate) use guard::JournalGuard;
pub use maintenance::Maintenance;
pub(crate) use maintenance::{ClockPart, Maintained};
use opening::Opened;
pub(crate) use protocol::{Commits, Release, Retention, SinkCommit};
pub(crate) use reach::{keep_away, places};
pub use recovery::Recovered;
pub use repair::{Repair, find_repair};
pub use replacement::{ReplaceFrom, Replacement, Takeover, find_replacement};
pub use skip::{Skip, find_skip};

/// When journaled rows are forced to disk, and therefore acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// At once; rows that have come meanwhile are synced together.
    #[default]
    AtOnce,
    /// At this interval.
    Every(Duration),
    /// Never by us: rows survive the end of the process, but not of the machine. They are acknowledged when written.
    Never,
}

/// A source of a durable query.
pub struct DurableSource {
    /// Where rows come from.
    pub source: Box<dyn Source>,
    /// How it is fed.
    pub feed: FeedSettings,
    /// Its journal's limits.
    pub stream: StreamSettings,
    /// When its journal is synced.
    pub sync: SyncPolicy,
}

/// How a query is durable.
#[derive(Clone, Debug)]
pub struct Durability {
    /// The query as its user wrote it. A resumed query must be the same.
    pub query: String,
    /// What else must be the same for its journaled rows to keep their meaning, for example one line for each computed
    /// column.
    pub meaning: Vec<String>,
    /// What each sink gets, in the plan's order. If all are here, sinks may be added and removed later; if none is, the query
    /// stays as it is.
    pub sinks: Vec<SinkQuery>,
    /// How often its state is snapshotted while rows come in. This bounds how much is replayed.
    pub snapshot_every: Duration,
}

/// The part of a durable query that one sink gets.
#[derive(Clone, Debug)]
pub struct SinkQuery {
    /// The query as text. A sink of the same name with the same text continues where it was.
    pub text: String,
    /// Whether its rows are those of a table that changes: a sink that begins later would lack what does not change.
    pub is_table: bool,
    /// Whether it must have the journal's earliest rows. One that is added later cannot.
    pub from_earliest: bool,
}

impl Durability {
    /// With a snapshot every 10 seconds.
    ///
    /// ```
    /// let durability = tidemill_engine::Durability::new("SELECT ...");
    /// assert_eq!(durability.snapshot_every.as_secs(), 10);
    /// ```
    pub fn new(query: impl Into<String>) -> Self {
        Durability {
            query: query.into(),
            meaning: Vec::new(),
            sinks: Vec::new(),
            snapshot_every: Duration::from_secs(10),
        }
    }
}

/// A running durable query. Its parts are dropped in this order: feeds, query, maintenance.
pub struct DurableRun {
    /// A feed for each source, in the plan's order.
    pub feeds: Vec<Feed>,
    /// The running query.
    pub running: Running,
    /// Takes snapshots, records commits, removes what is no longer needed.
    pub maintenance: Maintenance,
    /// What was found from earlier runs.
    pub recovered: Recovered,
}

impl Engine {
    /// Starts a plan with its sinks and sources, each in the plan's order, and resumes where an earlier run with this
    /// journal stopped.
    ///
    /// # Errors
    /// If the journal is damaged or belongs to another query, if a sink cannot say how far it is, or if the plan cannot
    /// run.
    pub fn run_durable(
        self,
        plan: Plan,
        mut sinks: Vec<Box<dyn Sink>>,
        mut sources: Vec<DurableSource>,
        journal: Journal,
        durability: &Durability,
    ) -> Result<DurableRun, Cause> {
        check(&plan, &sinks, &sources)?;
        let streams_of_plan = plan.sources.iter().map(|source| source.name.clone()).collect();
        let opened = opening::open(journal, &plan, durability, &mut sinks, &mut sources)?;
        let engine = self.clock_of_all_runs();
        let clock = engine.clock_of();
        let start = |source| opened.start_of(source, Instant::now(), &clock);
        let starts: Vec<_> = (0..sources.len()).map(start).collect();
        let Opened { streams, kept, resume, state, recovered, .. } = opened;
        let guard = Arc::clone(&kept.guard) as _;
        let engine = engine.cut_log(kept.cuts.clone()).resume(resume).commit_guard(guard);
        let mut engine = engine.snapshot_at_end();
        // One without operators only says where the query begins.
        if let Some(state) = state.filter(|state| !state.operators.is_empty()) {
            engine = engine.state(Arc::new(state));
        }
        let mut running = engine.run(plan, sinks)?;
        let mut feeds = Vec::new();
        for (index, ((source, stream), start)) in sources.into_iter().zip(streams).zip(starts).enumerate() {
            let gateway = running.gateway(index).ok_or_else(|| Cause::bug("a gateway is missing"))?;
            feeds.push(feed::start(source, stream, gateway, start)?);
        }
        let maintenance = Maintenance::start(kept, running.snapshots(), durability, streams_of_plan)?;
        Ok(DurableRun { feeds, running, maintenance, recovered })
    }
}

fn check(plan: &Plan, sinks: &[Box<dyn Sink>], sources: &[DurableSource]) -> Result<(), Cause> {
    if sinks.len() != plan.sinks.len() || sources.len() != plan.sources.len() {
        let (sinks, sources) = (sinks.len(), sources.len());
        let (planned_sinks, planned_sources) = (plan.sinks.len(), plan.sources.len());
        return Err(Cause::user(format!(
            "got {sinks} sinks and {sources} sources, but the plan has {planned_sinks} and {planned_sources}"
        )));
    }
    Ok(())
}

#[cfg(test)]
#[path = "../../tests/simulation/mod.rs"]
mod simulation;

#[cfg(test)]
#[path = "../../tests/feeding/mod.rs"]
mod feeding;
