//! The client that sends messages, and what became of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;
use tidemill_core::{Cause, Fault};

use super::broker_outage::BrokerOutage;
use super::client_log::{ClientLog, Logged};
use super::messages::Message;
use super::{ANSWER_WAIT, fault_of, is_refused_login};

/// How long it waits for room among the messages in flight before it checks again.
const ROOM_WAIT: Duration = Duration::from_millis(100);
/// How long it waits for answers before it checks whether all are there.
const LOOK_WAIT: Duration = Duration::from_millis(5);

/// The fate of the messages that no broker has accepted.
#[derive(Default)]
pub(super) struct Deliveries {
    failures: Mutex<Failures>,
    log: ClientLog,
}

#[derive(Default)]
struct Failures {
    /// Messages whose batch was refused because of what is in it, and why.
    refused: BTreeMap<usize, String>,
    /// Why another message was not accepted.
    failed: Option<KafkaError>,
}

impl Deliveries {
    fn lock(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock()
    }

    /// Forgets the fate of messages that are sent again.
    pub fn clear(&self) {
        *self.lock() = Failures::default();
    }

    /// Whether the first failure is that a message was not sent because its transaction was undone.
    pub fn is_purged(&self) -> bool {
        self.lock().failed.as_ref().is_some_and(is_purge)
    }
}

impl Logged for Deliveries {
    fn client_log(&self) -> &ClientLog {
        &self.log
    }
}

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.log.log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.log.error(error, reason);
    }
}

impl ProducerContext for Deliveries {
    /// The number of the message.
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let Err((error, message)) = result else { return self.log.is_well() };
        let mut failures = self.lock();
        match refusal(error, message.payload_len()) {
            Some(reason) => drop(failures.refused.insert(number, reason)),
            None => drop(failures.failed.get_or_insert_with(|| error.clone())),
        }
    }
}

fn is_purge(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{PurgeInflight, PurgeQueue};
    matches!(error, KafkaError::MessageProduction(PurgeQueue | PurgeInflight))
}

/// Why a message is refused because of what is in it; `None` if it failed for another reason.
fn refusal(error: &KafkaError, bytes: usize) -> Option<String> {
    let KafkaError::MessageProduction(code) = error else { return None };
    match code {
        RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::MessageBatchTooLarge => {
            Some(format!("the message has {bytes} bytes, which is more than the topic accepts"))
        }
        RDKafkaErrorCode::InvalidRecord
        | RDKafkaErrorCode::InvalidDifferentRecord
        | RDKafkaErrorCode::InvalidMessage => Some(format!(
            "the topic does not accept the message ({code}); a compacted topic needs a key in each message"
        )),
        _ => None,
    }
}

/// Sends messages to a topic.
pub(super) struct MessageProducer {
    pub producer: BaseProducer<Deliveries>,
    pub topic: String,
    pub outage: RefCell<BrokerOutage>,
    pub is_stopped: Arc<AtomicBool>,
}

impl MessageProducer {
    /// Sends a message, waiting for room; each message has this time. Returns why it is refused, if that is known at once.
    ///
    /// # Errors
    /// [`Cause::operation`] if this or an earlier message failed for another reason.
    pub fn send(&self, message: &Message<'_>, wait: Duration) -> Result<Option<String>, Cause> {
        let mut record = BaseRecord::<str, [u8], usize>::with_opaque_to(&self.topic, message.number)
            .payload(message.value);
        if let Some(key) = message.key {
            record = record.key(key);
        }
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(None),
                // Every message leaves the queue in time: accepted, or given up.
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    record = back;
                    self.producer.poll(ROOM_WAIT);
                    self.look(wait)?;
                }
                Err((error, _)) => {
                    let refused = refusal(&error, message.value.len());
                    return refused.map(Some).ok_or_else(|| failed(error));
                }
            }
        }
    }

    /// Waits until each message is accepted or refused; each has this time.
    ///
    /// # Errors
    /// [`Cause::operation`] if one is neither, [`Cause::user`] if that is the user's fault.
    pub fn flush(&self, retry_for: Duration) -> Result<(), Cause> {
        // A little longer than each message has, so that the message's own reason is reported.
        let until = Instant::now() + retry_for + Duration::from_secs(5);
        loop {
            // In short steps: the client looks for answers ten times a second, which is too seldom where one message
            // waits for another.
            let flushed = self.producer.flush(LOOK_WAIT);
            self.look(retry_for)?;
            match flushed {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() >= until => return Err(failed(error)),
                Err(_) => {}
            }
        }
    }

    /// The messages of batches that were refused since the last call.
    pub fn take_refused(&self) -> BTreeMap<usize, String> {
        std::mem::take(&mut self.producer.context().lock().refused)
    }

    /// Fails if a message has, or the query is to stop. Tells of brokers that are away.
    fn look(&self, retry_for: Duration) -> Result<(), Cause> {
        let client = self.producer.client();
        let log = client.context().client_log();
        let failure = self.producer.context().lock().failed.clone();
        if let Some(error) = failure {
            let is_late = error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageTimedOut);
            let reason = log.reason().filter(|_| is_late);
            let reason = reason.map_or(String::new(), |reason| format!(" ({reason})"));
            return Err(failed(error).map_message(|text| {
                if is_late {
                    format!("{text}{reason}; gave up after {} s (retry_for)", retry_for.as_secs())
                } else {
                    text.to_owned()
                }
            }));
        }
        // A broker that starts may refuse everybody for a moment.
        let lasts = self.outage.borrow().lasts().is_some_and(|lasted| lasted > ANSWER_WAIT);
        if let Some(reason) = log.reason().filter(|reason| lasts && is_refused_login(reason)) {
            let error = KafkaError::Global(RDKafkaErrorCode::Authentication);
            return Err(Cause::user(format!("{reason}; check sasl, user and password")).with_source(error));
        }
        if self.is_stopped() {
            return Err(Cause::operation("the query was stopped before a broker answered"));
        }
        self.tell(retry_for);
        Ok(())
    }

    /// Tells of brokers that are away, or back.
    pub fn tell(&self, retry_for: Duration) {
        let (client, mut outage) = (self.producer.client(), self.outage.borrow_mut());
        if client.context().client_log().are_all_down() {
            outage.failed(client, None, retry_for)
        } else if outage.lasts().is_some() {
            outage.over(client)
        } else {
        }
    }

    /// Whether the query is told to stop at once.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }
}

/// The error of a message, with whose fault it is.
fn failed(error: KafkaError) -> Cause {
    let fault = error.rdkafka_error_code().map_or(Fault::Operation, fault_of);
    Cause::new(fault, error.to_string()).with_source(error)
}
