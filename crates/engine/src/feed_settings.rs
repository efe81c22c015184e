//! How a source is fed: its columns, its event time, and what happens when it is silent or ahead of the clock.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::Expression;

/// How a source is fed.
#[derive(Clone, Debug, Default)]
pub struct FeedSettings {
    /// The columns that enter the gateway, computed from the source's; `None`: the source's own.
    pub columns: Option<Vec<Arc<dyn Expression>>>,
    /// Which of these is the event time; `None`: the stream has no event time.
    pub event_time: Option<EventTime>,
    /// After this long without rows the source counts as idle; `None`: never.
    pub idle_after: Option<Duration>,
    /// Rows whose event time is further ahead of the time of day than this are refused, because one of them would make
    /// everything after it late. `None`: event time may be arbitrarily far ahead. Not for repeatable sources, whose
    /// rows must be the same on any day.
    pub max_ahead: Option<Duration>,
}

/// The event time of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTime {
    /// Its column, a timestamp in nanoseconds.
    pub column: usize,
    /// A row is late if its event time is more than this behind the largest one before it. If a source has several
    /// connections, the one that is furthest behind counts.
    pub delay_ns: i64,
}

impl EventTime {
    /// The event time of a source whose gateway was complete up to this time.
    pub(crate) fn before(&self, watermark: i64) -> i64 {
        if watermark > i64::MIN { watermark.saturating_add(self.delay_ns) } else { i64::MIN }
    }
}
