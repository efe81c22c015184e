//! Rows from a topic.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::RDKafkaErrorCode;
use tidemill_core::error::{Cause, Fault};
use tidemill_core::fields::{Fields, PutFields, TakeFields};
use tidemill_core::source::{Faults, Polled, Progress, Source, SourceOffset, SourceOffsets};

use super::broker_outage::BrokerOutage;
use super::client_log::ClientLog;
use super::connection::KafkaConnection;
use super::message_batches::MessageBatches;
use super::{ANSWER_WAIT, AWAY_WAIT, TRIAL_WAIT, partitions, unreachable_brokers, unusable};
use crate::formats::{BATCH_ROWS, DecoderSettings, Format, text_decoder};

/// How many bytes of messages are decoded at once.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// How many KiB of messages are read ahead.
const AHEAD_KIB_MAX: &str = "16384";
/// The pause before brokers that are away are asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// Where reading begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KafkaStart {
    /// At the oldest messages that the brokers still have.
    #[default]
    Earliest,
    /// At messages that are written after the source was opened.
    Latest,
}

/// Which topic to read, and how.
#[derive(Clone, Debug)]
pub struct KafkaSourceSettings {
    /// Which brokers, and how they are reached.
    pub connection: KafkaConnection,
    /// The topic; all of its partitions are read.
    pub topic: String,
    /// Csv or Json. Each message is one record; a CSV has no header.
    pub format: Format,
    /// The columns, and how a CSV is written.
    pub decoder: DecoderSettings,
    /// Where reading begins.
    pub start: KafkaStart,
    /// Whether the source ends where the partitions ended when it was opened, instead of waiting for more.
    pub end_at_end: bool,
    /// How long the brokers may be away, at the start and later.
    pub retry_for: Duration,
}

/// The rows of a topic.
///
/// It reads all partitions that the topic has when the source is opened, from explicit offsets. It uses no consumer
/// group and commits nothing to the brokers: a durable query keeps the offsets with the rows and continues there, any
/// other one begins at [`KafkaSourceSettings::start`] again. Messages of transactions that were not committed are
/// left out. Rows of one partition stay in order; rows of different partitions mix as they come. About 16 MiB are
/// read ahead. A message that cannot be read, or has no value, is a fault with partition and offset. Brokers that are
/// away are waited for, at the start as well ([`KafkaSourceSettings::retry_for`]); messages that were deleted before
/// they were read end the query.
///
/// ```no_run
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tidemill_connect::formats::{DecoderSettings, Format};
/// use tidemill_connect::kafka::{KafkaSource, KafkaSourceSettings, KafkaStart};
/// use tidemill_core::arrow::schema::{DataType, Field, Schema};
/// use tidemill_core::source::Source;
///
/// let schema = Arc::new(Schema::new(vec![Field::new("campaign", DataType::Utf8, true)]));
/// let mut source = KafkaSource::open(KafkaSourceSettings {
///     connection: "127.0.0.1:9092".into(),
///     topic: "clicks".into(),
///     format: Format::Json,
///     decoder: DecoderSettings { schema, csv: Default::default(), batch_rows: 8192 },
///     start: KafkaStart::Earliest,
///     end_at_end: true,
///     retry_for: Duration::from_secs(600),
/// })?;
/// let polled = source.poll(Duration::from_secs(1))?;
/// # Ok::<(), tidemill_core::Cause>(())
/// ```
pub struct KafkaSource {
    settings: KafkaSourceSettings,
    schema: SchemaRef,
    consumer: BaseConsumer<ClientLog>,
    partitions: BTreeMap<i32, Partition>,
    gathered: MessageBatches,
    rows: u64,
    /// Whether the partitions are known.
    has_begun: bool,
    /// Whether they are being read.
    is_assigned: bool,
    /// Where earlier runs stopped, as long as the partitions are not known.
    resumed: Option<SourceOffsets>,
    outage: BrokerOutage,
    next_trial: Instant,
}

/// How far a partition was read.
struct Partition {
    /// The messages that it had when the source was opened.
    available: Range<i64>,
    first: i64,
    next: i64,
    /// Where it was when the source was last asked.
    noted: Option<i64>,
    /// Where reading ends; `None`: never.
    end: Option<i64>,
}

impl Partition {
    fn is_done(&self) -> bool {
        self.end.is_some_and(|end| self.next >= end)
    }
}

impl KafkaSource {
    /// Asks the brokers for the topic's partitions and begins to read. If no broker answers, it does so when it is polled.
    ///
    /// # Errors
    /// [`Cause::user`] if the topic does not exist, a setting is not supported, or a login or certificate is refused.
    pub fn open(mut settings: KafkaSourceSettings) -> Result<KafkaSource, Cause> {
        settings.decoder.csv.header = Some(false);
        let gathered = gathered(&settings, None)?;
        let schema = SchemaRef::clone(&settings.decoder.schema);
        let consumer = consumer(&settings.connection)?;
        let waiting = format!("the source of topic '{}'", settings.topic);
        let outage = BrokerOutage::new(&settings.connection.brokers, waiting);
        let mut source = KafkaSource {
            schema,
            consumer,
            partitions: BTreeMap::new(),
            gathered,
            rows: 0,
            has_begun: false,
            is_assigned: false,
            resumed: None,
            outage,
            next_trial: Instant::now(),
            settings,
        };
        source.try_to_begin(AWAY_WAIT)?;
        Ok(source)
    }

    /// Begins, if a broker answers within this time.
    fn try_to_begin(&mut self, wait: Duration) -> Result<(), Cause> {
        let begun = self.begin(wait);
        let (client, retry_for) = (self.consumer.client(), self.settings.retry_for);
        match begun {
            Err(cause) if cause.fault == Fault::Operation => {
                self.outage.failed(client, Some(cause.message.to_string()), retry_for);
                let lasted = self.outage.lasts().unwrap_or_default();
                if lasted >= retry_for {
                    let seconds = lasted.as_secs();
                    return Err(
                        cause.map_message(|text| format!("{text}; gave up after {seconds} s (retry_for)"))
                    );
                }
                self.next_trial = Instant::now() + PAUSE;
                Ok(())
            }
            begun => begun,
        }
    }

    /// Finds the partitions, and reads on where earlier runs stopped.
    fn begin(&mut self, wait: Duration) -> Result<(), Cause> {
        let (brokers, topic) = (self.settings.connection.brokers.as_str(), self.settings.topic.as_str());
        let consumer = &self.consumer;
        let mut found = BTreeMap::new();
        // Nothing is assigned yet, so it only has errors.
        let serve = || drop(consumer.poll(Duration::ZERO));
        for number in partitions(consumer.client(), &serve, brokers, topic, wait)? {
            let bounds = consumer.fetch_watermarks(topic, number, ANSWER_WAIT);
            let (low, high) =
                bounds.map_err(|error| unreachable_brokers(consumer.client(), brokers, &error))?;
            let first = if self.settings.start == KafkaStart::Earliest { low } else { high };
            let end = self.settings.end_at_end.then_some(high);
            found.insert(number, Partition { available: low..high, first, next: first, noted: None, end });
        }
        self.outage.over(consumer.client());
        (self.partitions, self.has_begun) = (found, true);
        match self.resumed.take() {
            Some(offsets) => self.resume_at(&offsets),
            None => Ok(()),
        }
    }

    /// Reads where each partition is. Once: librdkafka can abort if partitions that start are assigned again.
    fn assign(&mut self) -> Result<(), Cause> {
        if std::mem::replace(&mut self.is_assigned, true) {
            return Ok(());
        }
        let mut offsets = TopicPartitionList::new();
        for (number, Partition { next, .. }) in &self.partitions {
            offsets
                .add_partition_offset(&self.settings.topic, *number, Offset::Offset(*next))
                .map_err(|error| Cause::bug(format!("kafka offset {next}: {error}")).with_source(error))?;
        }
        let brokers = &self.settings.connection.brokers;
        self.consumer.assign(&offsets).map_err(|error| unusable(brokers, &error))
    }

    /// Makes only these of the declared columns, in this order. Call it before the first poll.
    ///
    /// # Errors
    /// [`Cause::bug`] if such a column does not exist.
    pub fn set_projection(&mut self, columns: &[usize]) -> Result<(), Cause> {
        self.schema = crate::formats::project(&self.settings.decoder.schema, columns)?;
        self.gathered = gathered(&self.settings, Some(columns))?;
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.has_begun && self.partitions.values().all(Partition::is_done)
    }

    /// Reads messages until enough wait; waits only for the first one.
    fn gather(&mut self, until: Instant) -> Result<(), Cause> {
        while self.gathered.messages() < BATCH_ROWS && self.gathered.bytes() < TEXT_BYTES_MAX {
            let wait = match self.gathered.messages() {
                0 => until.saturating_duration_since(Instant::now()),
                _ => Duration::ZERO,
            };
            match self.consumer.poll(wait) {
                None => break,
                Some(Ok(message)) => {
                    heard(&mut self.outage, &self.consumer);
                    let (number, offset) = (message.partition(), message.offset());
                    let Some(partition) = self.partitions.get_mut(&number) else { continue };
                    if !partition.is_done() {
                        partition.next = offset + 1;
                        // A message beyond the end: the last ones before it are not messages (but markers of transactions).
                        if partition.end.is_none_or(|end| offset < end) {
                            self.gathered.push((number, offset), message.payload())?;
                        }
                    }
                }
                Some(Err(KafkaError::PartitionEOF(number))) => {
                    heard(&mut self.outage, &self.consumer);
                    if let Some(partition) = self.partitions.get_mut(&number) {
                        partition.next = partition.end.unwrap_or(partition.next).max(partition.next);
                    }
                    // With nothing left to read a source that ends must not wait.
                    if self.settings.end_at_end && self.has_ended() {
                        break;
                    }
                }
                Some(Err(error)) => self.trouble(&error)?,
            }
            if self.settings.end_at_end && self.has_ended() {
                break;
            }
        }
        self.gathered.decode(false)
    }

    /// Continues behind what earlier runs took in.
    fn resume_at(&mut self, offsets: &SourceOffsets) -> Result<(), Cause> {
        let (brokers, topic) = (&self.settings.connection.brokers, &self.settings.topic);
        for (part, at) in offsets {
            let next = recorded_offset(at)?;
            let number = i32::try_from(*part).ok();
            let Some(partition) = number.and_then(|number| self.partitions.get_mut(&number)) else {
                return Err(Cause::user(format!(
                    "kafka {brokers}, topic '{topic}': it no longer has partition {part}, of which earlier runs have \
                     read {next} messages; check that it is the same topic"
                )));
            };
            let available = &partition.available;
            if next < available.start || next > available.end {
                return Err(Cause::user(format!(
                    "kafka {brokers}, topic '{topic}': partition {part} has messages from offset {} up to {}, and \
                     offset {next} follows in this query; messages were deleted before they were read, or it is not \
                     the same topic any more. To begin again with what is there, start with a new journal",
                    available.start, available.end
                )));
            }
            (partition.first, partition.next, partition.noted) = (next, next, Some(next));
        }
        // A partition that was added since has nothing that should be left out.
        for partition in self.partitions.values_mut().filter(|partition| partition.noted.is_none()) {
            (partition.first, partition.next) = (partition.available.start, partition.available.start);
        }
        Ok(())
    }

    /// Whether reading continues by itself after this error.
    fn trouble(&mut self, error: &KafkaError) -> Result<(), Cause> {
        let failed = |fault: Fault, reason: String| {
            let KafkaSourceSettings { connection, topic, .. } = &self.settings;
            let text = format!("kafka {}, topic '{topic}': {reason}", connection.brokers);
            Err(Cause::new(fault, text).with_source(error.clone()))
        };
        match error {
            KafkaError::MessageConsumption(RDKafkaErrorCode::AllBrokersDown) => {
                self.outage.failed(self.consumer.client(), None, self.settings.retry_for);
                Ok(())
            }
            KafkaError::MessageConsumption(
                RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange,
            ) => failed(
                Fault::Operation,
                "messages were deleted before they were read; let the topic retain them longer, or start from \
                 scratch"
                    .to_owned(),
            ),
            KafkaError::MessageConsumption(
                code @ (RDKafkaErrorCode::UnknownTopic
                | RDKafkaErrorCode::UnknownTopicOrPartition
                | RDKafkaErrorCode::UnknownPartition
                | RDKafkaErrorCode::TopicAuthorizationFailed),
            ) => failed(
                Fault::User,
                format!("{code}; check that the topic still exists and that you may read it"),
            ),
            KafkaError::MessageConsumptionFatal(code) => {
                failed(Fault::Operation, format!("reading failed permanently: {code}"))
            }
            _ => Ok(()),
        }
    }

    /// Tells of brokers that are away, and gives up on those that have been for too long, or that refuse the login. They may
    /// be back without having anything to send.
    fn check_brokers(&mut self) -> Result<(), Cause> {
        let Some(lasted) = self.outage.lasts() else { return Ok(()) };
        if Instant::now() < self.next_trial {
            return Ok(());
        }
        self.next_trial = Instant::now() + PAUSE;
        let (client, brokers) = (self.consumer.client(), &self.settings.connection.brokers);
        let answer = self.consumer.fetch_metadata(Some(&self.settings.topic), Duration::from_millis(100));
        let Err(error) = answer else {
            self.outage.over(client);
            return Ok(());
        };
        let cause = unreachable_brokers(client, brokers, &error);
        // A broker that starts may refuse everybody for a moment.
        if cause.fault == Fault::User && lasted > ANSWER_WAIT {
            return Err(cause);
        }
        if lasted >= self.settings.retry_for {
            let seconds = lasted.as_secs();
            return Err(cause.map_message(|text| format!("{text}; gave up after {seconds} s (retry_for)")));
        }
        self.outage.failed(client, None, self.settings.retry_for);
        Ok(())
    }
}

/// A broker has sent something.
fn heard(outage: &mut BrokerOutage, consumer: &BaseConsumer<ClientLog>) {
    if outage.lasts().is_some() {
        outage.over(consumer.client());
    }
}

impl Source for KafkaSource {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    fn poll(&mut self, wait: Duration) -> Result<Polled, Cause> {
        let until = Instant::now() + wait;
        loop {
            if let Some(batch) = self.gathered.take()? {
                self.rows += batch.num_rows() as u64;
                return Ok(Polled::Rows(batch));
            }
            if self.has_ended() {
                return Ok(Polled::Ended);
            }
            if !self.has_begun {
                if Instant::now() < self.next_trial {
                    let until = until.min(self.next_trial);
                    std::thread::sleep(until.saturating_duration_since(Instant::now()));
                    return Ok(Polled::Nothing);
                }
                self.try_to_begin(TRIAL_WAIT)?;
                continue;
            }
            self.assign()?;
            self.check_brokers()?;
            self.gather(until)?;
            if let Some(batch) = self.gathered.take()? {
                self.rows += batch.num_rows() as u64;
                return Ok(Polled::Rows(batch));
            }
            if Instant::now() >= until && !self.has_ended() {
                return Ok(Polled::Nothing);
            }
        }
    }

    /// The next message of each partition that was read since; the first time, of all of them, so that one without
    /// messages is not skipped to its new end later.
    fn offsets(&mut self) -> Vec<SourceOffset> {
        let changed =
            self.partitions.iter_mut().filter(|(_, partition)| partition.noted != Some(partition.next));
        let noted = changed.map(|(number, partition)| {
            partition.noted = Some(partition.next);
            SourceOffset { part: u64::from(number.unsigned_abs()), at: Some(offset_record(partition.next)) }
        });
        noted.collect()
    }

    fn resume(&mut self, offsets: &SourceOffsets) -> Result<(), Cause> {
        if self.has_begun {
            self.resume_at(offsets)
        } else {
            self.resumed = Some(offsets.clone());
            Ok(())
        }
    }

    fn keep_bad_records(&mut self) {
        self.gathered.keep_bad_records();
    }

    fn faults(&mut self) -> Faults {
        self.gathered.take_faults()
    }

    fn progress(&self) -> Progress {
        let parts = self.partitions.values();
        let total: Option<i64> =
            parts.clone().map(|part| part.end.map(|end| (end - part.first).max(0))).sum();
        let read: i64 = parts.map(|part| part.next.min(part.end.unwrap_or(part.next)) - part.first).sum();
        match total {
            Some(total) => Progress { done: read.max(0) as u64, total: Some(total as u64) },
            None => Progress { done: self.rows, total: None },
        }
    }

    fn is_finite(&self) -> bool {
        self.settings.end_at_end
    }
}

impl std::fmt::Debug for KafkaSource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("KafkaSource").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// The version of an offset's record.
const OFFSET_VERSION: u8 = 1;
/// An offset as a durable query keeps it: a version, and the number.
fn offset_record(next: i64) -> Vec<u8> {
    let mut record = vec![OFFSET_VERSION];
    record.put_i64(next);
    record
}

fn recorded_offset(record: &[u8]) -> Result<i64, Cause> {
    let mut fields = Fields(record);
    match (fields.u8(), fields.i64()) {
        (Ok(OFFSET_VERSION), Ok(next)) if fields.0.is_empty() => Ok(next),
        _ => Err(Cause::user(
            "kafka: the journal holds offsets of another version of Tidemill; continue with the version that wrote \
             them, or start with a new journal",
        )),
    }
}

fn gathered(settings: &KafkaSourceSettings, columns: Option<&[usize]>) -> Result<MessageBatches, Cause> {
    let mut decoder = text_decoder(settings.format.clone(), settings.decoder.clone())?;
    if let Some(columns) = columns {
        decoder.set_projection(columns)?;
    }
    Ok(MessageBatches::new(&settings.topic, settings.format.clone(), settings.decoder.csv.quote, decoder))
}

fn consumer(connection: &KafkaConnection) -> Result<BaseConsumer<ClientLog>, Cause> {
    connection
        .client()?
        // The library wants a name even if no group is joined.
        .set("group.id", "tidemill")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("enable.partition.eof", "true")
        // Messages that are gone are never skipped silently.
        .set("auto.offset.reset", "error")
        // Messages of transactions that were not committed do not count.
        .set("isolation.level", "read_committed")
        .set("queued.max.messages.kbytes", AHEAD_KIB_MAX)
        .create_with_context(ClientLog::default())
        .map_err(|error| unusable(&connection.brokers, &error))
}
