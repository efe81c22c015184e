//! Rows from standard input, or from any other reader that must be waited for (a pipe).

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidemill_core::SourceThreads;
use tidemill_core::error::Cause;
use tidemill_core::source::{Faults, Polled, Progress, Source};

use crate::formats::infer::{SAMPLE_BYTES, infer_text};
use crate::formats::{
    BATCH_ROWS, CsvSettings, DecoderSettings, Format, LineStream, RecordDecoder, text_decoder,
};

/// How many bytes are read at once.
const BLOCK_BYTES: usize = 256 * 1024;
/// Blocks that may wait.
const BLOCKS_MAX: usize = 4;
/// How long to wait for more, to infer columns, after the first line came.
const SAMPLE_TIME: Duration = Duration::from_millis(200);

/// How to read a stream of text.
#[derive(Clone, Debug)]
pub struct StreamSettings {
    /// Csv or Json.
    pub format: Format,
    /// How a CSV is written.
    pub csv: CsvSettings,
    /// The columns; `None`: inferred from the beginning of the input.
    pub schema: Option<SchemaRef>,
    /// The most rows of a batch; 0 counts as 1.
    pub batch_rows: usize,
}

impl StreamSettings {
    /// Settings for this format, with inferred columns.
    pub fn new(format: Format) -> StreamSettings {
        StreamSettings { format, csv: CsvSettings::default(), schema: None, batch_rows: BATCH_ROWS }
    }
}

/// A source that reads rows from standard input. A separate thread reads it, at most a mebibyte ahead. The thread ends
/// with its input, or at its next bytes after the source is gone.
///
/// ```
/// use std::time::Duration;
/// use tidemill_connect::formats::Format;
/// use tidemill_connect::standard_streams::{StandardInput, StreamSettings};
/// use tidemill_core::source::{Polled, Source};
///
/// let text: &[u8] = b"{\"speed\": 61}\n{\"speed\": 58}\n";
/// let mut source = StandardInput::from_reader("sensor", text, StreamSettings::new(Format::Json))?;
/// let Polled::Rows(rows) = source.poll(Duration::from_secs(1))? else { panic!("there are rows") };
/// assert_eq!(rows.num_rows(), 2);
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
pub struct StandardInput {
    name: String,
    blocks: Receiver<InputBlock>,
    lines: LineStream,
    decoder: Box<dyn RecordDecoder>,
    ready: VecDeque<RecordBatch>,
    faults: Faults,
    /// What was read to infer the columns, and has not been decoded yet.
    sampled: Option<Sample>,
    done_bytes: u64,
    /// Whether the sample was all of it.
    is_finished: bool,
    ended: bool,
    threads: SourceThreads,
}

enum InputBlock {
    Bytes(Vec<u8>),
    Failed(String),
}

impl StandardInput {
    /// Reads standard input. Without declared columns it waits for the first line.
    ///
    /// # Errors
    /// [`Cause::user`] if the format is not text, a setting is not supported or columns cannot be inferred.
    pub fn open(settings: StreamSettings) -> Result<StandardInput, Cause> {
        StandardInput::from_reader("standard input", std::io::stdin(), settings)
    }

    /// Reads from `reader`; `name` names it in messages.
    ///
    /// # Errors
    /// As [`StandardInput::open`].
    pub fn from_reader(
        name: &str,
        reader: impl Read + Send + 'static,
        mut settings: StreamSettings,
    ) -> Result<StandardInput, Cause> {
        if !settings.format.is_text() {
            return Err(Cause::user(format!(
                "{name}: {:?} is not a text format; use csv or json",
                settings.format
            )));
        }
        let (sender, blocks) = sync_channel(BLOCKS_MAX);
        let threads = SourceThreads::default();
        threads.spawn(name, move || read_blocks(reader, &sender))?;
        let (mut sampled, mut lines) = (None, LineStream::new(settings.format.clone()));
        let schema = match settings.schema.take() {
            Some(schema) => schema,
            None => {
                let Sample { bytes, is_whole } = Sample::read(name, &blocks)?;
                let text = lines.push(&bytes, is_whole).into_owned();
                let schema = infer_text(name, &settings.format, &text, is_whole, &mut settings.csv)?;
                sampled = Some(Sample { bytes: text, is_whole });
                schema
            }
        };
        let decoding = DecoderSettings { schema, csv: settings.csv, batch_rows: settings.batch_rows };
        let mut source = StandardInput {
            name: name.to_owned(),
            blocks,
            lines,
            decoder: text_decoder(settings.format, decoding)?,
            ready: VecDeque::new(),
            faults: Faults::default(),
            sampled,
            done_bytes: 0,
            is_finished: false,
            ended: false,
            threads,
        };
        source.decoder.begin(name);
        if source.sampled.is_some() {
            source.decoder.report_other_keys();
        }
        Ok(source)
    }

    /// Reads only these columns, in this order. Call it before the first poll.
    ///
    /// # Errors
    /// [`Cause::bug`] if such a column does not exist.
    pub fn set_projection(&mut self, columns: &[usize]) -> Result<(), Cause> {
        self.decoder.set_projection(columns)
    }
}

/// The beginning of the input.
struct Sample {
    bytes: Vec<u8>,
    is_whole: bool,
}

impl Sample {
    /// Waits for the first line, and then a little for more.
    fn read(name: &str, blocks: &Receiver<InputBlock>) -> Result<Sample, Cause> {
        let mut bytes: Vec<u8> = Vec::new();
        while bytes.len() < SAMPLE_BYTES {
            let received = match memchr::memchr(b'\n', &bytes) {
                Some(_) => blocks.recv_timeout(SAMPLE_TIME),
                None => blocks.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match received {
                Ok(InputBlock::Bytes(more)) => bytes.extend(more),
                Ok(InputBlock::Failed(reason)) => return Err(failed(name, &reason)),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return Ok(Sample { bytes, is_whole: true }),
            }
        }
        Ok(Sample { bytes, is_whole: false })
    }
}

impl Source for StandardInput {
    fn schema(&self) -> SchemaRef {
        self.decoder.schema()
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        let start = Instant::now();
        if let Some(sample) = self.sampled.take() {
            self.done_bytes += sample.bytes.len() as u64;
            self.decode(&sample.bytes)?;
            self.is_finished = sample.is_whole;
        }
        while self.ready.is_empty() && !self.ended {
            match self.blocks.recv_timeout(wait.saturating_sub(start.elapsed())) {
                Ok(InputBlock::Bytes(bytes)) => {
                    self.done_bytes += bytes.len() as u64;
                    let lines = self.lines.push(&bytes, false);
                    self.decoder.decode(&lines, &mut self.ready)?;
                    self.faults.merge(self.decoder.faults());
                }
                Ok(InputBlock::Failed(reason)) => return Err(failed(&self.name, &reason)),
                Err(RecvTimeoutError::Timeout) => return Ok(Polled::Nothing),
                Err(RecvTimeoutError::Disconnected) => {
                    self.ended = true;
                    if !self.is_finished {
                        let rest = self.lines.push(b"", true);
                        self.decoder.decode(&rest, &mut self.ready)?;
                    }
                    self.decoder.finish(&mut self.ready)?;
                    self.faults.merge(self.decoder.faults());
                }
            }
        }
        Ok(self.ready.pop_front().map_or(Polled::Ended, Polled::Rows))
    }

    fn threads(&self) -> Option<SourceThreads> {
        Some(self.threads.clone())
    }

    fn keep_bad_records(&mut self) {
        self.decoder.keep_bad_records();
    }

    fn faults(&mut self) -> Faults {
        std::mem::take(&mut self.faults)
    }

    fn progress(&self) -> Progress {
        Progress { done: self.done_bytes, total: None }
    }

    fn is_finite(&self) -> bool {
        true
    }
}

impl StandardInput {
    fn decode(&mut self, bytes: &[u8]) -> Result<(), Cause> {
        self.decoder.decode(bytes, &mut self.ready)?;
        self.faults.merge(self.decoder.faults());
        Ok(())
    }
}

fn failed(name: &str, reason: &str) -> Cause {
    Cause::operation(format!("{name}: reading failed: {reason}; check the sender, then try again"))
}

/// Passes on what is read, until the end or until nobody needs it.
fn read_blocks(mut reader: impl Read, sender: &SyncSender<InputBlock>) {
    let mut buffer = vec![0; BLOCK_BYTES];
    loop {
        let block = match reader.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => InputBlock::Bytes(buffer[..count].to_vec()),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => InputBlock::Failed(error.to_string()),
        };
        let is_last = matches!(block, InputBlock::Failed(_));
        if sender.send(block).is_err() || is_last {
            return;
        }
    }
}
