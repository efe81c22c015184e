//! The sink: starts the program, and starts it again if it fails.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use tidemill_core::{Cause, CycleOutput, Sink, SinkOutage};
use tracing::{info, warn};

use super::process::{Ended, run};
use crate::formats::encode::{TextEncoder, TextFormat};
use crate::pending::{PENDING_BYTES_MAX, rows_of};
use crate::request_keys::RequestKeys;

const LOOK_INTERVAL: Duration = Duration::from_millis(50);
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LONGEST: Duration = Duration::from_secs(30);

/// The program, and how it is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSinkSettings {
    /// A command of the shell. It has the environment and the rights of this process.
    pub command: String,
    /// The sink's name.
    pub sink: String,
    /// JSON lines, or CSV with its header.
    pub format: TextFormat,
    /// How long a run may take before it is killed, and counts as failed.
    pub timeout: Duration,
    /// How long a run that fails is repeated before the query fails.
    pub retry_for: Duration,
    /// What tells a durable query from all others. With it, a cycle that comes again after a crash has the same key again.
    pub identity: Option<u64>,
}

impl CommandSinkSettings {
    /// The defaults: JSON lines; a run may take a minute, and is repeated for ten.
    pub fn new(command: impl Into<String>, sink: impl Into<String>) -> CommandSinkSettings {
        CommandSinkSettings {
            command: command.into(),
            sink: sink.into(),
            format: TextFormat::Ndjson,
            timeout: Duration::from_secs(60),
            retry_for: Duration::from_secs(600),
            identity: None,
        }
    }
}

/// Starts a program for each cycle that has rows. It reads them from its standard input to the end. Once it ends with
/// status 0, they are committed; otherwise it is started again, with growing pauses.
///
/// It finds the sink's name in the variable `TIDEMILL_SINK`, the number of the cycle in `TIDEMILL_CYCLE`, and in
/// `TIDEMILL_KEY` a text by which it can tell rows that come again after a failure or a crash. What it writes to standard
/// output is dropped; the end of what it writes to standard error is shown if it fails.
///
/// ```
/// use tidemill_connect::command::{CommandSink, CommandSinkSettings};
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
///
/// let schema = Schema::new(vec![Field::new("machine", DataType::Utf8, true)]).into();
/// let sink = CommandSink::new(&schema, CommandSinkSettings::new("logger -t alerts", "alerts"))?;
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
pub struct CommandSink {
    settings: CommandSinkSettings,
    schema: SchemaRef,
    encoder: Box<dyn TextEncoder>,
    /// The text of each cycle that has rows.
    pending: VecDeque<(u64, Arc<[u8]>)>,
    pending_bytes: usize,
    keys: RequestKeys,
    outage: SinkOutage,
    is_stopped: Arc<AtomicBool>,
}

impl CommandSink {
    /// Checks the settings. The program is not started before there are rows for it.
    ///
    /// # Errors
    /// [`Cause::user`] if the command is empty, or the format cannot represent such rows.
    pub fn new(schema: &SchemaRef, settings: CommandSinkSettings) -> Result<CommandSink, Cause> {
        if settings.command.trim().is_empty() {
            return Err(Cause::user("the command is empty; write command = '/path/to/program'"));
        }
        if matches!(settings.format, TextFormat::Table(_)) {
            return Err(Cause::user("the format table is meant for people; use json or csv for a program"));
        }
        Ok(CommandSink {
            schema: SchemaRef::clone(schema),
            encoder: settings.format.encoder(schema)?,
            pending: VecDeque::new(),
            pending_bytes: 0,
            keys: RequestKeys::new(&settings.sink, settings.identity),
            is_stopped: Arc::default(),
            outage: SinkOutage::default(),
            settings,
        })
    }

    /// Runs the program until it accepts the rows.
    fn run(&self, cycle: u64, text: &Arc<[u8]>) -> Result<(), Cause> {
        let CommandSinkSettings { command, sink, timeout, retry_for, .. } = &self.settings;
        let (number, key) = (cycle.to_string(), self.keys.key(cycle, 0, text));
        let variables = [("TIDEMILL_SINK", &**sink), ("TIDEMILL_CYCLE", &*number), ("TIDEMILL_KEY", &*key)];
        let (since, mut pause, mut attempts) = (Instant::now(), RETRY_FIRST, 0);
        loop {
            attempts += 1;
            let ended = run(command, &variables, text, *timeout, || self.is_stopped());
            let reason = match ended {
                Ok(Ended::Accepted) => {
                    self.outage.over();
                    if attempts > 1 {
                        info!(sink, attempts, "the command accepts rows again");
                    }
                    return Ok(());
                }
                Ok(Ended::Stopped) => return Err(stopped()),
                Ok(Ended::Failed(reason)) => reason,
                Err(error) => format!("it cannot be started: {error}"),
            };
            self.outage.failed(&format!("the command failed: {reason}"));
            warn!(sink, cycle, attempts, reason, retry_in = ?pause, "the command failed");
            if since.elapsed() + pause >= *retry_for {
                return Err(Cause::operation(format!(
                    "the command of sink '{sink}' failed for cycle {cycle}: {reason}; gave up after {attempts} \
                     attempts in {} s (retry_for)",
                    since.elapsed().as_secs()
                )));
            }
            self.wait(pause)?;
            pause = (pause * 2).min(RETRY_LONGEST);
        }
    }

    fn wait(&self, pause: Duration) -> Result<(), Cause> {
        let until = Instant::now() + pause;
        while Instant::now() < until {
            if self.is_stopped() {
                return Err(stopped());
            }
            std::thread::sleep(LOOK_INTERVAL.min(until.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }
}

fn stopped() -> Cause {
    Cause::operation("the query was stopped while a command was running")
}

impl Sink for CommandSink {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let (cycle, batches) = rows_of(output, &self.schema)?;
        if batches.is_empty() {
            return Ok(());
        }
        let mut text = Vec::new();
        self.encoder.header(&mut text);
        for rows in batches {
            self.encoder.rows(&rows, &mut text)?;
        }
        self.pending_bytes += text.len();
        self.pending.push_back((cycle, text.into()));
        if self.pending_bytes > PENDING_BYTES_MAX {
            Err(Cause::resource(format!(
                "more than {} MiB of text are waiting for the commit of cycle {cycle}; use smaller cycles",
                PENDING_BYTES_MAX >> 20
            )))
        } else {
            Ok(())
        }
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        while let Some((cycle, text)) = self.pending.pop_front_if(|(cycle, _)| *cycle <= *cycles.end()) {
            self.pending_bytes -= text.len();
            self.run(cycle, &text)?;
        }
        Ok(())
    }

    fn outage(&self) -> SinkOutage {
        self.outage.clone()
    }

    fn stopper(&self) -> Option<Box<dyn Fn() + Send + Sync>> {
        let is_stopped = Arc::clone(&self.is_stopped);
        Some(Box::new(move || is_stopped.store(true, Ordering::Release)))
    }
}
