//! What is told about brokers that cannot be reached.

use std::time::{Duration, Instant};

use rdkafka::client::Client;
use tidemill_core::{Outage, SinkOutage};
use tracing::warn;

use super::client_log::Logged;

/// What lasts no longer than this is not told.
const PATIENCE: Duration = Duration::from_secs(1);

/// Brokers that a source or sink waits for.
pub(super) struct BrokerOutage {
    brokers: String,
    /// What waits, such as `rows for topic 'clicks'`.
    waiting: String,
    begun: Option<Instant>,
    outage: Outage,
    /// The same for whoever asks about the sink.
    pub sink: SinkOutage,
}

impl BrokerOutage {
    pub fn new(brokers: &str, waiting: String) -> BrokerOutage {
        BrokerOutage {
            brokers: brokers.to_owned(),
            waiting,
            begun: None,
            outage: Outage::longer_than(PATIENCE),
            sink: SinkOutage::default(),
        }
    }

    /// They are away, for this reason or for the one that the client knows. Says so, if it is time.
    pub fn failed<C: Logged>(&mut self, client: &Client<C>, reason: Option<String>, retry_for: Duration) {
        let now = Instant::now();
        self.begun.get_or_insert(now);
        let log = client.context().client_log();
        let reason = reason.or(log.reason()).unwrap_or_default();
        self.sink.failed(&format!("Kafka at {}: {reason}", self.brokers));
        let Some(report) = self.outage.failed(now) else { return };
        let (brokers, waiting, attempts) = (&self.brokers, &self.waiting, log.failures());
        warn!(brokers, waiting, attempts, lasted = ?report.lasted, reason, ?retry_for, "Kafka is away");
    }

    /// One of them has answered. Says so, if it was told that they were away.
    pub fn over<C: Logged>(&mut self, client: &Client<C>) {
        self.begun = None;
        self.sink.over();
        let log = client.context().client_log();
        if let Some(report) = self.outage.over(Instant::now()) {
            let (brokers, waiting) = (&self.brokers, &self.waiting);
            warn!(brokers, waiting, attempts = log.failures(), after = ?report.lasted, "Kafka is back");
        }
        log.is_well();
    }

    /// Since when they are away.
    pub fn lasts(&self) -> Option<Duration> {
        self.begun.map(|begun| begun.elapsed())
    }
}
