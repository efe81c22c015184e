//! What a feed's threads share with its observer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tidemill_core::{Faults, Progress};
use tracing::{Level, enabled, warn};

/// The log has at most one line in this time about a source's bad rows, and one about its late ones.
const LOGGED_EVERY: Duration = Duration::from_secs(1);

/// What a feed reports about itself.
#[derive(Clone, Debug, Default)]
pub struct FeedStatus {
    /// Rows taken in, including late ones.
    pub rows: u64,
    /// Rows that came too late.
    pub late: u64,
    /// Rows that were left out because it was asked for ([`find_skip`](crate::find_skip)).
    pub skipped: u64,
    /// Records that could not be read, and rows without event time.
    pub faults: Faults,
    /// How far the source is.
    pub progress: Progress,
    /// Whether it has ended.
    pub ended: bool,
}

/// What a feed's threads share with its observer.
#[derive(Default)]
pub(crate) struct FeedState {
    stop: AtomicBool,
    rows: AtomicU64,
    late: AtomicU64,
    skipped: AtomicU64,
    ended: AtomicBool,
    slow: Mutex<(Faults, Progress)>,
    source: OnceLock<String>,
    bad_logged: Sampled,
    late_logged: Sampled,
}

/// When something was last logged.
#[derive(Default)]
struct Sampled(Mutex<Option<Instant>>);

impl Sampled {
    /// Whether something is to be logged now. With the log off, that costs one load.
    fn is_due(&self) -> bool {
        if !enabled!(Level::WARN) {
            return false;
        }
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| last.elapsed() >= LOGGED_EVERY);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

impl FeedState {
    /// Names the source in the log.
    pub fn set_source(&self, name: &str) {
        let _ = self.source.set(name.to_owned());
    }

    fn source(&self) -> &str {
        self.source.get().map_or("", String::as_str)
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    pub fn add_rows(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    pub fn set_late(&self, late: u64) {
        let before = self.late.swap(late, Ordering::Relaxed);
        if late > before && self.late_logged.is_due() {
            warn!(source = self.source(), late, "rows came too late");
        }
    }

    pub fn add_skipped(&self, rows: u64) {
        self.skipped.fetch_add(rows, Ordering::Relaxed);
    }

    pub fn add_faults(&self, faults: Faults) {
        if faults.count > 0 && self.bad_logged.is_due() {
            let bad = self.lock().0.count + faults.count;
            warn!(source = self.source(), bad, sample = ?faults.samples.first(), "records cannot be used");
        }
        self.lock().0.merge(faults);
    }

    pub fn set_progress(&self, progress: Progress) {
        self.lock().1 = progress;
    }

    pub fn has_ended(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// The current status.
    pub fn status(&self) -> FeedStatus {
        let slow = self.lock();
        FeedStatus {
            rows: self.rows.load(Ordering::Relaxed),
            late: self.late.load(Ordering::Relaxed),
            skipped: self.skipped.load(Ordering::Relaxed),
            faults: slow.0.clone(),
            progress: slow.1,
            ended: self.ended.load(Ordering::Acquire),
        }
    }

    fn lock(&self) -> MutexGuard<'_, (Faults, Progress)> {
        self.slow.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
