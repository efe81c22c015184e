//! A running query.

use tidemill_engine::{Engine, FaultLog, Faults, Feed, Producer, Running, Status};
use tidemill_operators::watermark::LateRows;

use crate::build::Build;
use crate::error::Error;
use crate::input::Input;
use crate::row_source::PushedSource;

/// A running [`Query`](crate::Query). Dropping it stops the query at once.
pub struct Run {
    query: String,
    /// One for each source to which the program pushes.
    inputs: Vec<Option<Input>>,
    feeds: Vec<Feed>,
    running: Running,
    late: LateRows,
    failed: FaultLog,
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
        let Build { plan, sources, sinks, late, failed, .. } = build;
        let query = plan.name.clone();
        let names: Vec<String> = plan.sources.iter().map(|source| source.name.clone()).collect();
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
        Ok(Run { query, inputs, feeds, running, late, failed })
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
            reason:
                "rows are pushed to streams that source() or rows() of this query returned, and to no others"
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
        self.feeds.iter().for_each(Feed::stop);
        self.join()
    }

    /// Waits until all sources have ended and everything is processed. The code that pushes to an input must end it.
    ///
    /// # Errors
    /// Why the query stopped before, if it did.
    pub fn join(self) -> Result<Summary, Error> {
        let Run { inputs, feeds, running, late, failed, .. } = self;
        let engine = running.join()?;
        // By now, inputs and feeds have counted everything.
        Ok(summary(engine, &inputs, &feeds, &late, &failed))
    }

    /// What it has done so far.
    pub fn status(&self) -> Summary {
        summary(self.running.status(), &self.inputs, &self.feeds, &self.late, &self.failed)
    }
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
        late += input.late();
        faults.merge(input.faults());
    }
    for feed in feeds {
        let status = feed.status();
        late += status.late;
        faults.merge(status.faults);
    }
    Summary { engine, late, faults }
}
