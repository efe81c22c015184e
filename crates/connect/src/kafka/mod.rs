//! Kafka: rows from a topic ([`KafkaSource`]), rows to a topic ([`KafkaSink`]); with the feature `kafka`.
//!
//! Both talk to the brokers through librdkafka, which reads ahead and writes on its own threads.
//! [`KafkaConnection`] says how they reach them.

mod client_log;
mod connection;
mod message_batches;
mod messages;
mod producer;
mod sink;
mod source;
mod transactions;

use std::time::{Duration, Instant};

use rdkafka::client::Client;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use tidemill_core::error::Cause;

use client_log::Logged;
pub use connection::{KafkaConnection, KafkaLogin, KafkaMechanism};
pub use sink::{KafkaSink, KafkaSinkSettings};
pub use source::{KafkaSource, KafkaSourceSettings, KafkaStart};

/// How long a broker may take to answer when a query starts.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// How long it is asked before the client looks whether connections were refused.
const TRIAL_WAIT: Duration = Duration::from_secs(1);
/// How long to wait for the creation of a topic that does not exist.
const CREATION_WAIT: Duration = Duration::from_secs(3);
/// The pause before asking again for a topic that is being created.
const PAUSE: Duration = Duration::from_millis(200);

/// The numbers of a topic's partitions. `serve` lets the client report why connections fail.
fn partitions<C: Logged>(
    client: &Client<C>,
    serve: &dyn Fn(),
    brokers: &str,
    topic: &str,
) -> Result<Vec<i32>, Cause> {
    let asked = Instant::now();
    loop {
        let metadata = match client.fetch_metadata(Some(topic), TRIAL_WAIT) {
            Ok(metadata) => metadata,
            Err(error) => {
                serve();
                let reason = client.context().client_log().reason();
                if asked.elapsed() < ANSWER_WAIT && !reason.is_some_and(|reason| is_refusal(&reason)) {
                    continue;
                }
                return Err(unreachable_brokers(client, brokers, &error));
            }
        };
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

/// Whether a broker has refused a login. Asking again does not help.
fn is_refused_login(reason: &str) -> bool {
    reason.contains("SASL") && (reason.contains("uthentication") || reason.contains("mechanism"))
}

/// Whether a broker has refused a login or an encrypted connection, or the client the broker's certificate.
fn is_refusal(reason: &str) -> bool {
    is_refused_login(reason) || reason.contains("SSL")
}

fn unreachable_brokers<C: Logged>(client: &Client<C>, brokers: &str, error: &KafkaError) -> Cause {
    let reason = client.context().client_log().reason();
    let remedy = match &reason {
        Some(reason) if is_refused_login(reason) => "check sasl, user and password",
        Some(reason) if is_refusal(reason) => {
            "check that the brokers speak TLS at this port, tls_ca (the authorities that have issued their \
             certificates), and tls_cert and tls_key if they demand a certificate"
        }
        _ => {
            "check that they are running, that the address host:port is right, and whether they demand TLS or a \
             login at this port"
        }
    };
    let what = reason.unwrap_or_else(|| error.to_string());
    Cause::operation(format!("kafka {brokers}: no broker has answered: {what}; {remedy}"))
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
