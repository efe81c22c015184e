//! What a feed's threads share with its observer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use tidemill_core::{Faults, Progress};

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
}

impl FeedState {
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
        self.late.store(late, Ordering::Relaxed);
    }

    pub fn add_skipped(&self, rows: u64) {
        self.skipped.fetch_add(rows, Ordering::Relaxed);
    }

    pub fn add_faults(&self, faults: Faults) {
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
