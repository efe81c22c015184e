//! Writes events of the program to a log that is kept.

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::recent_log::RecentLog;
use super::record::LogRecord;

/// The start of the names of all our crates. What libraries log is not ours to explain.
const OUR_TARGETS: &str = "tidemill";

/// Writes events to a [`RecentLog`](crate::RecentLog).
pub struct RecentLogLayer {
    log: RecentLog,
    level: Level,
}

impl RecentLogLayer {
    /// Writes the events of Tidemill that are at least as severe as this.
    pub fn new(log: &RecentLog, level: Level) -> RecentLogLayer {
        RecentLogLayer { log: log.clone(), level }
    }
}

impl<S: Subscriber> Layer<S> for RecentLogLayer {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let metadata = event.metadata();
        // Not by `enabled`, which would decide for the other layers, too.
        if *metadata.level() <= self.level && metadata.target().starts_with(OUR_TARGETS) {
            self.log.add(LogRecord::of(event));
        }
    }
}
