//! How far a log is; shared by its writer, its readers and threads that wait for the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tidemill_core::error::Cause;

use crate::segment::Segment;

/// How far a stream's journal is. Any thread may ask.
#[derive(Debug, Default)]
pub struct StreamProgress {
    first: AtomicU64,
    end: AtomicU64,
    synced: AtomicU64,
    released: AtomicU64,
    bytes: AtomicU64,
    segments: AtomicU64,
    bytes_max: AtomicU64,
    failure: Mutex<Option<Cause>>,
    changed: Condvar,
    /// Held while it is decided what is removed.
    removing: Mutex<()>,
}

impl StreamProgress {
    /// The first position that still exists.
    pub fn first(&self) -> u64 {
        self.first.load(Ordering::Acquire)
    }

    /// One past the last position that was written.
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// One past the last position that is safe from a loss of power.
    pub fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// How many bytes the journal of the stream has.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// In how many segments they are.
    pub fn segments(&self) -> u64 {
        self.segments.load(Ordering::Acquire)
    }

    /// How many bytes it may have. At this limit it accepts no more rows.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max.load(Ordering::Acquire)
    }

    /// The position below which the rows are no longer needed.
    pub fn released(&self) -> u64 {
        self.released.load(Ordering::Acquire)
    }

    /// Why the journal accepts no more rows, if it does not.
    pub fn failure(&self) -> Option<Cause> {
        self.lock().clone()
    }

    /// Waits until everything below `position` is synced, the journal has failed, or the time is up; returns whether it
    /// is synced.
    pub fn wait_synced(&self, position: u64, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        let mut failure = self.lock();
        while self.synced() < position && failure.is_none() {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            self.changed.wait_for(&mut failure, rest);
        }
        self.synced() >= position
    }

    /// Reports that the rows below `position` are no longer needed. The writer removes whole segments of them when it
    /// next appends or syncs.
    pub fn release(&self, position: u64) {
        self.released.fetch_max(position, Ordering::AcqRel);
    }

    /// Asks for what was released from `position` on once more; whether it is still there. It then stays until it is
    /// released again.
    pub fn keep_from(&self, position: u64) -> bool {
        let _deciding = self.removing.lock();
        let is_there = self.first() <= position;
        if is_there {
            self.released.fetch_min(position, Ordering::AcqRel);
        }
        is_there
    }

    /// What is below `position` will be removed, unless it is needed again meanwhile; whether it is not.
    pub(crate) fn give_up_before(&self, position: u64) -> bool {
        let _deciding = self.removing.lock();
        let is_released = self.released() >= position;
        if is_released {
            self.set_first(position);
        }
        is_released
    }

    pub(crate) fn set_first(&self, position: u64) {
        self.first.store(position, Ordering::Release);
    }

    pub(crate) fn set_end(&self, position: u64) {
        self.end.store(position, Ordering::Release);
    }

    pub(crate) fn set_bytes_max(&self, bytes: u64) {
        self.bytes_max.store(bytes, Ordering::Release);
    }

    /// Says which segments the journal has.
    pub(crate) fn set_segments(&self, segments: &[Arc<Segment>]) {
        let bytes = segments.iter().map(|segment| segment.written()).sum();
        self.bytes.store(bytes, Ordering::Release);
        self.segments.store(segments.len() as u64, Ordering::Release);
    }

    pub(crate) fn set_synced(&self, position: u64) {
        let _guard = self.lock();
        self.synced.store(position, Ordering::Release);
        self.changed.notify_all();
    }

    /// Keeps the first failure.
    pub(crate) fn fail(&self, cause: &Cause) {
        self.lock().get_or_insert_with(|| cause.clone());
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Cause>> {
        self.failure.lock()
    }
}
