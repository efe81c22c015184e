//! Rows to a topic.

use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use arrow_array::{Array, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::SchemaRef;
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;
use tidemill_core::{Cause, CycleOutput, Sink};

use super::{partitions, unusable};
use crate::formats::close_match;
use crate::formats::encode::{TextEncoder, TextFormat};
use crate::pending::PendingRows;

/// How long it waits for room among the messages in flight before it checks again.
const ROOM_WAIT: Duration = Duration::from_millis(100);

/// Where rows go, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaSinkSettings {
    /// Brokers to ask first, as `host:port,host:port`.
    pub brokers: String,
    /// The topic.
    pub topic: String,
    /// CSV or NDJSON. Each row is one message, without header and line end.
    pub format: TextFormat,
    /// The column whose text is the message's key. Messages with equal keys go to the same partition, in order. NULL is
    /// not a key. `None`: messages have no keys.
    pub key: Option<String>,
    /// How long the brokers may take to accept a message before the query fails.
    pub delivery_wait: Duration,
}

impl KafkaSinkSettings {
    /// Messages without keys; the brokers have 30 s.
    pub fn new(
        brokers: impl Into<String>,
        topic: impl Into<String>,
        format: TextFormat,
    ) -> KafkaSinkSettings {
        let (brokers, topic) = (brokers.into(), topic.into());
        KafkaSinkSettings { brokers, topic, format, key: None, delivery_wait: Duration::from_secs(30) }
    }
}

/// Writes rows to a topic, one message each.
///
/// A commit returns when all in-sync replicas have accepted all of its messages: every row of a committed cycle is
/// there, at least once. Within a run no retry duplicates a message (the producer is idempotent). But a query that
/// fails in the middle of a commit leaves messages of cycles that are not committed, and writes them again when it is
/// restarted. A reader may see part of a commit. For rows that are a table's upserts, set
/// [`key`](KafkaSinkSettings::key), so that the last message of a key has its last value.
///
/// ```no_run
/// use tidemill_connect::kafka::{KafkaSink, KafkaSinkSettings};
/// use tidemill_connect::formats::encode::TextFormat;
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
///
/// let schema = Schema::new(vec![Field::new("campaign", DataType::Utf8, true)]).into();
/// let settings = KafkaSinkSettings::new("127.0.0.1:9092", "counts", TextFormat::Ndjson);
/// let sink = KafkaSink::connect(&schema, settings)?;
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
pub struct KafkaSink {
    settings: KafkaSinkSettings,
    schema: SchemaRef,
    pending: PendingRows,
    encoder: Box<dyn TextEncoder>,
    key: Option<usize>,
    producer: BaseProducer<Deliveries>,
}

/// The fate of the messages: the first one that no broker accepted, and why.
#[derive(Default)]
struct Deliveries {
    failed: Mutex<Option<String>>,
}

impl Deliveries {
    fn check(&self) -> Result<(), String> {
        match self.failed.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            None => Ok(()),
            Some(reason) => Err(reason.clone()),
        }
    }
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert_with(|| error.to_string());
        }
    }
}

impl KafkaSink {
    /// Connects to the brokers and looks up the topic.
    ///
    /// # Errors
    /// [`Cause::user`] if the topic or key column does not exist, or a setting is not supported; [`Cause::operation`]
    /// if no broker answers within 10 s.
    pub fn connect(schema: &SchemaRef, settings: KafkaSinkSettings) -> Result<KafkaSink, Cause> {
        if matches!(settings.format, TextFormat::Table(_)) {
            return Err(Cause::user("a table is for people; use csv or json in a topic"));
        }
        let encoder = settings.format.encoder(schema)?;
        let key = settings.key.as_deref().map(|name| key_column(name, schema)).transpose()?;
        let wait_ms = settings.delivery_wait.as_millis().max(1).to_string();
        let producer: BaseProducer<Deliveries> = ClientConfig::new()
            .set("bootstrap.servers", &settings.brokers)
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("message.timeout.ms", wait_ms)
            .create_with_context(Deliveries::default())
            .map_err(|error| unusable(&settings.brokers, &error))?;
        partitions(producer.client(), &settings.brokers, &settings.topic)?;
        let pending = PendingRows::default();
        Ok(KafkaSink { settings, schema: SchemaRef::clone(schema), pending, encoder, key, producer })
    }

    fn send_rows(&mut self, rows: &RecordBatch) -> Result<(), Cause> {
        let keys = match self.key {
            None => None,
            Some(column) => Some(texts(rows, column)?),
        };
        let key = |row: usize| keys.as_ref().and_then(|keys| keys[row].as_deref());
        let mut text = Vec::new();
        if self.settings.format == TextFormat::Ndjson {
            self.encoder.rows(rows, &mut text)?;
            let lines = text.split(|byte| *byte == b'\n').take(rows.num_rows());
            return lines.enumerate().try_for_each(|(row, line)| self.send(key(row), line));
        }
        // A CSV's value may hold line ends.
        for row in 0..rows.num_rows() {
            text.clear();
            self.encoder.rows(&rows.slice(row, 1), &mut text)?;
            self.send(key(row), text.strip_suffix(b"\n").unwrap_or(&text))?;
        }
        Ok(())
    }

    fn send(&self, key: Option<&str>, value: &[u8]) -> Result<(), Cause> {
        let mut record = BaseRecord::<str, [u8]>::to(&self.settings.topic).payload(value);
        if let Some(key) = key {
            record = record.key(key);
        }
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                // Every message leaves the queue in time: taken, or given up.
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    record = back;
                    self.producer.poll(ROOM_WAIT);
                    self.producer.context().check().map_err(|reason| self.failed(&reason))?;
                }
                Err((error, _)) => return Err(self.failed(&error.to_string())),
            }
        }
    }

    /// Waits until all messages are accepted.
    fn flush(&self) -> Result<(), Cause> {
        // A little longer than each message has, so that the message's own reason is reported.
        let flushed = self.producer.flush(self.settings.delivery_wait + Duration::from_secs(5));
        self.producer.context().check().map_err(|reason| self.failed(&reason))?;
        flushed.map_err(|error| self.failed(&error.to_string()))
    }

    fn failed(&self, reason: &str) -> Cause {
        Cause::operation(format!(
            "kafka {}, topic '{}': a message was not taken: {reason}",
            self.settings.brokers, self.settings.topic
        ))
    }
}

impl Sink for KafkaSink {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        self.pending.push(output, &self.schema)
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        let batches = self.pending.take(*cycles.end());
        if batches.is_empty() {
            return Ok(());
        }
        batches.iter().try_for_each(|rows| self.send_rows(rows))?;
        self.flush()
    }
}

fn key_column(name: &str, schema: &SchemaRef) -> Result<usize, Cause> {
    schema.index_of(name).map_err(|_| {
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let hint = close_match(name, names).map_or(String::new(), |meant| format!("; did you mean {meant}?"));
        Cause::user(format!("key = '{name}': the rows have no such column{hint}"))
    })
}

/// The text of each value of a column.
fn texts(rows: &RecordBatch, column: usize) -> Result<Vec<Option<String>>, Cause> {
    let values = rows.column(column);
    let options = FormatOptions::default();
    let no_text = |error| Cause::user(format!("a key has no text: {error}; cast it to VARCHAR"));
    let formatter = ArrayFormatter::try_new(values, &options).map_err(no_text)?;
    let text = |row: usize| match values.is_null(row) {
        true => Ok(None),
        false => formatter.value(row).try_to_string().map(Some).map_err(no_text),
    };
    (0..values.len()).map(text).collect()
}
