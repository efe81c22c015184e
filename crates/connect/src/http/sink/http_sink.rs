//! The sink: posts each cycle's rows, and retries.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use tidemill_core::{Batch, Cause, CycleOutput, FaultLog, Sink, SinkOutage};
use tokio::runtime::{Builder, Runtime};
use tracing::{info, warn};

use super::body::{Body, bodies};
use super::client::{Client, Failure};
use super::settings::HttpSinkSettings;
use super::target::Target;
use crate::dead_letter::{DeadLetter, DeadLetterFile};
use crate::formats::encode::{must_differ, unrepresentable};
use crate::pending::{PENDING_BYTES_MAX, batches_of};
use crate::request_keys::RequestKeys;

/// How often a waiting call checks whether it should stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LONGEST: Duration = Duration::from_secs(30);
/// The longest pause that a receiver may ask for.
const RETRY_ASKED_MAX: Duration = Duration::from_secs(300);

/// Posts rows as JSON, one or more requests for each cycle that has any.
///
/// A request counts once it is answered with 2xx. It is retried with growing pauses while the receiver cannot be reached,
/// does not answer in time, or answers 408, 429 or 5xx. If it answers another 4xx, its rows are refused: they become dead
/// letters, or end the query. Answers that no row is to blame for (3xx, 401, 403, 404, 405, 407, 410) end it in any case.
///
/// Each request has an `Idempotency-Key`. When a durable query continues after a crash, it sends the requests of its last
/// cycles again, with the same keys: a receiver that honours them has each row exactly once, another one at least once.
/// A query that is not durable has new keys at each start.
///
/// ```no_run
/// use tidemill_connect::http::{HttpSink, HttpSinkSettings};
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
///
/// let schema = Schema::new(vec![Field::new("machine", DataType::Utf8, true)]).into();
/// let mut settings = HttpSinkSettings::new("https://alerts.example.org/hook", "alerts");
/// settings.headers.push(("Authorization".to_owned(), "Bearer ...".to_owned()));
/// let sink = HttpSink::new(&schema, settings)?;
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
pub struct HttpSink {
    settings: HttpSinkSettings,
    schema: SchemaRef,
    pending: VecDeque<(u64, Vec<Batch>)>,
    pending_bytes: usize,
    client: Client,
    /// `None` only while it is being dropped.
    runtime: Option<Runtime>,
    keys: RequestKeys,
    letters: Option<DeadLetterFile>,
    refused: FaultLog,
    outage: SinkOutage,
    is_stopped: Arc<AtomicBool>,
}

impl HttpSink {
    /// Checks the settings. The receiver is not asked before there are rows for it.
    ///
    /// # Errors
    /// [`Cause::user`] if the URL, a header or a file of certificates cannot be used, or two columns have the same name.
    pub fn new(schema: &SchemaRef, settings: HttpSinkSettings) -> Result<HttpSink, Cause> {
        must_differ(schema, "JSON")?;
        let target = Target::new(&settings)?;
        if target.endpoint.is_https {
            // A file that cannot be used is a mistake, not a failing connection.
            settings.tls.load()?;
        }
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        Ok(HttpSink {
            client: Client::new(target, settings.tls.clone()),
            schema: SchemaRef::clone(schema),
            pending: VecDeque::new(),
            pending_bytes: 0,
            runtime: Some(runtime),
            keys: RequestKeys::new(&settings.sink, settings.identity),
            letters: None,
            refused: FaultLog::default(),
            outage: SinkOutage::default(),
            is_stopped: Arc::default(),
            settings,
        })
    }

    /// Keeps the rows that the receiver refuses in this file.
    #[must_use]
    pub fn with_dead_letters(mut self, letters: DeadLetterFile) -> HttpSink {
        self.letters = Some(letters);
        self
    }

    fn send_cycle(&mut self, cycle: u64, batches: &[Batch]) -> Result<(), Cause> {
        let Some(CycleRows { rows, positions, mut letters }) = sifted(cycle, batches, &self.schema)? else {
            return Ok(());
        };
        let bodies = bodies(&rows, self.settings.body, self.settings.rows_max)?;
        let mut kept = self.keep(&mut letters);
        for (part, body) in bodies.into_iter().enumerate() {
            kept?;
            let key = self.keys.key(cycle, part, &body.bytes);
            kept = match self.send(&key, &body)? {
                None => Ok(()),
                Some(reason) => {
                    let letter = |row| DeadLetter::new(cycle, positions[row], &rows, row, &reason);
                    self.keep(&mut body.rows.map(letter).collect())
                }
            };
        }
        kept
    }

    /// Keeps refused rows, or fails with the first one.
    fn keep(&mut self, letters: &mut Vec<DeadLetter>) -> Result<(), Cause> {
        let letters = std::mem::take(letters);
        match (&mut self.letters, letters.first()) {
            (_, None) => Ok(()),
            (Some(file), _) => file.keep(&letters, &self.refused),
            (None, Some(first)) => Err(first.unkept()),
        }
    }

    /// Sends a request, with as many attempts as necessary; returns why it is refused, if it is.
    fn send(&mut self, key: &str, body: &Body) -> Result<Option<String>, Cause> {
        let (since, mut pause, mut attempts) = (Instant::now(), RETRY_FIRST, 0);
        loop {
            attempts += 1;
            let (reason, asked) = match self.attempt(key, body) {
                Ok(()) => {
                    self.outage.over();
                    if attempts > 1 {
                        info!(
                            sink = self.settings.sink,
                            receiver = self.client.target.place,
                            attempts,
                            "the receiver accepts rows again"
                        );
                    }
                    return Ok(None);
                }
                Err(Failure::Refused(reason)) => return Ok(Some(reason)),
                Err(Failure::Final(cause)) => return Err(cause),
                Err(Failure::Lost { reason, wait }) => (reason, wait),
            };
            let wait = asked.map_or(pause, |asked| asked.clamp(pause, RETRY_ASKED_MAX));
            self.outage.failed(&format!("{}: {reason}", self.client.target.place));
            let (sink, receiver) = (&self.settings.sink, &self.client.target.place);
            warn!(sink, receiver, attempts, reason, retry_in = ?wait, "rows were not accepted");
            if since.elapsed() + wait >= self.settings.retry_for {
                return Err(Cause::operation(format!(
                    "{}: {reason}; gave up after {attempts} attempts in {} s (retry_for)",
                    self.client.target.place,
                    since.elapsed().as_secs()
                )));
            }
            self.wait(wait)?;
            pause = (pause * 2).min(RETRY_LONGEST);
        }
    }

    fn attempt(&mut self, key: &str, body: &Body) -> Result<(), Failure> {
        let (timeout, content_type) = (self.settings.timeout, self.settings.body.content_type());
        let (client, is_stopped) = (&mut self.client, &self.is_stopped);
        let Some(runtime) = &self.runtime else {
            return Err(Failure::Final(Cause::bug("a sink without a runtime")));
        };
        let outcome = runtime.block_on(async {
            tokio::select! {
                sent = client.post(Some(key), content_type, body.bytes.clone()) => Some(sent),
                () = tokio::time::sleep(timeout) => None,
                () = until(is_stopped) => Some(Err(Failure::Final(stopped()))),
            }
        });
        let outcome = outcome.unwrap_or_else(|| {
            let reason = format!("no answer within {timeout:?} (timeout)");
            Err(Failure::Lost { reason, wait: None })
        });
        if outcome.is_err() {
            // It may be in the middle of the request.
            self.client.disconnect();
        }
        outcome
    }

    fn wait(&self, pause: Duration) -> Result<(), Cause> {
        let until = Instant::now() + pause;
        while Instant::now() < until {
            if self.is_stopped.load(Ordering::Acquire) {
                return Err(stopped());
            }
            std::thread::sleep(LOOK_INTERVAL.min(until.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }
}

async fn until(is_stopped: &AtomicBool) {
    while !is_stopped.load(Ordering::Acquire) {
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

fn stopped() -> Cause {
    Cause::operation("the query was stopped while rows were being posted")
}

/// The rows of a cycle that can be posted, with their positions, and the others.
struct CycleRows {
    rows: RecordBatch,
    positions: Vec<u32>,
    letters: Vec<DeadLetter>,
}

/// `None`: there are none.
fn sifted(cycle: u64, batches: &[Batch], schema: &SchemaRef) -> Result<Option<CycleRows>, Cause> {
    let bug = |error: arrow_schema::ArrowError| Cause::bug(error.to_string()).with_source(error);
    let rows = concat_batches(schema, batches.iter().map(|batch| &batch.rows)).map_err(bug)?;
    let mut positions: Vec<u32> = batches.iter().flat_map(|batch| batch.positions.iter().copied()).collect();
    if positions.is_empty() {
        return Ok(None);
    }
    let wrong = unrepresentable(&rows);
    let mut is_good = vec![true; positions.len()];
    let mut letters = Vec::new();
    for found in &wrong {
        is_good[found.row] = false;
        letters.push(DeadLetter::new(cycle, positions[found.row], &rows, found.row, &found.reason));
    }
    if letters.is_empty() {
        return Ok(Some(CycleRows { rows, positions, letters }));
    }
    let rows = filter_record_batch(&rows, &BooleanArray::from(is_good.clone())).map_err(bug)?;
    let mut is_good = is_good.into_iter();
    positions.retain(|_| is_good.next().unwrap_or(true));
    Ok(Some(CycleRows { rows, positions, letters }))
}

impl Sink for HttpSink {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let (cycle, batches) = batches_of(output, &self.schema)?;
        self.pending_bytes += batches.iter().map(|batch| batch.rows.get_array_memory_size()).sum::<usize>();
        self.pending.push_back((cycle, batches));
        if self.pending_bytes > PENDING_BYTES_MAX {
            Err(Cause::resource(format!(
                "more than {} MiB of rows are waiting for the commit of cycle {cycle}; use smaller cycles",
                PENDING_BYTES_MAX >> 20
            )))
        } else {
            Ok(())
        }
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        while let Some((cycle, batches)) = self.pending.pop_front_if(|(cycle, _)| *cycle <= *cycles.end()) {
            self.pending_bytes -=
                batches.iter().map(|batch| batch.rows.get_array_memory_size()).sum::<usize>();
            self.send_cycle(cycle, &batches)?;
        }
        Ok(())
    }

    fn outage(&self) -> SinkOutage {
        self.outage.clone()
    }

    fn refused(&self) -> FaultLog {
        self.refused.clone()
    }

    fn stopper(&self) -> Option<Box<dyn Fn() + Send + Sync>> {
        let is_stopped = Arc::clone(&self.is_stopped);
        Some(Box::new(move || is_stopped.store(true, Ordering::Release)))
    }
}

impl Drop for HttpSink {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // There is no wait for a name that is being looked up.
            runtime.shutdown_background();
        }
    }
}
