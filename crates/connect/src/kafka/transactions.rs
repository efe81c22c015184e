//! Commits as transactions of Kafka that name their cycle: exactly once.
//!
//! The last committed cycle is kept by the brokers, as the offset that a consumer group of the transactions' name has
//! committed in the same transaction as the messages. Nobody consumes in that group.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerGroupMetadata};
use rdkafka::error::KafkaError;
use rdkafka::producer::Producer;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::RDKafkaErrorCode;
use tidemill_core::{Cause, Fault};

use super::client_log::{ClientLog, Logged};
use super::connection::KafkaConnection;
use super::producer::MessageProducer;
use super::{ANSWER_WAIT, fault_of};

/// How long it waits before it asks a broker again that could not answer yet.
const PAUSE: Duration = Duration::from_millis(50);
/// How long brokers that were reached may take to let transactions begin, at most.
const BEGIN_WAIT: Duration = Duration::from_secs(30);
/// The partition for which the cycle is kept; each topic has it.
const PARTITION: i32 = 0;

/// The transactions of a sink.
pub(super) struct Transactions {
    topic: String,
    group: ConsumerGroupMetadata,
    wait: Duration,
    last_committed: Option<u64>,
}

impl Transactions {
    /// Ends what an earlier run under this name has left open, keeps that run from sending more if it still does, and
    /// asks for the last cycle that was committed.
    ///
    /// # Errors
    /// [`Cause::operation`] if the brokers do not answer, or do not allow it.
    pub fn begin(
        name: &str,
        topic: &str,
        connection: &KafkaConnection,
        sender: &MessageProducer,
        wait: Duration,
    ) -> Result<Transactions, Cause> {
        let producer = &sender.producer;
        let failed = |doing: &str, error: &KafkaError| {
            let reason = producer
                .context()
                .client_log()
                .reason()
                .map_or(String::new(), |reason| format!(" ({reason})"));
            let text = format!(
                "kafka {}: transactions '{name}': {doing}: {error}{reason}; check that this user may use transactional \
                 identifiers and groups of this name, and that the topics __transaction_state and __consumer_offsets \
                 can have as many replicas as the brokers want (transaction.state.log.replication.factor)",
                connection.brokers
            );
            let fault = error.rdkafka_error_code().map_or(Fault::Operation, fault_of);
            Cause::new(fault, text).with_source(error.clone())
        };
        let begin_wait = wait.clamp(ANSWER_WAIT, BEGIN_WAIT);
        let begun = retried(begin_wait, sender, || producer.init_transactions(ANSWER_WAIT));
        begun.map_err(|error| failed("they cannot begin", &error))?;
        let mut client = connection.client()?;
        client.set("group.id", name).set("enable.auto.commit", "false");
        let consumer: BaseConsumer<ClientLog> = client
            .create_with_context(ClientLog::default())
            .map_err(|error| failed("no client can be made", &error))?;
        let mut asked = TopicPartitionList::new();
        asked.add_partition(topic, PARTITION);
        let answer = retried(begin_wait, sender, || consumer.committed_offsets(asked.clone(), ANSWER_WAIT));
        let answer = answer.map_err(|error| failed("the last cycle is not known", &error))?;
        let group = consumer.group_metadata();
        let group = group.ok_or_else(|| Cause::bug(format!("kafka: the group '{name}' has no metadata")))?;
        let next = answer.find_partition(topic, PARTITION).map(|partition| partition.offset());
        let last_committed = match next {
            // What is kept is the cycle that follows, as with all offsets.
            Some(Offset::Offset(next)) => u64::try_from(next).ok().and_then(|next| next.checked_sub(1)),
            _ => None,
        };
        Ok(Transactions { topic: topic.to_owned(), group, wait, last_committed })
    }

    /// The last cycle that was committed under this name.
    pub fn last_committed(&self) -> Option<u64> {
        self.last_committed
    }

    /// Opens a transaction.
    ///
    /// # Errors
    /// [`Cause::operation`] if another run under this name has begun since.
    pub fn open(&self, sender: &MessageProducer) -> Result<(), Cause> {
        sender.producer.begin_transaction().map_err(|error| refused("cannot be opened", &error))
    }

    /// Commits what was sent since, together with the cycle.
    ///
    /// # Errors
    /// [`Cause::operation`] if it is not committed.
    pub fn commit(&mut self, sender: &MessageProducer, cycle: u64) -> Result<(), Cause> {
        let next = i64::try_from(cycle + 1).map_err(|error| Cause::bug(format!("cycle {cycle}: {error}")))?;
        let mut offsets = TopicPartitionList::new();
        offsets
            .add_partition_offset(&self.topic, PARTITION, Offset::Offset(next))
            .map_err(|error| Cause::bug(format!("kafka offset {next}: {error}")).with_source(error))?;
        let producer = &sender.producer;
        let committed = self
            .retried(sender, || producer.send_offsets_to_transaction(&offsets, &self.group, ANSWER_WAIT))
            .and_then(|()| self.retried(sender, || producer.commit_transaction(ANSWER_WAIT)));
        if let Err(error) = committed {
            // Those who read only what is committed would otherwise wait for the transaction until it expires.
            let _ = producer.abort_transaction(ANSWER_WAIT);
            return Err(refused("was not committed", &error));
        }
        self.last_committed = Some(cycle);
        Ok(())
    }

    fn retried<T>(
        &self,
        sender: &MessageProducer,
        trial: impl FnMut() -> Result<T, KafkaError>,
    ) -> Result<T, KafkaError> {
        retried(self.wait, sender, trial)
    }

    /// Undoes what was sent since. Each message has its fate when it returns.
    ///
    /// # Errors
    /// [`Cause::operation`] if that is not possible.
    pub fn abort(&self, sender: &MessageProducer) -> Result<(), Cause> {
        let producer = &sender.producer;
        let aborted = self.retried(sender, || producer.abort_transaction(ANSWER_WAIT));
        // The messages that were not sent yet report that they will not be.
        while producer.in_flight_count() > 0 {
            producer.poll(PAUSE);
        }
        aborted.map_err(|error| refused("cannot be undone", &error))
    }
}

fn refused(what: &str, error: &KafkaError) -> Cause {
    let remedy = match error {
        KafkaError::Transaction(error) if error.is_fatal() => {
            "; another run of the query may have begun: only the last one continues"
        }
        _ => "",
    };
    Cause::operation(format!("a transaction {what}: {error}{remedy}")).with_source(error.clone())
}

/// Tries again while the brokers say that this helps, for this long, or until it is stopped. Tells if they are away.
fn retried<T>(
    wait: Duration,
    sender: &MessageProducer,
    mut trial: impl FnMut() -> Result<T, KafkaError>,
) -> Result<T, KafkaError> {
    let until = Instant::now() + wait;
    let may_continue = || Instant::now() < until && !sender.is_stopped();
    loop {
        match trial() {
            Err(error) if helps_to_wait(&error) && may_continue() => {
                sender.tell(wait);
                std::thread::sleep(PAUSE);
            }
            outcome => return outcome,
        }
    }
}

/// Whether a broker is about to be able to answer, such as one that has just become responsible for a group.
fn helps_to_wait(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator};
    match error {
        KafkaError::Transaction(error) => error.is_retriable(),
        KafkaError::MetadataFetch(code) => {
            matches!(code, CoordinatorLoadInProgress | CoordinatorNotAvailable | NotCoordinator)
        }
        _ => false,
    }
}
