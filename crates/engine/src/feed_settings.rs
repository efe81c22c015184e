//! How a source is fed: its columns, its event time, and what happens when it is silent or ahead of the clock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidemill_core::{Clock, Expression, Source, TimeOfDay};

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
    /// What says the time of day for that.
    pub clock: AdmissionClock,
}

/// The clock against which event times are held that come in: the time of day, unless somebody else says what time it is.
///
/// ```
/// use std::sync::Arc;
/// use tidemill_engine::{AdmissionClock, Clock, ManualClock};
/// assert!(AdmissionClock::default().now_ns() > 1_700_000_000_000_000_000);
/// assert_eq!(AdmissionClock::new(Arc::new(ManualClock::default())).now_ns(), 0);
/// ```
#[derive(Clone)]
pub struct AdmissionClock(Arc<dyn Clock>);

impl AdmissionClock {
    /// This clock.
    pub fn new(clock: Arc<dyn Clock>) -> AdmissionClock {
        AdmissionClock(clock)
    }
}

impl Default for AdmissionClock {
    fn default() -> Self {
        AdmissionClock(Arc::new(TimeOfDay))
    }
}

impl Clock for AdmissionClock {
    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }
}

impl fmt::Debug for AdmissionClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AdmissionClock").finish_non_exhaustive()
    }
}

impl FeedSettings {
    /// After how long without rows a source that lives usually counts as idle.
    pub const IDLE_AFTER: Duration = Duration::from_secs(5);
    /// How far ahead of the time of day the event times of a source that lives usually may be. A clock that is not set is
    /// off by more than this, one that is set by less.
    pub const MAX_AHEAD: Duration = Duration::from_secs(3600);

    /// The usual settings of a source: those above, if it lives, and none otherwise.
    pub fn usual_of(source: &dyn Source) -> FeedSettings {
        let lives = !source.is_finite();
        FeedSettings {
            idle_after: lives.then_some(FeedSettings::IDLE_AFTER),
            max_ahead: (lives && !source.is_repeatable()).then_some(FeedSettings::MAX_AHEAD),
            ..FeedSettings::default()
        }
    }
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
