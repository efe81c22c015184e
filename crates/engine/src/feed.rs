//! Feeding: a source into its gateway, on its own thread. Event times, lateness and idleness are decided here.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use tidemill_core::Source;
use tidemill_core::error::Cause;
use tidemill_flow::Gateway;

use crate::feed_settings::FeedSettings;
use crate::feed_state::{FeedObserver, FeedState, FeedStatus};
use crate::feeder::Feeder;

/// A query's part in sources that others read, too. Dropping it ends that.
pub(crate) trait SharedReading: Send + Sync {
    /// The query takes no more rows than have come by now.
    fn end(&self);
}

/// A source that is being fed. Dropping it stops the source.
///
/// ```
/// # use std::sync::Arc;
/// # use std::time::Duration;
/// # use tidemill_engine::{CycleOutput, Cause, Engine, Feed, FeedSettings, Plan, Polled, Sink, Source};
/// # use tidemill_engine::arrow::{array::{Int64Array, RecordBatch}, schema::{DataType, Field, Schema, SchemaRef}};
/// # struct Numbers(i64);
/// # impl Source for Numbers {
/// #     fn schema(&self) -> SchemaRef { Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)])) }
/// #     fn poll(&mut self, _: Duration) -> Result<Polled, Cause> {
/// #         if self.0 == 3 { return Ok(Polled::Ended) }
/// #         self.0 += 1;
/// #         Ok(Polled::Rows(RecordBatch::try_new(self.schema(), vec![Arc::new(Int64Array::from(vec![self.0]))]).unwrap()))
/// #     }
/// #     fn is_finite(&self) -> bool { true }
/// # }
/// # struct Ignored;
/// # impl Sink for Ignored {
/// #     fn prepare(&mut self, _: CycleOutput) -> Result<(), Cause> { Ok(()) }
/// #     fn commit(&mut self, _: std::ops::RangeInclusive<u64>) -> Result<(), Cause> { Ok(()) }
/// # }
/// let source = Numbers(0); // gives three rows
/// let mut plan = Plan::new("copy");
/// let streams = plan.source("numbers", [source.schema()]);
/// plan.sink("ignored", streams);
/// let mut running = Engine::new().run(plan, vec![Box::new(Ignored)])?;
/// let feed = Feed::start(Box::new(source), running.gateway(0).unwrap(), FeedSettings::default())?;
/// running.join()?;
/// assert_eq!(feed.status().rows, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Feed {
    state: Arc<FeedState>,
    threads: Vec<JoinHandle<()>>,
    /// If others read the source, too: the query's part in it.
    part: Option<Arc<dyn SharedReading>>,
}

impl Feed {
    /// Starts to feed a source into its gateway. The gateway's source has one stream for the rows, and may have a
    /// second one for late rows.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(source: Box<dyn Source>, gateway: Gateway, settings: FeedSettings) -> Result<Feed, Cause> {
        let state = Arc::new(FeedState::default());
        state.set_source(gateway.source());
        let (streams, pool) = (gateway.streams().to_vec(), gateway.pool_entry());
        let source_threads = source.threads();
        let feeder = Feeder::new(source, (gateway, &streams), &settings, Instant::now(), Arc::clone(&state));
        let threads = vec![spawn("feed", move || {
            let _membership = pool.join_with(source_threads);
            feeder.run();
        })?];
        Ok(Feed { state, threads, part: None })
    }

    /// A feed whose threads already run.
    pub(crate) fn of(state: Arc<FeedState>, threads: Vec<JoinHandle<()>>) -> Feed {
        Feed { state, threads, part: None }
    }

    /// What a query reads of a source under the clock of a database.
    pub(crate) fn shared(state: Arc<FeedState>, part: Arc<dyn SharedReading>) -> Feed {
        Feed { state, threads: Vec::new(), part: Some(part) }
    }

    /// Tells the source to stop. Rows that it has returned are still processed; open windows stay open.
    pub fn stop(&self) {
        self.state.stop();
        if let Some(part) = &self.part {
            part.end();
        }
    }

    /// A handle to read the status from any thread.
    pub fn observer(&self) -> FeedObserver {
        FeedObserver(Arc::clone(&self.state))
    }

    /// Its current status.
    pub fn status(&self) -> FeedStatus {
        self.state.status()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

pub(crate) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Cause> {
    let spawned = std::thread::Builder::new().name(name.into()).spawn(body);
    spawned.map_err(|error| {
        Cause::resource(format!("cannot start a thread for a source: {error}")).with_source(error)
    })
}
