//! What a client of the brokers says about its connections.

use parking_lot::{Mutex, MutexGuard};
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use tracing::debug;

/// Remembers why a connection failed last. The client itself only reports that no broker answered.
#[derive(Default)]
pub(super) struct ClientLog(Mutex<Connections>);

/// What became of the client's connections since a broker was last heard.
#[derive(Default)]
struct Connections {
    reason: Option<String>,
    failures: u64,
    are_all_down: bool,
}

impl ClientLog {
    /// Why a connection failed last, since a broker was heard.
    pub fn reason(&self) -> Option<String> {
        self.lock().reason.clone()
    }

    /// How many connections have failed since a broker was heard.
    pub fn failures(&self) -> u64 {
        self.lock().failures
    }

    /// Whether no broker is left.
    pub fn are_all_down(&self) -> bool {
        self.lock().are_all_down
    }

    /// A broker was heard.
    pub fn is_well(&self) {
        *self.lock() = Connections::default();
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.0.lock()
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
        let mut connections = self.lock();
        match error.rdkafka_error_code() {
            // That no broker is left follows the reason, and does not add to it.
            Some(RDKafkaErrorCode::AllBrokersDown) => connections.are_all_down = true,
            _ => {
                connections.failures += 1 + suppressed(reason);
                connections.reason = Some(reason.to_owned());
            }
        }
    }
}

/// How often the client has failed in the same way since it last said so: "..., 7 identical error(s) suppressed)".
fn suppressed(reason: &str) -> u64 {
    let before = reason.split(" identical error(s) suppressed").next().filter(|before| *before != reason);
    before.and_then(|before| before.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
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
        assert!(log.are_all_down() && log.failures() == 1);
        let again = "a:9092/bootstrap: Connection refused (after 0ms, 7 identical error(s) suppressed)";
        log.error(global(RDKafkaErrorCode::BrokerTransportFailure), again);
        assert_eq!(log.failures(), 9);
        log.is_well();
        assert!(!log.are_all_down() && log.reason().is_none());
    }
}
