//! The newest records of the log.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tracing::Level;

use super::record::{LogId, LogRecord};

/// The most records that are kept.
const RECORDS_MAX: usize = 2_000;
/// The most bytes that they have, or one record.
const BYTES_MAX: usize = 4 << 20;

/// The newest records of the log of this process: the last 2000 of them, or fewer if they are long. Clones are the same log.
///
/// A [`RecentLogLayer`](crate::RecentLogLayer) writes it; [`HttpOptions::log`](crate::HttpOptions::log) serves it to owners.
///
/// ```
/// use tidemill_server::{RecentLog, RecentLogLayer};
/// use tracing_subscriber::layer::SubscriberExt;
/// let log = RecentLog::default();
/// let layer = RecentLogLayer::new(&log, tracing::Level::INFO);
/// let subscriber = tracing_subscriber::registry().with(layer);
/// tracing::subscriber::with_default(subscriber, || tracing::info!(target: "tidemill_example", "it is kept"));
/// assert_eq!(log.written(), 1);
/// ```
#[derive(Clone, Debug)]
pub struct RecentLog {
    shared: Arc<LogState>,
}

#[derive(Debug)]
struct LogState {
    began_ms: u64,
    records: Mutex<Records>,
    /// The number of the newest record.
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Records {
    kept: VecDeque<Arc<LogRecord>>,
    bytes: usize,
}

impl Default for RecentLog {
    fn default() -> Self {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let shared = LogState {
            began_ms: began.as_millis() as u64,
            records: Mutex::default(),
            newest: watch::Sender::new(0),
        };
        RecentLog { shared: Arc::new(shared) }
    }
}

impl RecentLog {
    /// How many records were written, including those that are not kept any more.
    pub fn written(&self) -> u64 {
        *self.shared.newest.borrow()
    }

    /// When it began, in milliseconds since 1970. It tells this log from that of another process.
    pub(crate) fn began_ms(&self) -> u64 {
        self.shared.began_ms
    }

    /// Adds a record, and lets go of the oldest ones where there is no room.
    pub(super) fn add(&self, mut record: LogRecord) {
        let mut records = self.lock();
        let number = self.written() + 1;
        record.number = number;
        records.bytes += record.bytes();
        records.kept.push_back(Arc::new(record));
        while records.kept.len() > RECORDS_MAX || (records.bytes > BYTES_MAX && records.kept.len() > 1) {
            let oldest = records.kept.pop_front();
            records.bytes -= oldest.map_or(0, |oldest| oldest.bytes());
        }
        self.shared.newest.send_replace(number);
    }

    /// The kept records behind another one that are at least as severe, oldest first. `None`, and one of another process: all of
    /// them.
    pub(crate) fn after(&self, after: Option<LogId>, level: Level) -> Vec<Arc<LogRecord>> {
        let after = after.filter(|after| after.began_ms == self.shared.began_ms);
        let number = after.map_or(0, |after| after.number);
        let records = self.lock();
        let start = records.kept.partition_point(|record| record.number <= number);
        records.kept.range(start..).filter(|record| record.level <= level).cloned().collect()
    }

    /// Tells the number of the newest record whenever there is one.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.shared.newest.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        self.shared.records.lock()
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;
    use crate::log::RecentLogLayer;

    fn kept(log: &RecentLog, work: impl FnOnce()) {
        let layer = RecentLogLayer::new(log, Level::INFO);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), work);
    }

    #[test]
    fn the_newest_records_stay_and_their_numbers_go_on() {
        let log = RecentLog::default();
        kept(&log, || (0..RECORDS_MAX + 7).for_each(|number| tracing::info!(number, "one")));
        let all = log.after(None, Level::INFO);
        assert_eq!((all.len(), all[0].number, log.written()), (RECORDS_MAX, 8, RECORDS_MAX as u64 + 7));
        let id = |number| Some(LogId { began_ms: log.began_ms(), number });
        assert_eq!(log.after(id(2005), Level::INFO)[0].number, 2006);
        assert!(log.after(id(2007), Level::INFO).is_empty() && log.after(id(9999), Level::INFO).is_empty());
        let of_another = Some(LogId { began_ms: log.began_ms() - 1, number: 2005 });
        assert_eq!(log.after(of_another, Level::INFO).len(), RECORDS_MAX);
    }

    #[test]
    fn long_records_take_no_more_memory_than_they_may() {
        let log = RecentLog::default();
        let long = "x".repeat(100_000);
        kept(&log, || (0..1000).for_each(|_| tracing::warn!(a = long, b = long, c = long, "{long}")));
        let bytes = log.lock().bytes;
        assert!((BYTES_MAX - 10_000..=BYTES_MAX).contains(&bytes), "{bytes}");
        let real: usize =
            log.after(None, Level::INFO).iter().map(|record| record.json(0).to_string().len()).sum();
        assert!(real <= bytes, "{real} of {bytes}");
    }

    #[test]
    fn records_name_the_query_that_they_are_about() {
        let log = RecentLog::default();
        kept(&log, || {
            let span = tidemill_sql::query_span("totals");
            span.in_scope(|| tracing::warn!(rows = 3, "left out"));
            span.in_scope(|| tracing::warn!(query = "another", "named"));
            tracing::warn!("of nobody");
        });
        let records = log.after(None, Level::INFO);
        let fields: Vec<_> = records.iter().map(|record| record.json(0)["fields"].clone()).collect();
        let expected = [
            serde_json::json!({ "query": "totals", "rows": 3 }),
            serde_json::json!({ "query": "another" }),
            serde_json::json!({}),
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn what_is_less_severe_or_of_a_library_is_not_kept() {
        let log = RecentLog::default();
        kept(&log, || {
            tracing::debug!("a cycle");
            tracing::info!(target: "hyper", "of a library");
            tracing::info!("one");
            tracing::error!("two");
        });
        assert_eq!(log.after(None, Level::INFO).len(), 2);
        assert_eq!(log.after(None, Level::WARN).len(), 1);
    }
}
