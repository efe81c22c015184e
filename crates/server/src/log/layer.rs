//! Writes events of the program to a log that is kept.

use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::recent_log::RecentLog;
use super::record::{LogRecord, SpanFields};

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

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for RecentLogLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(SpanFields::of(attributes));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        // Not by `enabled`, which would decide for the other layers, too.
        if *metadata.level() <= self.level && metadata.target().starts_with(OUR_TARGETS) {
            let spans = context.event_scope(event).into_iter().flat_map(|scope| scope.from_root());
            let mut record = LogRecord::of(event);
            spans.for_each(|span| {
                if let Some(fields) = span.extensions().get::<SpanFields>() {
                    record.add(fields);
                }
            });
            self.log.add(record);
        }
    }
}
