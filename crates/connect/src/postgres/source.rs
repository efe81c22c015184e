//! The rows of a table or query, read once or again and again.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hasher};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use arrow_array::{BooleanArray, RecordBatch};
use arrow_row::{RowConverter, SortField};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use tidemill_core::source::{Faults, Polled, Progress, Source};
use tidemill_core::{Cause, Fault, Outage, OutageReport, SourceThreads};
use tracing::{debug, warn};

use super::reading::{PostgresRows, Reading};
use crate::formats::csv::CsvDecoder;
use crate::formats::{BATCH_ROWS, CsvSettings, DecoderSettings, RecordDecoder};

/// The batches that wait for the query.
const WAITING_BATCHES: usize = 4;
/// The pauses between attempts at the first reading.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LONGEST: Duration = Duration::from_secs(30);

/// What is read, and how often.
#[derive(Clone)]
pub struct PostgresSourceSettings {
    /// As for [`PostgresSinkSettings::url`](super::PostgresSinkSettings::url). It is never shown.
    pub url: String,
    /// Which rows.
    pub rows: PostgresRows,
    /// Their columns, by name.
    pub schema: SchemaRef,
    /// How long after one reading the next one begins; `None`: it is read once.
    pub refresh: Option<Duration>,
    /// How long the first reading is tried again while the server is away, or not ready yet.
    pub retry_for: Duration,
}

impl fmt::Debug for PostgresSourceSettings {
    /// Without the URL, which contains the password.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = formatter.debug_struct("PostgresSourceSettings");
        fields.field("rows", &self.rows).field("refresh", &self.refresh).finish_non_exhaustive()
    }
}

/// Reads a table, or what a query answers, from a PostgreSQL database.
///
/// A reading is one statement, so it sees the database at one moment. With [`refresh`](PostgresSourceSettings::refresh)
/// it is repeated: then come the rows that are new or have changed, all of one reading together. Rows that were deleted
/// there are not reported. If the database is away at a later reading, the source says so once, and reads again after the
/// same time. If it is away at the first one, that is logged, and tried again with growing pauses for
/// [`retry_for`](PostgresSourceSettings::retry_for).
///
/// ```no_run
/// use std::time::Duration;
/// use tidemill_connect::postgres::{PostgresRows, PostgresSource, PostgresSourceSettings};
///
/// let url = "postgres://me@127.0.0.1/shop".to_owned();
/// let rows = PostgresRows::Table("customers".to_owned());
/// let schema = rows.columns(&url)?;
/// let retry_for = Duration::from_secs(600);
/// let source = PostgresSource::open(PostgresSourceSettings { url, rows, schema, refresh: None, retry_for })?;
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
pub struct PostgresSource {
    schema: SchemaRef,
    read: Receiver<Read>,
    is_refreshed: bool,
    has_ended: bool,
    rows: u64,
    faults: Faults,
    threads: SourceThreads,
    /// Dropping it ends the thread's pause.
    _stop: Sender<()>,
}

/// What the thread that reads passes on.
enum Read {
    Rows(RecordBatch),
    Faults(Faults),
    Complete,
    Failed(Cause),
}

/// Nobody listens any more.
struct ReceiverGone;

impl PostgresSource {
    /// Checks the settings, and begins to read.
    ///
    /// # Errors
    /// [`Cause::user`] if the URL or a column's type is not supported. [`Source::poll`] notices everything else.
    pub fn open(settings: PostgresSourceSettings) -> Result<PostgresSource, Cause> {
        let reading = Reading::new(&settings.url, &settings.rows, &settings.schema)?;
        let decoder = decoder(&settings.schema)?;
        let (sender, read) = sync_channel(WAITING_BATCHES);
        let (stop, stopped) = channel();
        let (schema, is_refreshed) = (SchemaRef::clone(&settings.schema), settings.refresh.is_some());
        let thread = Refreshing {
            reading,
            decoder,
            schema: settings.schema,
            refresh: settings.refresh,
            retry_for: settings.retry_for,
            has_sent: false,
            sender,
        };
        // Not joined at the end: it may wait for a server that does not answer, and ends by itself after that.
        let threads = SourceThreads::default();
        threads.spawn("postgres source", move || {
            // Nobody is left to report to.
            let _ = thread.run(&stopped);
        })?;
        let faults = Faults::default();
        Ok(PostgresSource {
            schema,
            read,
            is_refreshed,
            has_ended: false,
            rows: 0,
            faults,
            threads,
            _stop: stop,
        })
    }
}

impl Source for PostgresSource {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        let until = Instant::now() + wait;
        while !self.has_ended {
            match self.read.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(Read::Rows(rows)) => {
                    self.rows += rows.num_rows() as u64;
                    return Ok(Polled::Rows(rows));
                }
                Ok(Read::Faults(faults)) => self.faults.merge(faults),
                Ok(Read::Complete) => self.has_ended = !self.is_refreshed,
                Ok(Read::Failed(cause)) => return Err(cause),
                Err(RecvTimeoutError::Timeout) => return Ok(Polled::Nothing),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Cause::bug("the thread that reads has ended"));
                }
            }
        }
        Ok(Polled::Ended)
    }

    fn threads(&self) -> Option<SourceThreads> {
        Some(self.threads.clone())
    }

    fn faults(&mut self) -> Faults {
        std::mem::take(&mut self.faults)
    }

    fn progress(&self) -> Progress {
        Progress { done: self.rows, total: None }
    }

    fn is_finite(&self) -> bool {
        !self.is_refreshed
    }
}

/// `COPY` writes CSV in which each value is quoted, so that NULL differs from a text.
fn decoder(schema: &SchemaRef) -> Result<CsvDecoder, Cause> {
    let csv = CsvSettings {
        header: Some(false),
        delimiter: Some(b','),
        null: super::reading::NULL.to_owned(),
        names_delimiter: false,
        ..CsvSettings::default()
    };
    CsvDecoder::new(DecoderSettings { schema: SchemaRef::clone(schema), csv, batch_rows: BATCH_ROWS })
}

/// The thread that reads.
struct Refreshing {
    reading: Reading,
    decoder: CsvDecoder,
    schema: SchemaRef,
    refresh: Option<Duration>,
    retry_for: Duration,
    /// Whether rows were passed on. They cannot be taken back.
    has_sent: bool,
    sender: SyncSender<Read>,
}

/// The wait for a server that is away at the first reading.
struct Arrival {
    since: Instant,
    pause: Duration,
    outage: Outage,
}

impl Arrival {
    fn new() -> Arrival {
        Arrival { since: Instant::now(), pause: RETRY_FIRST, outage: Outage::default() }
    }

    /// How long to wait before the next attempt; `None`: it is not tried again.
    fn pause(&mut self, of: &Refreshing, cause: &Cause) -> Option<Duration> {
        let pause = self.pause;
        let lasts_long = self.since.elapsed() + pause >= of.retry_for;
        if cause.fault != Fault::Operation || of.has_sent || lasts_long {
            return None;
        }
        if let Some(OutageReport { attempts, lasted }) = self.outage.failed(Instant::now()) {
            let (server, retry_for) = (of.reading.server(), of.retry_for);
            warn!(server, attempts, ?lasted, %cause, ?retry_for, "PostgreSQL is away; its rows are read later");
        }
        self.pause = (pause * 2).min(RETRY_LONGEST);
        Some(pause)
    }

    /// The first reading is complete.
    fn over(&mut self, server: &str) {
        if let Some(OutageReport { attempts, lasted }) = self.outage.over(Instant::now()) {
            warn!(server, attempts, after = ?lasted, "PostgreSQL is there; its rows are read");
        }
    }
}

impl Refreshing {
    fn run(mut self, stopped: &Receiver<()>) -> Result<(), ReceiverGone> {
        let mut known: Option<HashSet<u128>> = None;
        let mut is_away = false;
        let mut arrival = Arrival::new();
        loop {
            match self.read(known.as_ref()) {
                Ok(Err(ReceiverGone)) => return Err(ReceiverGone),
                Ok(Ok(rows)) => {
                    if std::mem::take(&mut is_away) {
                        self.notice(format!("{} is reachable again", self.reading.server()))?;
                    }
                    arrival.over(self.reading.server());
                    known = Some(rows);
                    self.send(Read::Complete)?;
                }
                // Without any rows, nothing can be looked up.
                Err(cause) if known.is_none() => match arrival.pause(&self, &cause) {
                    Some(pause) => {
                        // What was found wrong will be found again.
                        self.decoder.faults();
                        wait(stopped, pause)?;
                        continue;
                    }
                    None => return self.send(Read::Failed(cause)),
                },
                Err(cause) => {
                    // The first time, users see it among the notices, which are logged, too.
                    if std::mem::replace(&mut is_away, true) {
                        let (server, retry_in) = (self.reading.server(), self.refresh);
                        warn!(server, %cause, ?retry_in, "a table was not read again");
                    } else {
                        self.notice(format!("{cause}; the rows that were read before stay"))?;
                    }
                }
            }
            let Some(refresh) = self.refresh else { return Ok(()) };
            wait(stopped, refresh)?;
        }
    }

    fn send(&self, read: Read) -> Result<(), ReceiverGone> {
        self.sender.send(read).map_err(|_| ReceiverGone)
    }

    fn notice(&self, text: String) -> Result<(), ReceiverGone> {
        let mut faults = Faults::default();
        faults.notice(text);
        self.send(Read::Faults(faults))
    }

    /// Reads everything; passes on the rows that are not known. Returns what is known then.
    fn read(&mut self, known: Option<&HashSet<u128>>) -> Result<Result<HashSet<u128>, ReceiverGone>, Cause> {
        let mut all = HashSet::new();
        let mut changed = Vec::new();
        let Refreshing { reading, decoder, schema, refresh, has_sent, sender, .. } = self;
        let mut left = false;
        decoder.begin(reading.server());
        reading.read(|bytes: Option<&[u8]>| {
            let mut batches = std::collections::VecDeque::new();
            match bytes {
                Some(bytes) => decoder.decode(bytes, &mut batches)?,
                None => decoder.finish(&mut batches)?,
            }
            for rows in batches {
                let rows = match refresh {
                    None => rows,
                    Some(_) => unknown(&rows, known, &mut all)?,
                };
                // The first time, there is nothing that would have to be replaced at once.
                match known {
                    None if rows.num_rows() > 0 => {
                        *has_sent = true;
                        left |= sender.send(Read::Rows(rows)).is_err();
                    }
                    None => {}
                    Some(_) => changed.push(rows),
                }
            }
            Ok(!left)
        })?;
        let faults = decoder.faults();
        left |= faults.count > 0 && sender.send(Read::Faults(faults)).is_err();
        if left {
            return Ok(Err(ReceiverGone));
        }
        let changed = concat_batches(schema, &changed).map_err(bug)?;
        debug!(server = reading.server(), rows = all.len(), changed = changed.num_rows(), "a table was read");
        if changed.num_rows() > 0 && sender.send(Read::Rows(changed)).is_err() {
            return Ok(Err(ReceiverGone));
        }
        Ok(Ok(all))
    }
}

/// Waits, unless the source is dropped.
fn wait(stopped: &Receiver<()>, pause: Duration) -> Result<(), ReceiverGone> {
    match stopped.recv_timeout(pause) {
        Err(RecvTimeoutError::Timeout) => Ok(()),
        _ => Err(ReceiverGone),
    }
}

/// The rows that are not known; all are added to `all`.
fn unknown(
    rows: &RecordBatch,
    known: Option<&HashSet<u128>>,
    all: &mut HashSet<u128>,
) -> Result<RecordBatch, Cause> {
    let fields =
        rows.schema().fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
    let converter = RowConverter::new(fields).map_err(bug)?;
    let bytes = converter.convert_columns(rows.columns()).map_err(bug)?;
    let is_unknown: BooleanArray = (0..rows.num_rows())
        .map(|row| {
            let hash = hash(bytes.row(row).as_ref());
            all.insert(hash);
            Some(known.is_none_or(|known| !known.contains(&hash)))
        })
        .collect();
    filter_record_batch(rows, &is_unknown).map_err(bug)
}

/// Two hashes of 64 bits: that two rows have the same is not to be expected.
fn hash(bytes: &[u8]) -> u128 {
    let hashers = BuildHasherDefault::<DefaultHasher>::default();
    let (mut first, mut second) = (hashers.build_hasher(), hashers.build_hasher());
    first.write(bytes);
    second.write_u8(1);
    second.write(bytes);
    (u128::from(first.finish()) << 64) | u128::from(second.finish())
}

fn bug(error: arrow_schema::ArrowError) -> Cause {
    Cause::bug(error.to_string()).with_source(error)
}
