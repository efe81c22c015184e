//! Rows to a topic.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use rdkafka::producer::{BaseProducer, Producer};
use tidemill_core::error::Fault;
use tidemill_core::{Cause, CycleOutput, FaultLog, Guarantee, RefusedRow, Sink, SinkOutage};

use super::broker_outage::BrokerOutage;
use super::connection::KafkaConnection;
use super::messages::{Encoding, Message, Messages};
use super::producer::{Deliveries, MessageProducer};
use super::transactions::Transactions;
use super::{ANSWER_WAIT, AWAY_WAIT, RETRY_FOR, TRIAL_WAIT, partitions, unusable};
use crate::dead_letter::{DeadLetter, DeadLetterFile};
use crate::formats::encode::{NdjsonEncoder, TextEncoder, TextFormat};
use crate::pending::PendingBatches;
use crate::request_keys::identity_of_run;
use crate::suggest::closest;

/// The shortest interval at which cycles without rows are recorded in a transaction: receiving them again costs little.
const WITHOUT_ROWS_INTERVAL: Duration = Duration::from_secs(1);
/// How long the brokers keep a transaction open whose run is gone, at least and, as brokers are configured, at most. Readers of
/// what is committed wait for it, until the run is resumed.
const OPEN_TRANSACTION: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(900));
/// The pause before brokers that are away are asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// Where rows go, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaSinkSettings {
    /// Which brokers, and how they are reached.
    pub connection: KafkaConnection,
    /// The topic.
    pub topic: String,
    /// CSV or NDJSON. Each row is one message, without header and line end.
    pub format: TextFormat,
    /// The column whose text is the message's key. Messages with equal keys go to the same partition, in order. NULL is
    /// not a key. `None`: messages have no keys.
    pub key: Option<String>,
    /// How long the brokers may be away, or take to accept a message, before the query fails. In a transaction it is at most
    /// 15 minutes, beyond which brokers end it.
    pub retry_for: Duration,
    /// The name of the transactions (`transactional.id`, and a consumer group) in which commits are sent: exactly once.
    /// No other sink may have it, and a run that resumes must have the same. `None`: at least once.
    pub transactions: Option<String>,
}

impl KafkaSinkSettings {
    /// Messages without keys and transactions; the brokers may be away for 10 minutes.
    pub fn new(
        connection: impl Into<KafkaConnection>,
        topic: impl Into<String>,
        format: TextFormat,
    ) -> KafkaSinkSettings {
        KafkaSinkSettings {
            connection: connection.into(),
            topic: topic.into(),
            format,
            key: None,
            retry_for: RETRY_FOR,
            transactions: None,
        }
    }

    /// Sends commits in transactions that no other sink has. A durable query, which has an identity, has the same again
    /// when it resumes.
    #[must_use]
    pub fn with_transactions(self, sink: &str, identity: Option<u64>) -> KafkaSinkSettings {
        let name = format!("tidemill-{:016x}-{sink}", identity_of_run(identity));
        KafkaSinkSettings { transactions: Some(name), ..self }
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
/// With [`transactions`](KafkaSinkSettings::transactions), a commit is a transaction that also holds its cycle. Readers
/// of what is committed (`isolation.level = read_committed`) see all of it or nothing, and each row exactly once. The
/// brokers forget the cycle when nothing was written for as long as they keep offsets (`offsets.retention.minutes`, seven
/// days by default): a query that is resumed later may send the most recent commits once more.
///
/// A message that the topic does not take, because it is too large or has no key where the topic wants one, ends the
/// query, unless there is a file of [dead letters](KafkaSink::with_dead_letters). Then the letter is on disk before the
/// commit returns, and the other messages are sent. Brokers refuse messages in batches. Those of a refused batch are
/// sent once more, one by one, and so are later messages with their keys, to keep the order of each key. A transaction
/// is undone and sent again without the message that was refused.
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
    transactions: Option<Transactions>,
    /// Why no broker was reached, as long as none has been.
    away: Option<Cause>,
    /// The last cycle without rows that no transaction has recorded yet.
    without_rows: Option<u64>,
    written_at: Instant,
    letters: Option<DeadLetterFile>,
    refused: FaultLog,
}

impl KafkaSink {
    /// Connects to the brokers and looks up the topic.
    ///
    /// # Errors
    /// [`Cause::user`] if the topic or key column does not exist, a setting is not supported, or a login or certificate is
    /// refused; [`Cause::operation`] if no broker answers within 10 s.
    pub fn connect(schema: &SchemaRef, settings: KafkaSinkSettings) -> Result<KafkaSink, Cause> {
        let mut sink = KafkaSink::unconnected(schema, settings)?;
        sink.reach(ANSWER_WAIT)?;
        Ok(sink)
    }

    /// As [`connect`](KafkaSink::connect), but succeeds if no broker answers: the sink is then [`away`](Sink::away), and
    /// connects when it [arrives](Sink::arrive), within [`retry_for`](KafkaSinkSettings::retry_for).
    ///
    /// # Errors
    /// [`Cause::user`] as for `connect`.
    pub fn open(schema: &SchemaRef, settings: KafkaSinkSettings) -> Result<KafkaSink, Cause> {
        let mut sink = KafkaSink::unconnected(schema, settings)?;
        match sink.reach(AWAY_WAIT) {
            Err(cause) if cause.fault == Fault::Operation => sink.away = Some(cause),
            reached => reached?,
        }
        Ok(sink)
    }

    fn unconnected(schema: &SchemaRef, settings: KafkaSinkSettings) -> Result<KafkaSink, Cause> {
        if matches!(settings.format, TextFormat::Table(_)) {
            return Err(Cause::user(
                "the format table is meant for people; use csv or json for a topic".to_owned(),
            ));
        }
        let is_ndjson = settings.format == TextFormat::Ndjson;
        let encoder: Box<dyn TextEncoder> = if is_ndjson {
            // Rows without a text are refused one by one.
            Box::new(NdjsonEncoder::of_any_value(schema)?)
        } else {
            settings.format.encoder(schema)?
        };
        let key = settings.key.as_deref().map(|name| key_column(name, schema)).transpose()?;
        let waiting = format!("rows for topic '{}'", settings.topic);
        let producer = MessageProducer {
            producer: producer(&settings)?,
            topic: settings.topic.clone(),
            outage: BrokerOutage::new(&settings.connection.brokers, waiting).into(),
            is_stopped: Arc::default(),
        };
        Ok(KafkaSink {
            settings,
            schema: SchemaRef::clone(schema),
            pending: PendingBatches::default(),
            encoding: Encoding { encoder, is_ndjson, key },
            producer,
            transactions: None,
            away: None,
            without_rows: None,
            written_at: Instant::now(),
            letters: None,
            refused: FaultLog::default(),
        })
    }

    /// Looks up the topic, and begins transactions if there are to be any.
    fn reach(&mut self, wait: Duration) -> Result<(), Cause> {
        let KafkaSinkSettings { connection, topic, retry_for, .. } = &self.settings;
        let producer = &self.producer.producer;
        let serve = || producer.poll(Duration::ZERO);
        partitions(producer.client(), &serve, &connection.brokers, topic, wait)?;
        if let Some(name) = &self.settings.transactions {
            let begun = Transactions::begin(name, topic, connection, &self.producer, *retry_for)?;
            self.transactions = Some(begun);
        }
        Ok(())
    }

    /// Keeps the rows that the topic does not take in this file.
    #[must_use]
    pub fn with_dead_letters(self, letters: DeadLetterFile) -> KafkaSink {
        KafkaSink { letters: Some(letters), ..self }
    }

    /// Sends all messages. Returns those that are refused, with the reasons.
    fn send(&mut self, messages: &Messages) -> Result<BTreeMap<usize, String>, Cause> {
        let (producer, wait) = (&self.producer, self.settings.retry_for);
        let without_text = messages.without_text();
        let mut refused = without_text.clone();
        messages.each(&mut self.encoding, &without_text, &mut |message| {
            if let Some(reason) = producer.send(message, wait)? {
                refused.insert(message.number, reason);
            }
            Ok(())
        })?;
        producer.flush(wait)?;
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
        let (producer, wait) = (&self.producer, self.settings.retry_for);
        let mut keys_sent_again: BTreeSet<String> = BTreeSet::new();
        messages.each(&mut self.encoding, without_text, &mut |message: &Message<'_>| {
            let follows = message.key.is_some_and(|key| keys_sent_again.contains(key));
            if refused.contains_key(&message.number) || !(follows || suspects.contains_key(&message.number)) {
                return Ok(());
            }
            let mut reason = producer.send(message, wait)?;
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

    /// Sends all messages and the cycle in one transaction. A refused message spoils its transaction, so that is undone,
    /// and the others are sent again.
    fn commit_transaction(&mut self, messages: &Messages, cycle: u64) -> Result<(), Cause> {
        let without_text = messages.without_text();
        let mut refused = without_text.clone();
        let mut suspects = BTreeMap::new();
        let mut until = Instant::now() + self.settings.retry_for;
        let mut known = 0;
        while !self.send_in_transaction(messages, &mut refused, &mut suspects)? {
            let known_now = refused.len() + suspects.len();
            if known_now == known && Instant::now() > until {
                let reason = "each transaction was undone by the client; see the log (TIDEMILL_LOG=debug)";
                return Err(Cause::operation(reason));
            }
            if known_now > known {
                (known, until) = (known_now, Instant::now() + self.settings.retry_for);
            }
        }
        let kept = self.keep(messages, refused);
        let producer = &self.producer;
        let Some(transactions) = &mut self.transactions else { return kept };
        if kept.is_err() {
            transactions.abort(producer)?;
            return kept;
        }
        transactions.commit(producer, cycle)?;
        self.without_rows = None;
        self.written_at = Instant::now();
        Ok(())
    }

    /// Opens a transaction and sends the messages that are not refused, the suspects one by one. Returns whether all were
    /// accepted. Otherwise the transaction is undone, and there is one more refused message, or there are more suspects.
    fn send_in_transaction(
        &mut self,
        messages: &Messages,
        refused: &mut BTreeMap<usize, String>,
        suspects: &mut BTreeMap<usize, String>,
    ) -> Result<bool, Cause> {
        let (producer, wait) = (&self.producer, self.settings.retry_for);
        let Some(transactions) = &self.transactions else {
            return Err(Cause::bug("a transaction of a sink that has none"));
        };
        transactions.open(producer)?;
        let without = refused.clone();
        let sent = messages.each(&mut self.encoding, &without, &mut |message| {
            let is_suspect = suspects.contains_key(&message.number);
            if is_suspect {
                // It has a batch of its own.
                producer.flush(wait)?;
            }
            if let Some(reason) = producer.send(message, wait)? {
                refused.insert(message.number, reason);
            } else if is_suspect {
                producer.flush(wait)?;
            }
            Ok(())
        });
        let sent = sent.and_then(|()| producer.flush(wait));
        let mut found = producer.take_refused();
        if sent.is_ok() && found.is_empty() {
            return Ok(true);
        }
        let aborted = transactions.abort(producer);
        found.extend(producer.take_refused());
        let is_purged = producer.producer.context().is_purged();
        producer.producer.context().clear();
        aborted?;
        if found.is_empty() {
            // After a transaction was undone, the client may drop the first messages of the next one.
            return if is_purged { Ok(false) } else { sent.map(|()| false) };
        }
        for (number, reason) in found {
            if suspects.contains_key(&number) {
                refused.insert(number, reason)
            } else {
                suspects.insert(number, reason)
            };
        }
        Ok(false)
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
        let KafkaSinkSettings { connection, topic, .. } = &self.settings;
        // A row that was refused says itself where it comes from.
        match (cause.fault, RefusedRow::of(&cause)) {
            (Fault::Operation | Fault::User, None) => cause.map_message(|reason| {
                format!("kafka {}, topic '{topic}': a message was not accepted: {reason}", connection.brokers)
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
        let cycle = *cycles.end();
        let messages = Messages::new(self.pending.take(cycle));
        if self.transactions.is_some() {
            if messages.is_empty() && self.written_at.elapsed() < WITHOUT_ROWS_INTERVAL {
                self.without_rows = Some(cycle);
                return Ok(());
            }
            return self.commit_transaction(&messages, cycle).map_err(|cause| self.in_topic(cause));
        }
        if messages.is_empty() {
            return Ok(());
        }
        let refused = self.send(&messages).map_err(|cause| self.in_topic(cause))?;
        self.keep(&messages, refused)
    }

    fn away(&self) -> Option<Cause> {
        self.away.clone()
    }

    fn arrive(&mut self) -> Result<(), Cause> {
        let since = Instant::now();
        loop {
            let reached = self.reach(TRIAL_WAIT);
            let client = self.producer.producer.client();
            let cause = match reached {
                Ok(()) => break,
                Err(cause) if cause.fault != Fault::Operation => return Err(cause),
                Err(cause) => cause,
            };
            if self.producer.is_stopped.load(Ordering::Acquire) {
                return Err(cause);
            }
            if since.elapsed() >= self.settings.retry_for {
                let seconds = since.elapsed().as_secs();
                return Err(
                    cause.map_message(|text| format!("{text}; gave up after {seconds} s (retry_for)"))
                );
            }
            let reason = Some(cause.message.to_string());
            self.producer.outage.borrow_mut().failed(client, reason, self.settings.retry_for);
            std::thread::sleep(PAUSE);
        }
        self.producer.outage.borrow_mut().over(self.producer.producer.client());
        self.away = None;
        Ok(())
    }

    fn stopper(&self) -> Option<Box<dyn Fn() + Send + Sync>> {
        let is_stopped = Arc::clone(&self.producer.is_stopped);
        Some(Box::new(move || is_stopped.store(true, Ordering::Release)))
    }

    fn guarantee(&self) -> Guarantee {
        match self.transactions {
            Some(_) => Guarantee::ExactlyOnce,
            None => Guarantee::AtLeastOnce,
        }
    }

    fn last_committed(&mut self) -> Result<Option<u64>, Cause> {
        Ok(self.transactions.as_ref().and_then(Transactions::last_committed))
    }

    fn unrecorded(&self) -> Option<u64> {
        self.without_rows?;
        let last = self.transactions.as_ref().and_then(Transactions::last_committed);
        Some(last.map_or(0, |cycle| cycle + 1))
    }

    fn record(&mut self) -> Result<(), Cause> {
        match self.without_rows {
            Some(cycle) => self
                .commit_transaction(&Messages::new(Vec::new()), cycle)
                .map_err(|cause| self.in_topic(cause)),
            None => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<(), Cause> {
        self.record()
    }

    fn outage(&self) -> SinkOutage {
        self.producer.outage.borrow().sink.clone()
    }

    fn refused(&self) -> FaultLog {
        self.refused.clone()
    }
}

fn producer(settings: &KafkaSinkSettings) -> Result<BaseProducer<Deliveries>, Cause> {
    let mut client = settings.connection.client()?;
    let wait = settings.retry_for.max(Duration::from_millis(1));
    client
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("message.timeout.ms", wait.as_millis().to_string());
    if let Some(name) = &settings.transactions {
        let open_max = wait.clamp(OPEN_TRANSACTION.0, OPEN_TRANSACTION.1);
        client.set("transactional.id", name).set("transaction.timeout.ms", open_max.as_millis().to_string());
        client.set("message.timeout.ms", wait.min(open_max).as_millis().to_string());
    }
    client
        .create_with_context(Deliveries::default())
        .map_err(|error| unusable(&settings.connection.brokers, &error))
}

fn key_column(name: &str, schema: &SchemaRef) -> Result<usize, Cause> {
    schema.index_of(name).map_err(|_| {
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let hint = closest(name, names).map_or(String::new(), |meant| format!("; did you mean {meant}?"));
        Cause::user(format!("key = '{name}': the rows do not have this column{hint}"))
    })
}
