//! Kafka: rows from a topic ([`KafkaSource`]), rows to a topic ([`KafkaSink`]); with the feature `kafka`.
//!
//! Both talk to the brokers through librdkafka, which reads ahead and writes on its own threads. Connections are
//! neither encrypted nor authenticated.

mod message_batches;
mod messages;
mod producer;
mod sink;
mod source;

use std::time::{Duration, Instant};

use rdkafka::client::{Client, ClientContext};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use tidemill_core::error::Cause;

pub use sink::{KafkaSink, KafkaSinkSettings};
pub use source::{KafkaSource, KafkaSourceSettings, KafkaStart};

/// How long a broker may take to answer when a query starts.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// How long to wait for the creation of a topic that does not exist.
const CREATION_WAIT: Duration = Duration::from_secs(3);
/// The pause before asking again for a topic that is being created.
const PAUSE: Duration = Duration::from_millis(200);

/// The numbers of a topic's partitions.
fn partitions<C: ClientContext>(client: &Client<C>, brokers: &str, topic: &str) -> Result<Vec<i32>, Cause> {
    let asked = Instant::now();
    loop {
        let metadata = client.fetch_metadata(Some(topic), ANSWER_WAIT);
        let metadata = metadata.map_err(|error| unreachable_brokers(brokers, &error))?;
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        let error = found.and_then(|found| found.error()).map(RDKafkaErrorCode::from);
        let mut numbers: Vec<i32> =
            found.map_or(Vec::new(), |found| found.partitions().iter().map(|part| part.id()).collect());
        match error {
            None if !numbers.is_empty() => {
                numbers.sort_unstable();
                return Ok(numbers);
            }
            Some(RDKafkaErrorCode::LeaderNotAvailable) if asked.elapsed() < ANSWER_WAIT => {}
            // The broker creates topics when a sink first asks for them, if it is configured so.
            Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) | None => {
                if asked.elapsed() > CREATION_WAIT {
                    return Err(Cause::user(format!(
                        "kafka {brokers}: there is no topic '{topic}'; create it, or check its name"
                    )));
                }
            }
            Some(error) => {
                return Err(Cause::operation(format!(
                    "kafka {brokers}: topic '{topic}' cannot be used: {error}"
                )));
            }
        }
        std::thread::sleep(PAUSE);
    }
}

fn unreachable_brokers(brokers: &str, error: &KafkaError) -> Cause {
    Cause::operation(format!(
        "kafka {brokers}: no broker has answered: {error}; check that they are running and that the address \
         host:port is right"
    ))
    .with_source(error.clone())
}

/// The error for a client that could not be created from its settings.
fn unusable(brokers: &str, error: &KafkaError) -> Cause {
    Cause::user(format!(
        "kafka {brokers}: a client cannot be created with these settings: {error}; write brokers = \
         'host:port,host:port'"
    ))
    .with_source(error.clone())
}
