//! The sink: prepares bytes, commits transactions, and repeats those that were lost.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use bytes::Bytes;
use tidemill_core::{Cause, CycleOutput, Guarantee, Sink};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::config::Host;
use tokio_postgres::types::Type;
use tokio_postgres::{Config, Error};

use super::column::encoding;
use super::copy::{CopyEncoder, END, HEAD};
use super::failure::{Failure, open_failure};
use super::session::{Noted, Session};
use super::settings::PostgresSinkSettings;
use super::statements::Statements;
use crate::sinks::pending::{PENDING_BYTES_MAX, rows_of};

/// How often a call that waits looks whether it is to stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LONGEST: Duration = Duration::from_secs(5);
/// Cycles without rows are noted so often at most: to see them again costs little, a transaction much.
const WITHOUT_ROWS_INTERVAL: Duration = Duration::from_secs(1);
/// What is sent in one message.
const MESSAGE_BYTES: usize = 256 << 10;

/// Writes rows to a table of a PostgreSQL database, each exactly once.
///
/// A commit is one transaction: the rows by binary `COPY`, and the number of the last cycle in the table
/// `tidemill_commits`, under the sink's name. With a [`key`](PostgresSinkSettings::key) a row replaces the one with
/// the same key. If the connection is lost, also in the middle of a `COMMIT`, a new one asks `tidemill_commits` whether
/// the transaction went through, and repeats it if not. The run that was started last under a name is the only one that
/// may write: an earlier one that is still there fails at its next commit.
///
/// ```no_run
/// use tidemill_connect::sinks::postgres::{PostgresSink, PostgresSinkSettings};
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
///
/// let schema = Schema::new(vec![Field::new("vid", DataType::Int64, false)]).into();
/// let settings = PostgresSinkSettings::new("postgres://me@127.0.0.1/traffic", "tolls", "tolls_to_postgres");
/// let sink = PostgresSink::connect(&schema, settings)?;
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
pub struct PostgresSink {
    writer: Writer,
    schema: SchemaRef,
    encoder: CopyEncoder,
    /// For each cycle its rows, encoded.
    pending: VecDeque<(u64, Vec<u8>)>,
    pending_bytes: usize,
    row_number: u64,
    last_committed: Option<u64>,
    without_rows: Option<u64>,
    written_at: Instant,
    /// After a failure nothing more is written: the rows of what failed are gone.
    failed: Option<Cause>,
}

/// Ends a sink's waiting for a server that does not answer, from another thread.
#[derive(Clone, Debug, Default)]
pub struct PostgresStop(Arc<AtomicBool>);

impl PostgresStop {
    /// The commit that waits, and each later one, fails.
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl PostgresSink {
    /// Connects, creates the tables that are not there, and takes over the sink's name from an earlier run.
    ///
    /// # Errors
    /// [`Cause::User`] if the URL, the user, the database, the table, its columns or its key are not as they must be;
    /// [`Cause::Operation`] if the server cannot be reached.
    pub fn connect(schema: &SchemaRef, settings: PostgresSinkSettings) -> Result<PostgresSink, Cause> {
        // The caller's thread may be one on which no runtime can be run.
        let opened = std::thread::scope(|scope| scope.spawn(|| open(schema, settings)).join());
        opened.unwrap_or_else(|_| Err(Cause::Bug("opening a sink to PostgreSQL panicked".to_owned())))
    }

    /// A handle to end its waiting.
    pub fn stop_handle(&self) -> PostgresStop {
        self.writer.stop.clone()
    }

    /// The bytes for COPY of all cycles up to this one; none if they have no rows.
    fn take(&mut self, last_cycle: u64) -> Vec<Bytes> {
        let count = self.pending.partition_point(|(cycle, _)| *cycle <= last_cycle);
        let rows: Vec<Bytes> = self.pending.drain(..count).map(|(_, rows)| Bytes::from(rows)).collect();
        self.pending_bytes -= rows.iter().map(Bytes::len).sum::<usize>();
        if rows.iter().all(Bytes::is_empty) {
            return Vec::new();
        }
        let mut messages = vec![Bytes::from_static(HEAD)];
        for rows in rows {
            let starts = (0..rows.len()).step_by(MESSAGE_BYTES);
            messages.extend(starts.map(|start| rows.slice(start..rows.len().min(start + MESSAGE_BYTES))));
        }
        messages.push(Bytes::from_static(END));
        messages
    }

    fn write(&mut self, rows: &[Bytes], cycle: u64) -> Result<(), Cause> {
        if let Some(cause) = &self.failed {
            return Err(cause.clone());
        }
        self.writer.write(rows, cycle).inspect_err(|cause| self.failed = Some(cause.clone()))?;
        self.without_rows = None;
        self.written_at = Instant::now();
        Ok(())
    }
}

impl Sink for PostgresSink {
    fn stopper(&self) -> Option<Box<dyn Fn() + Send + Sync>> {
        let stop = self.stop_handle();
        Some(Box::new(move || stop.stop()))
    }

    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let (cycle, batches) = rows_of(output, &self.schema)?;
        let mut bytes = Vec::new();
        for rows in batches {
            let encoded = self.encoder.rows(&rows, self.row_number, &mut bytes);
            encoded.map_err(|cause| match cause {
                Cause::User(text) => Cause::User(format!("table '{}', {text}", self.writer.settings.table)),
                other => other,
            })?;
            self.row_number += rows.num_rows() as u64;
        }
        self.pending_bytes += bytes.len();
        self.pending.push_back((cycle, bytes));
        match self.pending_bytes > PENDING_BYTES_MAX {
            false => Ok(()),
            true => Err(Cause::Resource(format!(
                "more than {} MiB of rows wait for a commit of cycle {cycle}; make cycles smaller",
                PENDING_BYTES_MAX >> 20
            ))),
        }
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        let cycle = *cycles.end();
        let rows = self.take(cycle);
        if rows.is_empty() && self.failed.is_none() && self.written_at.elapsed() < WITHOUT_ROWS_INTERVAL {
            self.without_rows = Some(cycle);
            return Ok(());
        }
        self.write(&rows, cycle)
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }

    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        Ok(self.last_committed)
    }

    fn unrecorded(&self) -> Option<u64> {
        self.without_rows?;
        Some(self.writer.cycle.map_or(0, |cycle| cycle.unsigned_abs() + 1))
    }

    fn record(&mut self) -> Result<(), Cause> {
        match self.without_rows {
            Some(cycle) => self.write(&[], cycle),
            None => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), Cause> {
        self.record()
    }
}

/// Everything on the server's side.
struct Writer {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    config: Config,
    server: String,
    settings: PostgresSinkSettings,
    statements: Statements,
    session: Option<Session>,
    run: i64,
    cycle: Option<i64>,
    stop: PostgresStop,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.session = None;
        if let Some(runtime) = self.runtime.take() {
            // A name that is being looked up is not waited for.
            runtime.shutdown_background();
        }
    }
}

impl Writer {
    /// Commits, however often that takes.
    fn write(&mut self, rows: &[Bytes], cycle: u64) -> Result<(), Cause> {
        let cycle =
            i64::try_from(cycle).map_err(|_| Cause::Bug(format!("cycle {cycle} is not to be reached")))?;
        let (since, mut wait) = (Instant::now(), RETRY_FIRST);
        loop {
            let reason = match self.attempt(rows, cycle) {
                Ok(()) => {
                    self.cycle = Some(cycle);
                    return Ok(());
                }
                Err(Failure::Final(cause)) => return Err(cause),
                Err(Failure::Lost(reason)) => reason,
            };
            self.session = None;
            if since.elapsed() + wait >= self.settings.retry_for {
                return Err(Cause::Operation(format!(
                    "PostgreSQL at {}: {reason}; tried for {} s (retry_for)",
                    self.server,
                    since.elapsed().as_secs()
                )));
            }
            self.sleep(wait).map_err(|failure| failure.into_cause(&self.server))?;
            wait = (wait * 2).min(RETRY_LONGEST);
        }
    }

    fn sleep(&self, wait: Duration) -> Result<(), Failure> {
        self.wait_for(self.settings.answer_wait + wait, async {
            tokio::time::sleep(wait).await;
            Ok(())
        })
    }

    fn attempt(&mut self, rows: &[Bytes], cycle: i64) -> Result<(), Failure> {
        if self.session.is_none() {
            let (session, found) = self.reconnect()?;
            self.session = Some(session);
            if found == Some(Noted { run: self.run, cycle: Some(cycle) }) {
                // The commit had gone through, only the answer was lost.
                return Ok(());
            }
            if found != Some(Noted { run: self.run, cycle: self.cycle }) {
                return Err(Failure::Final(self.fenced()));
            }
        }
        let Some(session) = &self.session else { return Err(Failure::Lost("not connected".to_owned())) };
        self.transaction(session, rows, cycle)
    }

    /// A new connection, and what the database says of this sink.
    fn reconnect(&self) -> Result<(Session, Option<Noted>), Failure> {
        self.wait_for(self.settings.answer_wait, async {
            let mut session = Session::connect(&self.config).await?;
            // Waits for the transaction of the connection that was lost, if it is still there.
            let found = session.noted(&self.statements.look()).await?;
            session.prepare(&self.statements).await?;
            Ok((session, found))
        })
    }

    fn transaction(&self, session: &Session, rows: &[Bytes], cycle: i64) -> Result<(), Failure> {
        let begin = self.statements.begin(self.run, self.cycle, cycle);
        if !self.wait_for(self.settings.answer_wait, session.begin(&begin))? {
            return Err(Failure::Final(self.fenced()));
        }
        if !rows.is_empty() {
            self.copy(session, rows)?;
            if let Some(upsert) = self.statements.upsert() {
                self.wait_for(self.settings.answer_wait, session.execute(&upsert))?;
            }
        }
        self.wait_for(self.settings.answer_wait, session.execute("COMMIT"))
    }

    /// Sends the rows; the time for an answer begins anew with each message.
    fn copy(&self, session: &Session, rows: &[Bytes]) -> Result<(), Failure> {
        let steps = AtomicU64::new(0);
        let copy = session.copy(rows, || {
            steps.fetch_add(1, Ordering::Relaxed);
        });
        self.wait_while(self.settings.answer_wait, &steps, copy)
    }

    fn fenced(&self) -> Cause {
        Cause::User(format!(
            "another run writes to this sink: '{}' in tidemill_commits of PostgreSQL at {} was taken over or changed; \
             end one of them, or give each sink a name of its own",
            self.settings.sink, self.server
        ))
    }

    fn wait_for<T>(
        &self,
        limit: Duration,
        step: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.wait_while(limit, &AtomicU64::new(0), step)
    }

    /// Waits for a step, until it has made no progress for `limit`, or the sink is told to stop.
    fn wait_while<T>(
        &self,
        limit: Duration,
        progress: &AtomicU64,
        step: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let Some(runtime) = &self.runtime else { return Err(Failure::Lost("closed".to_owned())) };
        runtime.block_on(async {
            let mut step = pin!(step);
            let (mut since, mut seen) = (Instant::now(), 0);
            loop {
                if let Ok(done) = tokio::time::timeout(LOOK_INTERVAL, &mut step).await {
                    return done;
                }
                let now = progress.load(Ordering::Relaxed);
                if now != seen {
                    (since, seen) = (Instant::now(), now);
                }
                if self.stop.is_stopped() {
                    let text = format!("PostgreSQL at {}: stopped while it had not answered", self.server);
                    return Err(Failure::Final(Cause::Operation(text)));
                }
                if since.elapsed() >= limit {
                    return Err(Failure::Lost(format!("no answer for {} s", limit.as_secs_f64())));
                }
            }
        })
    }

    /// Waits for one of the steps that open the sink.
    fn open_step<T>(&self, step: impl Future<Output = Result<T, Error>>) -> Result<T, Cause> {
        let step = async { step.await.map_err(|error| Failure::Final(open_failure(&error, &self.server))) };
        self.wait_for(self.settings.answer_wait, step).map_err(|failure| failure.into_cause(&self.server))
    }
}

fn open(schema: &SchemaRef, settings: PostgresSinkSettings) -> Result<PostgresSink, Cause> {
    let key_columns = key_columns(&settings, schema)?;
    let statements = Statements::new(&settings, schema)?;
    let (config, server) = config_of(&settings.url)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut writer = Writer {
        runtime: Some(runtime),
        config,
        server,
        settings,
        statements,
        session: None,
        run: 0,
        cycle: None,
        stop: PostgresStop::default(),
    };
    let mut session = writer.open_step(Session::connect(&writer.config))?;
    let table = writer.open_step(session.tables(&writer.statements, writer.settings.create))?;
    let encodings = encodings(schema, &table, &writer.settings.table)?;
    writer.open_step(session.prepare(&writer.statements))?;
    let take_over = writer.statements.take_over(writer.settings.resume);
    let Noted { run, cycle } = writer.open_step(session.noted(&take_over))?.unwrap_or_default();
    (writer.session, writer.run, writer.cycle) = (Some(session), run, cycle);
    let last_committed = cycle.and_then(|cycle| u64::try_from(cycle).ok());
    Ok(PostgresSink {
        writer,
        schema: schema.clone(),
        encoder: CopyEncoder::new(schema, encodings, key_columns),
        pending: VecDeque::new(),
        pending_bytes: 0,
        row_number: 0,
        last_committed,
        without_rows: None,
        written_at: Instant::now(),
        failed: None,
    })
}

fn key_columns(settings: &PostgresSinkSettings, schema: &SchemaRef) -> Result<Vec<usize>, Cause> {
    let column = |name: &String| {
        schema.index_of(name).map_err(|_| {
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            Cause::User(format!("there is no column '{name}' for the key; there are {}", names.join(", ")))
        })
    };
    settings.key.iter().map(column).collect()
}

fn encodings(
    schema: &SchemaRef,
    table: &[(String, Type)],
    table_name: &str,
) -> Result<Vec<super::column::Encoding>, Cause> {
    let encoding_of = |field: &Arc<arrow_schema::Field>| {
        let Some((_, column)) = table.iter().find(|(name, _)| name == field.name()) else {
            let names: Vec<&str> = table.iter().map(|(name, _)| name.as_str()).collect();
            return Err(Cause::User(format!(
                "table '{table_name}' has no column '{}'; it has {}; add it, or name the column as there (AS)",
                field.name(),
                names.join(", ")
            )));
        };
        encoding(field.name(), field.data_type(), column).map_err(|cause| match cause {
            Cause::User(text) => Cause::User(format!("table '{table_name}': {text}")),
            other => other,
        })
    };
    schema.fields().iter().map(encoding_of).collect()
}

/// Reads the URL; answers also where the server is, for messages. What is wrong with it is not shown, for it may be a
/// part of the password.
fn config_of(url: &str) -> Result<(Config, String), Cause> {
    let mut config: Config = url.parse().map_err(|_| {
        Cause::User(
            "the URL of the database cannot be read; write postgres://user:password@host:port/database, with %-codes \
             for special characters"
                .to_owned(),
        )
    })?;
    let ports = config.get_ports();
    let hosts = config.get_hosts().iter().enumerate().map(|(index, host)| {
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            Host::Unix(path) => format!("{}:{port}", path.display()),
        }
    });
    let server = hosts.collect::<Vec<String>>().join(",");
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(10));
    }
    if config.get_application_name().is_none() {
        config.application_name("tidemill");
    }
    config.keepalives_idle(Duration::from_secs(15)).keepalives_interval(Duration::from_secs(5));
    config.keepalives_retries(4);
    Ok((config, server))
}
