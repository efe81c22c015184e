//! Rows to a topic.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use arrow_schema::SchemaRef;
use rdkafka::ClientConfig;
use rdkafka::producer::Producer;
use tidemill_core::error::Fault;
use tidemill_core::{Cause, CycleOutput, FaultLog, Sink};

use super::messages::{Encoding, Message, Messages};
use super::producer::{Deliveries, MessageProducer};
use super::{partitions, unusable};
use crate::dead_letter::{DeadLetter, DeadLetterFile};
use crate::formats::encode::{NdjsonEncoder, TextEncoder, TextFormat};
use crate::pending::PendingBatches;
use crate::suggest::closest;

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
/// A message that the topic does not take, because it is too large or has no key where the topic wants one, ends the
/// query, unless there is a file of [dead letters](KafkaSink::with_dead_letters). Then the letter is on disk before the
/// commit returns, and the other messages are sent. Brokers refuse messages in batches. Those of a refused batch are
/// sent once more, one by one, and so are later messages with their keys, to keep the order of each key.
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
    pending: PendingBatches,
    encoding: Encoding,
    producer: MessageProducer,
    letters: Option<DeadLetterFile>,
    refused: FaultLog,
}

impl KafkaSink {
    /// Connects to the brokers and looks up the topic.
    ///
    /// # Errors
    /// [`Cause::user`] if the topic or key column does not exist, or a setting is not supported; [`Cause::operation`]
    /// if no broker answers within 10 s.
    pub fn connect(schema: &SchemaRef, settings: KafkaSinkSettings) -> Result<KafkaSink, Cause> {
        if matches!(settings.format, TextFormat::Table(_)) {
            return Err(Cause::user(
                "the format table is meant for people; use csv or json for a topic".to_owned(),
            ));
        }
        let is_ndjson = settings.format == TextFormat::Ndjson;
        let encoder: Box<dyn TextEncoder> = match is_ndjson {
            // Rows without a text are refused one by one.
            true => Box::new(NdjsonEncoder::of_any_value(schema)?),
            false => settings.format.encoder(schema)?,
        };
        let key = settings.key.as_deref().map(|name| key_column(name, schema)).transpose()?;
        let wait_ms = settings.delivery_wait.as_millis().max(1).to_string();
        let producer = ClientConfig::new()
            .set("bootstrap.servers", &settings.brokers)
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("message.timeout.ms", wait_ms)
            .create_with_context(Deliveries::default())
            .map_err(|error| unusable(&settings.brokers, &error))?;
        let producer = MessageProducer { producer, topic: settings.topic.clone() };
        partitions(producer.producer.client(), &settings.brokers, &settings.topic)?;
        Ok(KafkaSink {
            settings,
            schema: SchemaRef::clone(schema),
            pending: PendingBatches::default(),
            encoding: Encoding { encoder, is_ndjson, key },
            producer,
            letters: None,
            refused: FaultLog::default(),
        })
    }

    /// Keeps the rows that the topic does not take in this file.
    #[must_use]
    pub fn with_dead_letters(self, letters: DeadLetterFile) -> KafkaSink {
        KafkaSink { letters: Some(letters), ..self }
    }

    /// Sends all messages. Returns those that are refused, with the reasons.
    fn send(&mut self, messages: &Messages) -> Result<BTreeMap<usize, String>, Cause> {
        let producer = &self.producer;
        let without_text = messages.without_text();
        let mut refused = without_text.clone();
        messages.each(&mut self.encoding, &without_text, &mut |message| {
            if let Some(reason) = producer.send(message)? {
                refused.insert(message.number, reason);
            }
            Ok(())
        })?;
        producer.flush(self.settings.delivery_wait)?;
        let suspects = producer.take_refused();
        if !suspects.is_empty() {
            self.send_again(messages, &suspects, &without_text, &mut refused)?;
        }
        Ok(refused)
    }

    /// Sends the messages of refused batches one by one, for only some of them may be to blame, and later messages with
    /// their keys.
    fn send_again(
        &mut self,
        messages: &Messages,
        suspects: &BTreeMap<usize, String>,
        without_text: &BTreeMap<usize, String>,
        refused: &mut BTreeMap<usize, String>,
    ) -> Result<(), Cause> {
        let (producer, wait) = (&self.producer, self.settings.delivery_wait);
        let mut keys_sent_again: BTreeSet<String> = BTreeSet::new();
        messages.each(&mut self.encoding, without_text, &mut |message: &Message<'_>| {
            let follows = message.key.is_some_and(|key| keys_sent_again.contains(key));
            if refused.contains_key(&message.number) || !(follows || suspects.contains_key(&message.number)) {
                return Ok(());
            }
            let mut reason = producer.send(message)?;
            if reason.is_none() {
                producer.flush(wait)?;
                reason = producer.take_refused().remove(&message.number);
            }
            match (reason, message.key) {
                (Some(reason), _) => drop(refused.insert(message.number, reason)),
                (None, Some(key)) => drop(keys_sent_again.insert(key.to_owned())),
                (None, None) => {}
            }
            Ok(())
        })
    }

    /// Keeps the refused rows, or fails with the first one.
    fn keep(&mut self, messages: &Messages, refused: BTreeMap<usize, String>) -> Result<(), Cause> {
        let letters: Vec<DeadLetter> =
            refused.into_iter().map(|(number, reason)| messages.letter(number, &reason)).collect();
        match (&mut self.letters, letters.first()) {
            (_, None) => Ok(()),
            (Some(file), _) => file.keep(&letters, &self.refused),
            (None, Some(first)) => Err(first.unkept()),
        }
    }

    fn in_topic(&self, cause: Cause) -> Cause {
        match cause.fault {
            Fault::Operation => cause.map_message(|reason| {
                format!(
                    "kafka {}, topic '{}': a message was not accepted: {reason}",
                    self.settings.brokers, self.settings.topic
                )
            }),
            _ => cause,
        }
    }
}

impl Sink for KafkaSink {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        self.pending.push(output, &self.schema)
    }

    fn commit(&mut self, cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        let messages = Messages::new(self.pending.take(*cycles.end()));
        if messages.is_empty() {
            return Ok(());
        }
        let refused = self.send(&messages).map_err(|cause| self.in_topic(cause))?;
        self.keep(&messages, refused)
    }

    fn refused(&self) -> FaultLog {
        self.refused.clone()
    }
}

fn key_column(name: &str, schema: &SchemaRef) -> Result<usize, Cause> {
    schema.index_of(name).map_err(|_| {
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let hint = closest(name, names).map_or(String::new(), |meant| format!("; did you mean {meant}?"));
        Cause::user(format!("key = '{name}': the rows do not have this column{hint}"))
    })
}
