//! A running query.

use std::path::Path;

use tidemill_engine::{
    Durability, DurableRun, DurableSource, Engine, FaultLog, Faults, Feed, Journal, Maintenance, Plan,
    Producer, Recovered, Running, Sink, Status,
};
use tidemill_operators::watermark::LateRows;

use crate::build::{Build, SinkBuild, SourceBuild};
use crate::error::Error;
use crate::input::Input;
use crate::pushed_source::pushed_rows;
use crate::row_source::PushedSource;
use crate::sinks::SinkOpening;

/// A running [`Query`](crate::Query). Dropping it stops the query at once.
pub struct Run {
    query: String,
    /// One for each source to which the program pushes.
    inputs: Vec<Option<Input>>,
    feeds: Vec<Feed>,
    running: Running,
    late: LateRows,
    failed: FaultLog,
    /// Of a durable query: keeps its journal, and what was found there. Dropped after the query has ended.
    durable: Option<(Maintenance, Recovered)>,
}

/// What a query has done.
///
/// ```
/// use tidemill::{Engine, Query};
/// let mut query = Query::new("all");
/// let rows = query.rows::<(i64,)>("rows", "value");
/// rows.for_each("ignored", "value", |(_,): (i64,)| {});
/// let run = Engine::new().start(query)?;
/// run.input(&rows)?.push([(1,), (2,)])?;
/// let summary = run.finish()?;
/// assert_eq!((summary.engine.per_event.count(), summary.late, summary.faults.count), (2, 0, 0));
/// # Ok::<(), tidemill::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Summary {
    /// Counters and response times of the engine.
    pub engine: Status,
    /// Rows that came too late and were dropped.
    pub late: u64,
    /// Input that could not be read, rows that were dropped, and results that are NULL because their type cannot hold
    /// them.
    pub faults: Faults,
}

impl Run {
    pub(crate) fn start(build: Build, engine: Engine) -> Result<Run, Error> {
        if let Some(folder) = build.journal.clone() {
            return Run::start_durable(build, engine, &folder);
        }
        let Build { plan, sources, sinks, late, failed, .. } = build;
        let query = plan.name.clone();
        let names: Vec<String> = plan.sources.iter().map(|source| source.name.clone()).collect();
        let sinks = open_sinks(&plan, sinks, false)?;
        let mut running = engine.run(plan, sinks)?;
        let (mut inputs, mut feeds) = (Vec::new(), Vec::new());
        for (index, source) in sources.into_iter().enumerate() {
            let gateway = running.gateway(index).expect("each source of a plan has a gateway");
            match source.source {
                None => {
                    let input = Input::new(&query, &names[index], &source.schema, &source.feed, gateway);
                    inputs.push(Some(input));
                }
                Some(reader) => {
                    feeds.push(Feed::start(reader, gateway, source.feed)?);
                    inputs.push(None);
                }
            }
        }
        Ok(Run { query, inputs, feeds, running, late, failed, durable: None })
    }

    fn start_durable(build: Build, engine: Engine, folder: &Path) -> Result<Run, Error> {
        // What functions compute cannot be compared. Sources, operators and sinks are, by the engine.
        let durability = Durability::new(build.description());
        let Build { plan, sources, sinks, late, failed, .. } = build;
        let query = plan.name.clone();
        let (mut inputs, mut read) = (Vec::new(), Vec::new());
        for (source, planned) in sources.into_iter().zip(&plan.sources) {
            let SourceBuild { schema, feed, source, stream, sync } = source;
            let source = match source {
                Some(source) => {
                    inputs.push(None);
                    source
                }
                None => {
                    let (rows, pusher) = pushed_rows(&schema);
                    inputs.push(Some(Input::journaled(&query, &planned.name, &schema, pusher)));
                    Box::new(rows)
                }
            };
            read.push(DurableSource { source, feed, stream, sync });
        }
        // The journal first: opening a sink may end an earlier run, and only one run at a time has the journal.
        let journal = Journal::open(folder)?;
        let sinks = open_sinks(&plan, sinks, true)?;
        let started = engine.run_durable(plan, sinks, read, journal, &durability)?;
        let DurableRun { feeds, running, maintenance, recovered } = started;
        Ok(Run { query, inputs, feeds, running, late, failed, durable: Some((maintenance, recovered)) })
    }

    /// What a durable query has found of earlier runs; `None`: it is not durable.
    pub fn recovered(&self) -> Option<&Recovered> {
        self.durable.as_ref().map(|(_, recovered)| recovered)
    }

    /// Where to push the rows of a source.
    ///
    /// # Errors
    /// If the stream does not belong to a source to which rows are pushed.
    pub fn input<S: PushedSource>(&self, source: &S) -> Result<S::Input, Error> {
        let stream = source.stream();
        let input = match stream.stream.producer {
            Producer::Source(index) => self.inputs.get(index).cloned().flatten(),
            _ => None,
        };
        let input = input.ok_or_else(|| Error::Query {
            query: self.query.clone(),
            reason: "rows can be pushed only to streams that source() or rows() of this query returned"
                .to_owned(),
        })?;
        Ok(source.typed(input))
    }

    /// Ends all sources to which the program pushes, and waits until everything is processed. If another source does
    /// not end by itself, this waits for it; [`stop`](Run::stop) stops it.
    ///
    /// # Errors
    /// Why the query stopped before, if it did.
    pub fn finish(self) -> Result<Summary, Error> {
        self.inputs.iter().flatten().for_each(Input::end);
        self.join()
    }

    /// Takes in no more rows, and waits until the rows taken in are processed. Open windows are not written.
    ///
    /// # Errors
    /// Why the query stopped before, if it did.
    pub fn stop(self) -> Result<Summary, Error> {
        self.inputs.iter().flatten().for_each(Input::leave);
        // Sources to which the program pushes have been left, and have a feed only if they are durable.
        let is_read = |source: &usize| self.durable.is_none() || self.inputs[*source].is_none();
        (0..self.feeds.len()).filter(is_read).for_each(|source| self.feeds[source].stop());
        self.join()
    }

    /// Waits until all sources have ended and everything is processed. The code that pushes to an input must end it.
    ///
    /// # Errors
    /// Why the query stopped before, if it did.
    pub fn join(self) -> Result<Summary, Error> {
        let Run { inputs, feeds, running, late, failed, durable, .. } = self;
        let ended = running.join();
        // By now, inputs and feeds have counted everything.
        let summary = ended.map(|engine| summary(engine, &inputs, &feeds, &late, &failed));
        drop(feeds);
        // It keeps the state of the end, so that the next run has nothing to compute again.
        drop(durable);
        Ok(summary?)
    }

    /// What it has done so far.
    pub fn status(&self) -> Summary {
        summary(self.running.status(), &self.inputs, &self.feeds, &self.late, &self.failed)
    }
}

/// Opens the sinks, in the plan's order.
fn open_sinks(plan: &Plan, sinks: Vec<SinkBuild>, resume: bool) -> Result<Vec<Box<dyn Sink>>, Error> {
    let mut opened = Vec::new();
    for (planned, sink) in plan.sinks.iter().zip(sinks) {
        let SinkBuild { schema, key, open } = sink;
        let (query, name) = (plan.name.as_str(), planned.name.as_str());
        let sink = open(&SinkOpening { query, name, schema: &schema, key: &key, resume });
        opened.push(sink.map_err(|cause| cause.map_message(|text| format!("sink '{name}': {text}")))?);
    }
    Ok(opened)
}

fn summary(
    engine: Status,
    inputs: &[Option<Input>],
    feeds: &[Feed],
    late: &LateRows,
    failed: &FaultLog,
) -> Summary {
    let (mut late, mut faults) = (late.count(), failed.read());
    for input in inputs.iter().flatten() {
        let found = input.found();
        late += found.0;
        faults.merge(found.1);
    }
    for feed in feeds {
        let status = feed.status();
        late += status.late;
        faults.merge(status.faults);
    }
    Summary { engine, late, faults }
}
