//! Writes events of the program to a log that is kept.

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::kept_log::KeptLog;
use super::record::LogRecord;

/// The start of the names of all our crates. What libraries log is not ours to explain.
const OUR_TARGETS: &str = "tidemill";

/// Writes events to a [`KeptLog`](crate::KeptLog).
pub struct KeptLogLayer {
    log: KeptLog,
    level: Level,
}

impl KeptLogLayer {
    /// Writes the events of Tidemill that are at least as severe as this.
    pub fn new(log: &KeptLog, level: Level) -> KeptLogLayer {
        KeptLogLayer { log: log.clone(), level }
    }
}

impl<S: Subscriber> Layer<S> for KeptLogLayer {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let metadata = event.metadata();
        // Not by `enabled`, which would decide for the other layers, too.
        if *metadata.level() <= self.level && metadata.target().starts_with(OUR_TARGETS) {
            self.log.add(LogRecord::of(event));
        }
    }
}
