//! What a client of the brokers says about its connections.

use std::sync::{Mutex, PoisonError};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use tracing::debug;

/// Remembers why a connection failed last. The client itself only reports that no broker answered.
#[derive(Default)]
pub(super) struct ClientLog(Mutex<Option<String>>);

impl ClientLog {
    /// Why a connection failed last.
    pub fn reason(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A context that has a log.
pub(super) trait Logged: ClientContext {
    /// Its log.
    fn client_log(&self) -> &ClientLog;
}

impl Logged for ClientLog {
    fn client_log(&self) -> &ClientLog {
        self
    }
}

impl ClientContext for ClientLog {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        debug!(?level, facility, message, "librdkafka");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        debug!(%error, reason, "librdkafka");
        // That no broker is left follows the reason, and does not add to it.
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.to_owned());
        }
    }
}

impl ConsumerContext for ClientLog {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_failure_is_the_reason() {
        let log = ClientLog::default();
        assert_eq!(log.reason(), None);
        let global = |code| KafkaError::Global(code);
        log.error(global(RDKafkaErrorCode::BrokerTransportFailure), "a:9092/bootstrap: Connection refused");
        log.error(global(RDKafkaErrorCode::AllBrokersDown), "1/1 brokers are down");
        assert_eq!(log.reason().as_deref(), Some("a:9092/bootstrap: Connection refused"));
    }
}
