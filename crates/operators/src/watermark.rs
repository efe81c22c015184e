//! The event time up to which an operator's inputs are complete.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidemill_core::error::Cause;
use tidemill_core::{Cut, SnapshotReader, SnapshotWriter};

/// The gateways that an operator's rows come from, and how far its rows may be behind them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatermarkSpec {
    /// The gateways whose watermark counts.
    pub sources: Vec<usize>,
    /// How much earlier than the gateways' watermark a row's event time may be, because an earlier operator held it
    /// back; in nanoseconds. See [`interval_join`](crate::interval_join). [`FOREVER_NS`]: until the end.
    pub delay_ns: i64,
}

/// The delay of rows that were held until the end of all input. Before the end, nothing is known of their times.
pub const FOREVER_NS: i64 = i64::MAX;

impl From<Vec<usize>> for WatermarkSpec {
    fn from(sources: Vec<usize>) -> Self {
        WatermarkSpec { sources, delay_ns: 0 }
    }
}

/// The largest watermark so far: every row still to come has this event time or a later one.
///
/// ```
/// use tidemill_core::Cut;
/// use tidemill_operators::watermark::{Watermark, WatermarkSpec};
///
/// let mut watermark = Watermark::new(WatermarkSpec { sources: vec![0], delay_ns: 10 });
/// watermark.advance(&Cut { watermarks: vec![100], ..Cut::first() });
/// watermark.advance(&Cut { watermarks: vec![70], ..Cut::first() });
/// assert_eq!(watermark.reached(), 90);
/// ```
#[derive(Clone, Debug)]
pub struct Watermark {
    spec: WatermarkSpec,
    reached: i64,
}

impl Watermark {
    /// Before the first cut.
    pub fn new(spec: WatermarkSpec) -> Self {
        Watermark { spec, reached: i64::MIN }
    }

    /// The event time from which on rows may still come; `i64::MAX` once there can be none.
    pub fn reached(&self) -> i64 {
        self.reached
    }

    /// Applies a cycle's watermark and returns the largest so far.
    pub fn advance(&mut self, cut: &Cut) -> i64 {
        let now = match cut.watermark_of(self.spec.sources.iter().copied()) {
            i64::MAX => i64::MAX,
            _ if self.spec.delay_ns == FOREVER_NS => i64::MIN,
            watermark => watermark.saturating_sub(self.spec.delay_ns),
        };
        self.reached = self.reached.max(now);
        self.reached
    }

    /// The gateways' watermark at which this one reaches `event_time`: the value for an operator's `next_timer`.
    pub fn timer(&self, event_time: i64) -> i64 {
        match self.spec.delay_ns {
            FOREVER_NS => i64::MAX,
            delay_ns => event_time.saturating_add(delay_ns),
        }
    }

    /// Writes it.
    pub fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.i64(self.reached);
    }

    /// Reads it.
    ///
    /// # Errors
    /// If the bytes end early.
    pub fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        self.reached = reader.i64()?;
        Ok(())
    }
}

/// Counts the rows that an operator left out because they came late or have no event time. Clones share the count, so
/// the planner of a query can keep one to display. It is a statistic and not part of the state: a replay counts again.
#[derive(Clone, Debug, Default)]
pub struct LateRows {
    count: Arc<AtomicU64>,
}

impl LateRows {
    /// Counts more rows.
    pub fn add(&self, rows: usize) {
        if rows > 0 {
            self.count.fetch_add(rows as u64, Ordering::Relaxed);
        }
    }

    /// The counter itself, shared with this one.
    pub fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.count)
    }

    /// The number of rows so far.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}
