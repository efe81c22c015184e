//! Feeding: a source into its gateway, on a thread of its own. Event times, lateness and idleness are decided here.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidemill_core::error::Cause;
use tidemill_core::{Faults, Polled, Progress, Source};
use tidemill_flow::{Gateway, Stopped};

use crate::admission::Gate;
use crate::connection_times::ConnectionTimes;
use crate::feed_settings::FeedSettings;
use crate::intake::Intake;

/// Maximum wait per poll; also bounds how long a stop can go unnoticed.
pub(crate) const POLL_WAIT: Duration = Duration::from_millis(20);

/// What a feed reports about itself.
#[derive(Clone, Debug, Default)]
pub struct FeedStatus {
    /// Rows taken in, including late ones.
    pub rows: u64,
    /// Rows that came too late.
    pub late: u64,
    /// Rows that were left out because it was asked for ([`find_skip`](crate::find_skip)).
    pub skipped: u64,
    /// Records that could not be read, and rows without event time.
    pub faults: Faults,
    /// How far the source is.
    pub progress: Progress,
    /// Whether it has ended.
    pub ended: bool,
}

/// What a feed's threads share with its observer.
#[derive(Default)]
pub(crate) struct FeedState {
    stop: AtomicBool,
    rows: AtomicU64,
    late: AtomicU64,
    skipped: AtomicU64,
    ended: AtomicBool,
    slow: Mutex<(Faults, Progress)>,
}

impl FeedState {
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    pub fn add_rows(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    pub fn set_late(&self, late: u64) {
        self.late.store(late, Ordering::Relaxed);
    }

    pub fn add_skipped(&self, rows: u64) {
        self.skipped.fetch_add(rows, Ordering::Relaxed);
    }

    pub fn add_faults(&self, faults: Faults) {
        self.lock().0.merge(faults);
    }

    pub fn set_progress(&self, progress: Progress) {
        self.lock().1 = progress;
    }

    pub fn has_ended(&self) {
        self.ended.store(true, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, (Faults, Progress)> {
        self.slow.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
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
}

impl Feed {
    /// Starts to feed a source into its gateway. The gateway's source has one stream for the rows, and may have a
    /// second one for late rows.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(source: Box<dyn Source>, gateway: Gateway, settings: FeedSettings) -> Result<Feed, Cause> {
        let state = Arc::new(FeedState::default());
        let feeder = Feeder { source, gateway, settings, state: Arc::clone(&state) };
        let threads = vec![spawn("feed", move || feeder.run())?];
        Ok(Feed { state, threads })
    }

    /// A feed whose threads already run.
    pub(crate) fn of(state: Arc<FeedState>, threads: Vec<JoinHandle<()>>) -> Feed {
        Feed { state, threads }
    }

    /// Tells the source to stop. Rows that it has returned are still processed; open windows stay open.
    pub fn stop(&self) {
        self.state.stop();
    }

    /// Its current status.
    pub fn status(&self) -> FeedStatus {
        let slow = self.state.lock();
        FeedStatus {
            rows: self.state.rows.load(Ordering::Relaxed),
            late: self.state.late.load(Ordering::Relaxed),
            skipped: self.state.skipped.load(Ordering::Relaxed),
            faults: slow.0.clone(),
            progress: slow.1,
            ended: self.state.ended.load(Ordering::Acquire),
        }
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
    spawned.map_err(|error| Cause::resource(format!("a thread for a source: {error}")))
}

struct Feeder {
    source: Box<dyn Source>,
    gateway: Gateway,
    settings: FeedSettings,
    state: Arc<FeedState>,
}

impl Feeder {
    fn run(mut self) {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.feed()));
        let ended = ended.unwrap_or_else(|_| Err(Cause::bug("a source panicked")));
        self.state.has_ended();
        match ended {
            Ok(true) => drop(self.gateway),
            Ok(false) => self.gateway.leave(),
            Err(cause) => self.gateway.fail(cause),
        }
    }

    /// True if the source has ended, false if it was stopped before.
    fn feed(&mut self) -> Result<bool, Cause> {
        let mut intake = Intake::new(&self.settings, self.gateway.streams());
        let mut gate = Gate::new(self.source.as_mut(), &self.settings, self.gateway.streams());
        let mut connections = ConnectionTimes::watch(self.source.as_mut(), &self.settings, i64::MIN);
        let mut last_rows = Instant::now();
        let mut idle = false;
        loop {
            if self.state.is_stopped() {
                return Ok(false);
            }
            let polled = self.source.poll(POLL_WAIT)?;
            let chunk = match polled {
                Polled::Rows(rows) => {
                    last_rows = Instant::now();
                    idle = false;
                    let (rows, admitted) = gate.admit(rows)?;
                    let is_in = |row| admitted.as_ref().is_none_or(|admitted| admitted.value(row));
                    let stretches = match &mut connections {
                        Some(connections) => connections.hear(self.source.connections(), &rows, is_in)?,
                        None => Vec::new(),
                    };
                    let chunk = (rows.num_rows() > 0)
                        .then(|| intake.take_stretches(&rows, &stretches))
                        .transpose()?;
                    self.state.add_faults(gate.faults());
                    self.count(&mut intake, rows.num_rows());
                    chunk
                }
                Polled::Nothing => {
                    self.count(&mut intake, 0);
                    let over = self.settings.idle_after.is_some_and(|limit| last_rows.elapsed() >= limit);
                    if let Some(connections) = &mut connections {
                        connections.hear_nothing(self.source.connections(), over);
                    }
                    let goes_on = connections.as_ref().is_some_and(|known| intake.is_behind(known.time_ns()));
                    let falls_idle = over && !idle && !goes_on;
                    idle |= falls_idle;
                    falls_idle.then(|| intake.without_rows(true))
                }
                Polled::Ended => {
                    self.count(&mut intake, 0);
                    return Ok(true);
                }
            };
            let sent = chunk.map_or(Ok(()), |chunk| self.gateway.push(chunk));
            // What closed or fell silent may have let time go on behind the rows.
            let time_ns = connections.as_ref().map_or(i64::MIN, ConnectionTimes::time_ns);
            let sent = match sent.is_ok() && intake.raise(time_ns) {
                true => {
                    // Nobody hears the time of a source that is idle: it is active, and idle again a little later.
                    (last_rows, idle) = (Instant::now(), false);
                    self.gateway.push(intake.without_rows(false))
                }
                false => sent,
            };
            if sent == Err(Stopped) {
                return Ok(false);
            }
        }
    }

    fn count(&mut self, intake: &mut Intake, rows: usize) {
        self.state.add_rows(rows);
        self.state.set_late(intake.late());
        let mut faults = self.source.faults();
        faults.merge(intake.faults());
        self.state.add_faults(faults);
        self.state.set_progress(self.source.progress());
    }
}
