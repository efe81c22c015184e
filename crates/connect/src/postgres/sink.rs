//! The sink, which prepares bytes and commits them.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use tidemill_core::{Cause, CycleOutput, Fault, FaultLog, Guarantee, Sink, SinkOutage};
use tokio::runtime::Builder;
use tokio_postgres::types::Type;

use super::column::{Encoding, encoding};
use super::copy::CopyEncoder;
use super::database::Database;
use super::failure::Failure;
use super::prepared::PreparedRows;
use super::server_operation::ServerOperation;
use super::settings::PostgresSinkSettings;
use super::statements::Statements;
use super::stop::PostgresStop;
use super::writer::Writer;
use crate::pending::{PENDING_BYTES_MAX, batches_of};

/// The shortest interval at which cycles without rows are recorded: receiving them again costs little, a transaction
/// much.
const WITHOUT_ROWS_INTERVAL: Duration = Duration::from_secs(1);
/// Writes rows to a table of a PostgreSQL database, each exactly once.
///
/// A commit is one transaction: the rows by binary `COPY`, and the number of the last cycle in the table
/// `tidemill_commits`, under the sink's name. With a [`key`](PostgresSinkSettings::key), a row replaces the one with
/// the same key. If the connection is lost, even during a `COMMIT`, a new one looks into `tidemill_commits` to see
/// whether the transaction went through, and repeats it if not. Only the run that was started last under a name may
/// write: an earlier one that still runs fails at its next commit.
///
/// A row that the database refuses (a text with a character of code 0, a NULL key, a constraint of the table) goes to
/// the table of [`dead_letters`](PostgresSinkSettings::dead_letters), in the same transaction; the other rows are
/// written.
///
/// ```no_run
/// use tidemill_connect::postgres::{PostgresSink, PostgresSinkSettings};
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
    key_columns: Vec<usize>,
    /// `None` before the server was reached.
    encoder: Option<CopyEncoder>,
    /// Why the server could not be reached when the sink was opened, as long as it has not arrived.
    away: Option<Cause>,
    pending: PreparedRows,
    last_committed: Option<u64>,
    without_rows: Option<u64>,
    written_at: Instant,
    /// After a failure nothing more is written, because the rows of the failed commit are gone.
    failed: Option<Cause>,
    refused: FaultLog,
}

impl PostgresSink {
    /// Connects, creates missing tables, and takes over the sink's name from an earlier run.
    ///
    /// # Errors
    /// [`Cause::user`] if the URL, the user, the database, the table, its columns or its key are invalid;
    /// [`Cause::operation`] if the server cannot be reached.
    pub fn connect(schema: &SchemaRef, settings: PostgresSinkSettings) -> Result<PostgresSink, Cause> {
        let sink = PostgresSink::open(schema, settings)?;
        match sink.away {
            Some(cause) => Err(cause),
            None => Ok(sink),
        }
    }

    /// As [`connect`](PostgresSink::connect), but succeeds if the server is away, or not ready yet: the sink is then
    /// [`away`](Sink::away), and connects when it [arrives](Sink::arrive), within
    /// [`retry_for`](PostgresSinkSettings::retry_for).
    ///
    /// # Errors
    /// [`Cause::user`] as for `connect`.
    pub fn open(schema: &SchemaRef, settings: PostgresSinkSettings) -> Result<PostgresSink, Cause> {
        on_own_thread(|| {
            let mut sink = unconnected(schema, settings)?;
            match open(&mut sink.writer, schema) {
                Ok(encodings) => sink.reached(encodings),
                Err(failure @ Failure::Lost(_)) => {
                    sink.away = Some(failure.into_cause(&sink.writer.database.server));
                }
                Err(failure) => return Err(failure.into_cause(&sink.writer.database.server)),
            }
            Ok(sink)
        })
    }

    /// The server was reached, and writes the columns like this.
    fn reached(&mut self, encodings: Vec<Encoding>) {
        self.encoder = Some(CopyEncoder::new(&self.schema, encodings, self.key_columns.clone()));
        self.last_committed = self.writer.cycle.and_then(|cycle| u64::try_from(cycle).ok());
        self.away = None;
    }

    /// A handle to end its waiting.
    pub fn stop_handle(&self) -> PostgresStop {
        self.writer.stop.clone()
    }

    fn write(&mut self, rows: &PreparedRows, cycle: u64) -> Result<(), Cause> {
        if let Some(cause) = &self.failed {
            return Err(cause.clone());
        }
        let letters =
            self.writer.write(rows, cycle).inspect_err(|cause| self.failed = Some(cause.clone()))?;
        letters.iter().for_each(|letter| self.refused.add(|| letter.describe(&self.writer.settings.sink)));
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
        let (cycle, batches) = batches_of(output, &self.schema)?;
        let encoder =
            self.encoder.as_ref().ok_or_else(|| Cause::bug("rows for a sink that has not arrived"))?;
        let refused = self.pending.push(cycle, batches, encoder);
        if let (Some((row, reason)), None) = (refused, &self.writer.settings.dead_letters) {
            let text = format!("table '{}', {reason}", self.writer.settings.table);
            return Err(Cause::user(text).with_source(row));
        }
        if self.pending.bytes() > PENDING_BYTES_MAX {
            Err(Cause::resource(format!(
                "more than {} MiB of rows are waiting for the commit of cycle {cycle}; use smaller cycles",
                PENDING_BYTES_MAX >> 20
            )))
        } else {
            Ok(())
        }
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        let cycle = *cycles.end();
        let rows = self.pending.take(cycle);
        if rows.is_empty() && self.failed.is_none() && self.written_at.elapsed() < WITHOUT_ROWS_INTERVAL {
            self.without_rows = Some(cycle);
            return Ok(());
        }
        self.write(&rows, cycle)
    }

    fn refused(&self) -> FaultLog {
        self.refused.clone()
    }

    fn outage(&self) -> SinkOutage {
        self.writer.outage.clone()
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }

    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        Ok(self.last_committed)
    }

    fn away(&self) -> Option<Cause> {
        self.away.clone()
    }

    fn arrive(&mut self) -> Result<(), Cause> {
        let schema = SchemaRef::clone(&self.schema);
        let encodings = self.writer.with_retries(ServerOperation::Open, |writer| open(writer, &schema))?;
        self.reached(encodings);
        Ok(())
    }

    fn unrecorded(&self) -> Option<u64> {
        self.without_rows?;
        Some(self.writer.cycle.map_or(0, |cycle| cycle.unsigned_abs() + 1))
    }

    fn record(&mut self) -> Result<(), Cause> {
        match self.without_rows {
            Some(cycle) => self.write(&PreparedRows::default(), cycle),
            None => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), Cause> {
        self.record()
    }
}

/// Connects, and checks the table.
fn open(writer: &mut Writer, schema: &SchemaRef) -> Result<Vec<Encoding>, Failure> {
    let name = writer.settings.table.clone();
    writer.open(|table| encodings(schema, table, &name))
}

/// A sink that is not connected.
fn unconnected(schema: &SchemaRef, settings: PostgresSinkSettings) -> Result<PostgresSink, Cause> {
    let key_columns = key_columns(&settings, schema)?;
    let statements = Statements::new(&settings, schema)?;
    let database = Database::parse(&settings.url)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let writer = Writer {
        runtime: Some(runtime),
        database,
        settings,
        statements,
        session: None,
        run: 0,
        cycle: None,
        stop: PostgresStop::default(),
        outage: SinkOutage::default(),
    };
    Ok(PostgresSink {
        writer,
        schema: schema.clone(),
        key_columns,
        encoder: None,
        away: None,
        pending: PreparedRows::default(),
        last_committed: None,
        without_rows: None,
        written_at: Instant::now(),
        failed: None,
        refused: FaultLog::default(),
    })
}

/// Runs it on a thread of its own: the caller's thread may be one on which no runtime can be run.
fn on_own_thread<T: Send>(opening: impl FnOnce() -> Result<T, Cause> + Send) -> Result<T, Cause> {
    let opened = std::thread::scope(|scope| scope.spawn(opening).join());
    opened.unwrap_or_else(|_| Err(Cause::bug("opening a sink to PostgreSQL panicked")))
}

fn key_columns(settings: &PostgresSinkSettings, schema: &SchemaRef) -> Result<Vec<usize>, Cause> {
    let column = |name: &String| {
        schema.index_of(name).map_err(|_| {
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            Cause::user(format!(
                "there is no column '{name}' for the key; the columns are {}",
                names.join(", ")
            ))
        })
    };
    settings.key.iter().map(column).collect()
}

fn encodings(schema: &SchemaRef, table: &[(String, Type)], table_name: &str) -> Result<Vec<Encoding>, Cause> {
    let encoding_of = |field: &Arc<arrow_schema::Field>| {
        let Some((_, column)) = table.iter().find(|(name, _)| name == field.name()) else {
            let names: Vec<&str> = table.iter().map(|(name, _)| name.as_str()).collect();
            return Err(Cause::user(format!(
                "table '{table_name}' has no column '{}'; it has {}; add the column, or rename yours with AS",
                field.name(),
                names.join(", ")
            )));
        };
        encoding(field.name(), field.data_type(), column).map_err(|cause| match cause.fault {
            Fault::User => cause.map_message(|text| format!("table '{table_name}': {text}")),
            _ => cause,
        })
    };
    schema.fields().iter().map(encoding_of).collect()
}
