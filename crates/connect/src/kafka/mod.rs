//! Kafka: rows from a topic ([`KafkaSource`]), rows to a topic ([`KafkaSink`]); with the feature `kafka`.
//!
//! Both talk to the brokers through librdkafka, which reads ahead and writes on its own threads.
//! [`KafkaConnection`] says how they reach them.

mod broker_outage;
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
use tidemill_core::error::{Cause, Fault};

use client_log::Logged;
pub use connection::{KafkaConnection, KafkaLogin, KafkaMechanism};
pub use sink::{KafkaSink, KafkaSinkSettings};
pub use source::{KafkaSource, KafkaSourceSettings, KafkaStart};

/// How long a broker may take to answer somebody who does not want to wait for one that is away.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// How long it is asked when a query starts before it counts as away.
const AWAY_WAIT: Duration = Duration::from_secs(3);
/// How long brokers that are away are waited for, unless something else is said.
const RETRY_FOR: Duration = Duration::from_secs(600);
/// How long it is asked before the client looks whether connections were refused.
const TRIAL_WAIT: Duration = Duration::from_secs(1);
/// How long to wait for the creation of a topic that does not exist.
const CREATION_WAIT: Duration = Duration::from_secs(3);
/// The pause before asking again for a topic that is being created.
const PAUSE: Duration = Duration::from_millis(200);

/// The numbers of a topic's partitions. `serve` lets the client report why connections fail.
///
/// # Errors
/// [`Cause::operation`] if no broker has answered within `wait`; [`Cause::user`] if one has refused the client, or does not
/// have the topic.
fn partitions<C: Logged>(
    client: &Client<C>,
    serve: &dyn Fn(),
    brokers: &str,
    topic: &str,
    wait: Duration,
) -> Result<Vec<i32>, Cause> {
    let asked = Instant::now();
    loop {
        let metadata = match client.fetch_metadata(Some(topic), TRIAL_WAIT.min(wait)) {
            Ok(metadata) => metadata,
            Err(error) => {
                serve();
                let reason = client.context().client_log().reason();
                if asked.elapsed() < wait && !reason.is_some_and(|reason| is_refusal(&reason)) {
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
                let text = format!("kafka {brokers}: topic '{topic}' cannot be used: {error}");
                return Err(Cause::new(fault_of(error), text).with_source(KafkaError::MetadataFetch(error)));
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
    let fault = match &reason {
        // It stays so until someone changes something: no need to wait.
        Some(reason) if is_refusal(reason) => Fault::User,
        _ => Fault::Operation,
    };
    let what = reason.unwrap_or_else(|| error.to_string());
    Cause::new(fault, format!("kafka {brokers}: no broker has answered: {what}; {remedy}"))
        .with_source(error.clone())
}

/// Whose fault it is that a broker answers with this error.
fn fault_of(code: RDKafkaErrorCode) -> Fault {
    use RDKafkaErrorCode::{
        ClusterAuthorizationFailed, InvalidTopic, SaslAuthenticationFailed, TopicAuthorizationFailed,
        TransactionalIdAuthorizationFailed, UnknownTopic, UnknownTopicOrPartition,
    };
    match code {
        ClusterAuthorizationFailed
        | InvalidTopic
        | SaslAuthenticationFailed
        | TopicAuthorizationFailed
        | TransactionalIdAuthorizationFailed
        | UnknownTopic
        | UnknownTopicOrPartition => Fault::User,
        _ => Fault::Operation,
    }
}

/// The error for a client that could not be created from its settings.
fn unusable(brokers: &str, error: &KafkaError) -> Cause {
    Cause::user(format!(
        "kafka {brokers}: a client cannot be created with these settings: {error}; write brokers = \
         'host:port,host:port'"
    ))
    .with_source(error.clone())
}
