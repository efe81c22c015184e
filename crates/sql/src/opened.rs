//! A query whose journal, sinks and views are open, in this order.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use tidemill_engine::{
    Cause, Durability, DurableRun, DurableSource, Engine, Expression, Feed, FeedSettings, Journal,
    Maintenance, Recovered, Running, Sink, Source, SystemClock, WorkerProcesses,
};
use tracing::info;

use crate::connectors::SinkUse;
use crate::definition::DurableStream;
use crate::finish::{Finish, Part};
use crate::limited::Limited;
use crate::pipeline::{DurableRunPlan, Pipeline, Target};
use crate::prepared::{Answer, Output, Prepared};
use crate::running::{Collected, Reports, RunningQuery};
use crate::translate::UsedSource;
use crate::view::{Kept, ViewHandle};

/// A source, and how its rows come in.
type OpenSource = (Box<dyn Source>, FeedSettings);
/// The receivers of a query's rows.
type Sinks = Vec<Box<dyn Sink>>;

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
    collected: Option<Collected>,
    /// Whether all rows that are wanted have been written.
    enough: Arc<AtomicBool>,
}

/// The journal of a durable query. As long as it is open, no other run of the query can start.
pub(crate) struct OpenJournal {
    pub journal: Journal,
    pub folder: PathBuf,
    pub durability: Durability,
}

impl OpenJournal {
    fn open(durable: DurableRunPlan) -> Result<OpenJournal, Cause> {
        let DurableRunPlan { folder, durability } = durable;
        Ok(OpenJournal { journal: Journal::open(&folder)?, folder, durability })
    }
}

impl Prepared {
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
                (sinks, Some(Collected { finish: finish.clone(), rows }))
            }
        };
        Ok(Opened { prepared: self, journal: None, sinks, views: Vec::new(), collected, enough })
    }

    /// Sinks that keep the rows from which the answer is computed at the end, and these rows.
    fn collecting_sinks(&self, finish: &Finish) -> Result<(Sinks, Vec<Kept>), Cause> {
        let rows_max = self.settings.max_result_rows;
        let collecting = |(output, part): (&Output, &Part)| -> Result<(Box<dyn Sink>, Kept), Cause> {
            // Names may occur twice; the rows are known by their columns' numbers.
            let fields = output.schema.fields().iter().enumerate();
            let fields = fields.map(|(index, field)| field.as_ref().clone().with_name(format!("c{index}")));
            let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            match &part.first {
                Some(first) => Ok(Kept::first(first.clone(), &schema, rows_max)),
                None => Kept::new(output, &schema, rows_max),
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
        let Pipeline { prepared, targets, durable } = self;
        let journal = durable.map(OpenJournal::open).transpose()?;
        let (mut sinks, mut views) = (Vec::new(), Vec::new());
        for (output, target) in prepared.outputs.iter().zip(targets) {
            sinks.push(match target {
                Target::Sink(definition) => (definition.open)(&sink_use(output, journal.is_some()))?,
                Target::View(view) => {
                    let (sink, kept) = Kept::new(output, &output.schema, prepared.settings.max_result_rows)?;
                    views.push(ViewHandle::new(&output.name, &output.schema, kept, view));
                    sink
                }
            });
        }
        let opened = prepared.open(sinks)?;
        Ok(Opened { journal, views, ..opened })
    }
}

impl Opened {
    /// Opens the sources, restores the state of a durable query, and starts.
    ///
    /// # Errors
    /// If a source cannot be opened, or the engine cannot run.
    pub fn start(self) -> Result<RunningQuery, Cause> {
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
        let sources = prepared.open_sources()?;
        let used = prepared.dataflow.sources.iter();
        let names: Vec<String> = used.map(|source| source.definition.name.clone()).collect();
        let engine = prepared.engine();
        let Prepared { dataflow, settings, max_latency, .. } = prepared;
        let journal_folder = journal.as_ref().map(|journal| journal.folder.clone());
        let started = match journal {
            Some(OpenJournal { journal, durability, .. }) => {
                let sources = durable_sources(&dataflow.sources, sources);
                let run = engine.run_durable(dataflow.plan, sinks, sources, journal, &durability)?;
                let DurableRun { feeds, running, maintenance, recovered } = run;
                Started { running, feeds, durable: Some((maintenance, recovered)) }
            }
            None => {
                let mut running = engine.run(dataflow.plan, sinks)?;
                Started { feeds: feeds(&mut running, sources)?, running, durable: None }
            }
        };
        let (maintenance, recovered) = started.durable.unzip();
        Ok(RunningQuery {
            running: Some(started.running),
            feeds: names.into_iter().zip(started.feeds).collect(),
            maintenance: maintenance.zip(journal_folder),
            recovered,
            reports: Reports {
                faults: dataflow.faults,
                null_results: dataflow.null_results,
                refused,
                late: dataflow.late,
            },
            collected,
            views,
            enough,
            max_latency,
            splits: dataflow.splits,
            split_profiles: settings.split_profiles,
        })
    }
}

/// A running engine and its feeds; if it is durable, with what looks after its journal and what it found there.
struct Started {
    running: Running,
    feeds: Vec<Feed>,
    durable: Option<(Maintenance, Recovered)>,
}

impl Prepared {
    pub(crate) fn open_sources(&self) -> Result<Vec<OpenSource>, Cause> {
        self.dataflow.sources.iter().map(open_source).collect()
    }

    fn engine(&self) -> Engine {
        let processes = WorkerProcesses::new(self.settings.processes).instructions(self.instructions.clone());
        Engine::new()
            .workers(self.settings.workers)
            .processes(processes)
            .cycles(self.cycles())
            .spin(spin(self.max_latency))
            .profile_splits()
            .clock(Arc::new(SystemClock::since_1970()))
    }
}

fn open_source(source: &UsedSource) -> Result<OpenSource, Cause> {
    info!(source = source.definition.name, "source is opened");
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

fn feeds(running: &mut Running, sources: Vec<OpenSource>) -> Result<Vec<Feed>, Cause> {
    let feed = |(index, (source, settings)): (usize, OpenSource)| {
        let gateway = running.gateway(index).ok_or_else(|| Cause::bug("a gateway is missing"))?;
        Feed::start(source, gateway, settings)
    };
    sources.into_iter().enumerate().map(feed).collect()
}

pub(crate) fn durable_sources(used: &[UsedSource], sources: Vec<OpenSource>) -> Vec<DurableSource> {
    let durable = |((source, feed), used): (OpenSource, &UsedSource)| {
        let DurableStream { stream, sync } = used.definition.durable.clone().unwrap_or_default();
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
fn sink_use(output: &Output, resume: bool) -> SinkUse<'_> {
    let columns = output.table_key.iter().flatten().flatten();
    let key = columns.map(|column| output.schema.field(*column).name().clone()).collect();
    SinkUse { name: &output.name, schema: &output.schema, key, resume }
}
