//! A query whose journal, sinks and views are open, in this order.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use tidemill_engine::{
    Beginning, Cause, ClockRun, CyclePolicy, DatabaseClock, Durability, DurableClockRun, DurableRun,
    DurableSource, Engine, Feed, FeedSettings, Journal, Limits, Maintenance, MemoryAccount, QueryFolder,
    QueryPosition, Recovered, Running, Sink, Source, SystemClock, WorkerProcesses,
};
use tidemill_store::{StoreConfig, StoreReader, StoreSink};
use tracing::{Span, info};

use crate::connectors::SinkUse;
use crate::log_span::span_of_outputs;
use crate::query::deadline_monitor::DeadlineMonitor;
use crate::query::divided_query::{DividedQuery, Part};
use crate::query::durable_view::DurableView;
use crate::query::limited::Limited;
use crate::query::pipeline::{DurableRunPlan, OutputTarget, Pipeline};
use crate::query::prepared::{Answer, Output, Prepared};
use crate::query::retained::store_config;
use crate::query::rows_of_nothing::rows_of_nothing;
use crate::query::running::{CollectedParts, RunningQuery};
use crate::query::status::{QueryObserver, Reports};
use crate::query::view::{RowStorage, ViewHandle};
use crate::relations::source_definition::DurableStream;
use crate::relations::view_clock::ViewClock;
use crate::translate::UsedSource;

/// A source, and how its rows come in.
type SourceWithSettings = (Box<dyn Source>, FeedSettings);
/// The receivers of a query's rows.
type Sinks = Vec<Box<dyn Sink>>;

/// Cycles that close when it is asked for have at most this many events.
const EVENTS_UNTIL_REQUEST: u32 = 1 << 30;

/// A query whose journal, sinks and views are open. Its sources are opened, and its state is restored, when it starts.
///
/// The journal is opened before the sinks, because opening a sink may end an earlier run in favour of a later one, and
/// only one run at a time has the journal. [`Pipeline::open`] is the only way to an open journal, and opens the sinks itself,
/// so there is no other order.
pub struct Opened {
    pub(crate) prepared: Prepared,
    pub(crate) journal: Option<OpenJournal>,
    /// One for each output of the plan.
    pub(crate) sinks: Sinks,
    views: Vec<ViewHandle>,
    collected: Option<CollectedParts>,
    /// Whether all rows that are wanted have been written.
    enough: Arc<AtomicBool>,
}

/// The journal of a durable query. As long as it is open, no other run of the query can start.
pub(crate) struct OpenJournal {
    pub journal: Journal,
    pub folder: PathBuf,
    pub durability: Durability,
    pub beginning: Beginning,
}

impl OpenJournal {
    pub fn open(durable: DurableRunPlan) -> Result<OpenJournal, Cause> {
        let DurableRunPlan { folder, durability, beginning } = durable;
        Ok(OpenJournal { journal: Journal::open(&folder)?, folder, durability, beginning })
    }
}

impl Prepared {
    /// The span of its log.
    fn span(&self) -> Span {
        span_of_outputs(self.outputs.iter().map(|output| output.name.as_str()))
    }

    /// Takes the sinks of its [`outputs`](Prepared::outputs), in the same order.
    ///
    /// # Errors
    /// If its answer cannot be kept until its end.
    pub fn open(self, sinks: Vec<Box<dyn Sink>>) -> Result<Opened, Cause> {
        let enough = Arc::new(AtomicBool::new(false));
        let (sinks, collected) = match &self.answer {
            Answer::Rows => (sinks, None),
            Answer::First(rows) => {
                let limited =
                    |sink| Box::new(Limited::new(sink, *rows, Arc::clone(&enough))) as Box<dyn Sink>;
                (sinks.into_iter().map(limited).collect(), None)
            }
            Answer::AtEnd(finish) => {
                let (sinks, rows) = self.collecting_sinks(finish)?;
                (sinks, Some(CollectedParts { finish: (**finish).clone(), rows }))
            }
        };
        Ok(Opened { prepared: self, journal: None, sinks, views: Vec::new(), collected, enough })
    }

    /// Sinks that keep the rows from which the answer is computed at the end, and these rows.
    fn collecting_sinks(&self, finish: &DividedQuery) -> Result<(Sinks, Vec<RowStorage>), Cause> {
        let limits = (self.settings.max_result_rows, &self.memory);
        let collecting = |(output, part): (&Output, &Part)| -> Result<(Box<dyn Sink>, RowStorage), Cause> {
            // Names may occur twice; the rows are known by their columns' numbers.
            let fields = output.schema.fields().iter().enumerate();
            let fields = fields.map(|(index, field)| field.as_ref().clone().with_name(format!("c{index}")));
            let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            match &part.first {
                Some(first) => Ok(RowStorage::first(first.clone(), &schema, limits)),
                None => RowStorage::new(output, &schema, limits),
            }
        };
        let both = self.outputs.iter().zip(&finish.parts).map(collecting);
        Ok(both.collect::<Result<Vec<_>, Cause>>()?.into_iter().unzip())
    }
}

impl Pipeline {
    /// Opens its journal, if it is durable, and then its sinks and views.
    ///
    /// # Errors
    /// If one of them cannot be opened, or another run has the journal.
    pub fn open(self) -> Result<Opened, Cause> {
        self.prepared.span().in_scope(|| self.open_from(false))
    }

    /// As [`open`](Pipeline::open), for the clock of a database. If it `is_new`, it begins there, whatever an earlier query of
    /// its name has left.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_under(self, clock: &DatabaseClock, is_new: bool) -> Result<Opened, Cause> {
        let is_cleared = is_new && self.is_under(clock);
        self.open_from(is_cleared)
    }

    fn open_from(self, is_cleared: bool) -> Result<Opened, Cause> {
        let Pipeline { prepared, targets, durable, .. } = self;
        let journal = durable.map(OpenJournal::open).transpose()?;
        if let Some(journal) = journal.as_ref().filter(|_| is_cleared) {
            journal.journal.clear()?;
        }
        Opened::of(prepared, targets, journal)
    }
}

impl Opened {
    /// Opens the sinks and views of a query whose journal is open.
    pub(crate) fn of(
        prepared: Prepared,
        targets: Vec<OutputTarget>,
        journal: Option<OpenJournal>,
    ) -> Result<Opened, Cause> {
        let must_be_empty = journal.as_ref().map_or(Ok(false), OpenJournal::begins_replacement)?;
        let identity = journal.as_ref().map(|journal| journal.journal.identity()).transpose()?;
        let (mut sinks, mut views) = (Vec::new(), Vec::new());
        for (output, target) in prepared.outputs.iter().zip(targets) {
            let sink_use = SinkUse { must_be_empty, ..sink_use(output, identity) };
            sinks.push(match target {
                OutputTarget::Sink(definition) => (definition.open)(&sink_use)?,
                OutputTarget::View(view) => {
                    let config = store_config(output, &view, &prepared.settings)?;
                    let account = prepared.memory.account();
                    let first = rows_of_nothing(&view.plan, output, &prepared.memory)?;
                    let (sink, store) = view_sink(config, (&output.name, account), first, journal.as_ref())?;
                    views.push(ViewHandle::new(&output.name, store, view));
                    sink
                }
            });
        }
        let opened = prepared.open(sinks)?;
        Ok(Opened { journal, views, ..opened })
    }
}

/// The sink that keeps the rows of a view, which begins with the given ones; in a durable query, it begins with those
/// that an earlier run has kept.
pub(crate) fn view_sink(
    config: StoreConfig,
    (name, account): (&str, MemoryAccount),
    first: Option<RecordBatch>,
    journal: Option<&OpenJournal>,
) -> Result<(Box<dyn Sink>, StoreReader), Cause> {
    let holder = format!("view '{name}'");
    match journal {
        Some(journal) => {
            let (mut sink, store) = DurableView::open(config, name, &journal.journal)?;
            sink.count_in(account, &holder);
            first.map_or(Ok(()), |rows| sink.begin_with(&rows))?;
            Ok((Box::new(sink), store))
        }
        None => {
            let (mut sink, store) = StoreSink::new(config)?;
            sink.count_in(account, &holder);
            first.map_or(Ok(()), |rows| sink.begin_with(&rows))?;
            Ok((Box::new(sink), store))
        }
    }
}

impl Opened {
    /// Opens the sources, restores the state of a durable query, and starts.
    ///
    /// # Errors
    /// If a source cannot be opened, or the engine cannot run.
    pub fn start(self) -> Result<RunningQuery, Cause> {
        self.prepared.span().in_scope(|| self.start_under(None))
    }

    /// As [`start`](Opened::start), under the clock of a database and with this name: sources that other queries read are not
    /// opened again, and the cycles are those of the clock. A query with cycles of fixed size, or over several processes, has a
    /// clock of its own; so has a durable query, unless the clock has a journal.
    ///
    /// # Errors
    /// As `start`.
    pub fn start_under(self, clock: Option<(&DatabaseClock, &str)>) -> Result<RunningQuery, Cause> {
        let Opened { prepared, journal, sinks, views, collected, enough } = self;
        let outputs: Vec<&str> = prepared.outputs.iter().map(|output| output.name.as_str()).collect();
        info!(
            workers = prepared.settings.workers,
            processes = prepared.settings.processes,
            partitions = prepared.settings.partitions,
            cycle_events = prepared.settings.cycle_events,
            journal = ?journal.as_ref().map(|journal| &journal.folder),
            ?outputs,
            "a query starts"
        );
        // All sources are opened before anything runs: one that cannot be opened is reported at once.
        let refused = sinks.iter().map(|sink| sink.refused()).collect();
        let names_of_sinks = prepared.outputs.iter().map(|output| output.name.clone());
        let outages = names_of_sinks.zip(sinks.iter().map(|sink| sink.outage())).collect();
        let is_there = |clock: &DatabaseClock| journal.is_none() || clock.is_journaled();
        let clock = clock.filter(|(clock, _)| !prepared.has_own_clock() && is_there(clock));
        // Under a clock, they are opened there.
        let sources = if clock.is_some() { Vec::new() } else { prepared.open_sources()? };
        let used = prepared.dataflow.sources.iter();
        let names: Vec<String> = used.map(|source| source.definition.name.clone()).collect();
        let engine = prepared.engine()?;
        let deadline =
            Arc::new(DeadlineMonitor::new(prepared.real_time.clone(), prepared.cycles_without_analysis()));
        let Prepared { dataflow, settings, max_latency, memory, .. } = prepared;
        let journal_folder = journal.as_ref().map(|journal| journal.folder.clone());
        let started = match journal {
            Some(OpenJournal { journal, durability, beginning, .. }) if let Some((clock, name)) = clock => {
                let used = dataflow.sources.iter().map(UsedSource::under_clock);
                let used = used.collect::<Result<Vec<_>, Cause>>()?;
                let folder = QueryFolder { name: name.to_owned(), journal, durability, beginning };
                let run = engine.run_durable_under(clock, dataflow.plan, sinks, used, folder)?;
                let DurableClockRun { run: ClockRun { running, feeds, begins_after, position }, .. } = run;
                let durable = Some((run.maintenance, run.recovered));
                StartedEngine { running, feeds, durable, under_clock: Some((begins_after, position)) }
            }
            Some(OpenJournal { journal, durability, .. }) => {
                let sources = durable_sources(&dataflow.sources, sources);
                let run = engine.run_durable(dataflow.plan, sinks, sources, journal, &durability)?;
                let DurableRun { feeds, running, maintenance, recovered } = run;
                StartedEngine { running, feeds, durable: Some((maintenance, recovered)), under_clock: None }
            }
            None if let Some((clock, _)) = clock => {
                let used = dataflow.sources.iter().map(UsedSource::under_clock);
                let used = used.collect::<Result<Vec<_>, Cause>>()?;
                let run = engine.run_under(clock, dataflow.plan, sinks, used)?;
                let ClockRun { running, feeds, begins_after, position } = run;
                StartedEngine { running, feeds, durable: None, under_clock: Some((begins_after, position)) }
            }
            None => {
                let mut running = engine.run(dataflow.plan, sinks)?;
                StartedEngine {
                    feeds: feeds(&mut running, sources)?,
                    running,
                    durable: None,
                    under_clock: None,
                }
            }
        };
        let (maintenance, recovered) = started.durable.unzip();
        let (begins_after, position) = started.under_clock.unzip();
        // The views of a query have one clock.
        let view_clock = position.clone().map_or_else(ViewClock::of_query, ViewClock::Database);
        let views = views.into_iter().map(|view| view.under(view_clock.clone())).collect();
        let feeds: Vec<(String, Feed)> = names.into_iter().zip(started.feeds).collect();
        let observer = QueryObserver {
            engine: started.running.observer(),
            deadline: Arc::clone(&deadline),
            feeds: feeds.iter().map(|(name, feed)| (name.clone(), feed.observer())).collect(),
            reports: Reports {
                faults: dataflow.faults,
                null_results: dataflow.null_results,
                refused,
                outages,
                late: dataflow.late,
            },
        };
        Ok(RunningQuery {
            running: Some(started.running),
            feeds,
            observer,
            maintenance: maintenance.zip(journal_folder),
            recovered,
            begins_after: begins_after.flatten(),
            position,
            collected,
            views,
            enough,
            max_latency,
            memory,
            splits: dataflow.splits,
            split_profiles: settings.split_profiles,
            deadline,
        })
    }
}

/// A running engine and its feeds; if it is durable, with what looks after its journal and what it found there.
struct StartedEngine {
    running: Running,
    feeds: Vec<Feed>,
    durable: Option<(Maintenance, Recovered)>,
    /// The cycle after which it begins, and how far it is.
    under_clock: Option<(Option<u64>, QueryPosition)>,
}

impl Prepared {
    /// Whether it has a clock of its own, also in a database.
    pub(crate) fn has_own_clock(&self) -> bool {
        // The threads that read under a clock serve others, too, and cycles there are not cut for one deadline.
        self.settings.cycle_fixed || self.settings.processes > 1 || self.real_time.has_own_cycles()
    }

    /// Its sources whose rows come once, so that whoever opens one takes its rows from others: the name of each, and whether
    /// queries under a clock read it already.
    pub fn live_sources(&self, clock: &DatabaseClock) -> Vec<(&str, bool)> {
        let live = self.dataflow.sources.iter().filter(|source| source.is_live());
        live.map(|source| (source.definition.name.as_str(), clock.reads(&source.key()))).collect()
    }

    pub(crate) fn open_sources(&self) -> Result<Vec<SourceWithSettings>, Cause> {
        self.dataflow.sources.iter().map(UsedSource::open).collect()
    }

    /// A worker that spins between cycles would be taken for one that works on them.
    fn spin(&self) -> Duration {
        if self.real_time.one_at_a_time() { Duration::ZERO } else { spin(self.max_latency) }
    }

    fn engine(&self) -> Result<Engine, Cause> {
        let processes = WorkerProcesses::new(self.settings.processes).instructions(self.instructions.clone());
        let mut engine = Engine::new()
            .workers(self.settings.workers)
            .processes(processes)
            .cycles(self.cycles())
            .memory(self.memory.clone())
            .spin(self.spin())
            .profile_splits()
            .rebalancing(self.settings.rebalancing.clone())
            .clock(Arc::new(SystemClock::since_1970()));
        if let Some(stand_ins) = &self.settings.stand_ins {
            let at_request = CyclePolicy::fixed(EVENTS_UNTIL_REQUEST);
            return Ok(engine.cycles(at_request).clock(Arc::clone(&stand_ins.clock)));
        }
        if let Some(deadline) = self.real_time.deadline {
            engine = engine.deadline(deadline).measure_costs(self.real_time.cost);
        }
        if self.real_time.is_periodic {
            engine = engine.periodic();
        }
        if self.real_time.one_at_a_time() {
            let one = Limits { cycles_in_flight_max: 1, cycles_behind_max: 1, ..Limits::default() };
            engine = engine.limits(one);
        }
        match &self.real_time.pool {
            Some(pool) => Ok(engine.pool(&pool.start()?)),
            None => Ok(engine),
        }
    }
}

fn feeds(running: &mut Running, sources: Vec<SourceWithSettings>) -> Result<Vec<Feed>, Cause> {
    let feed = |(index, (source, settings)): (usize, SourceWithSettings)| {
        let gateway = running.gateway(index).ok_or_else(|| Cause::bug("a gateway is missing"))?;
        Feed::start(source, gateway, settings)
    };
    sources.into_iter().enumerate().map(feed).collect()
}

pub(crate) fn durable_sources(used: &[UsedSource], sources: Vec<SourceWithSettings>) -> Vec<DurableSource> {
    let durable = |((source, feed), used): (SourceWithSettings, &UsedSource)| {
        let DurableStream { stream, sync, .. } = used.definition.durable.clone().unwrap_or_default();
        DurableSource { source, feed, stream, sync }
    };
    sources.into_iter().zip(used).map(durable).collect()
}

/// How long workers spin before they sleep. That saves waking them, 5 to 15 us of a response, which matters only if the
/// bound is tight; a core that spins is not available to others.
fn spin(max_latency: Option<Duration>) -> Duration {
    match max_latency {
        Some(bound) if bound <= Duration::from_millis(1) => Duration::from_micros(200),
        _ => Duration::ZERO,
    }
}

/// What the sink of an output is opened for.
fn sink_use(output: &Output, identity: Option<u64>) -> SinkUse<'_> {
    let columns = output.table_key.iter().flatten().flatten();
    let key = columns.map(|column| output.schema.field(*column).name().clone()).collect();
    let resume = identity.is_some();
    SinkUse { name: &output.name, schema: &output.schema, key, resume, identity, must_be_empty: false }
}
