//! Where a snapshot is requested and assembled.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use tidemill_core::Cut;
use tidemill_core::snapshot::Snapshot;

use crate::sync::lock;

/// No snapshot is requested.
const NO_REQUEST: u64 = u64::MAX;

pub(crate) struct SnapshotRequests {
    /// A snapshot is requested at the end of the first cycle that reaches this number of events.
    wanted_after_events: AtomicU64,
    /// Held by the requester; one snapshot at a time.
    turn: Mutex<()>,
    state: Mutex<SnapshotState>,
    changed: Condvar,
    /// How many contributions form the snapshot of the end, if one is to be kept.
    parts_at_end: Option<usize>,
}

/// Held by the requester of a snapshot until the snapshot is complete.
pub(crate) type Turn<'a> = MutexGuard<'a, ()>;

impl Default for SnapshotRequests {
    fn default() -> Self {
        SnapshotRequests {
            wanted_after_events: AtomicU64::new(NO_REQUEST),
            turn: Mutex::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
            parts_at_end: None,
        }
    }
}

#[derive(Default)]
struct SnapshotState {
    cycle: Option<u64>,
    parts_missing: usize,
    snapshot: Snapshot,
    /// Whether a thread waits for it.
    is_asked: bool,
    /// Whether the last cycle was closed.
    ended: bool,
}

impl SnapshotRequests {
    /// Whether a snapshot is due once this many events are cut.
    pub fn is_due(&self, events_cut: u64) -> bool {
        self.wanted_after_events.load(Ordering::Acquire) <= events_cut
    }

    /// Requests a snapshot of all events taken in so far, which will be complete after `parts` contributions. `None` if
    /// the query has ended. Wake the thread that closes cycles, then [`wait`](SnapshotRequests::wait).
    pub fn request(&self, parts: usize, events_in: impl FnOnce() -> u64) -> Option<Turn<'_>> {
        let turn = lock(&self.turn);
        let mut state = lock(&self.state);
        if state.ended {
            return None;
        }
        *state = SnapshotState { parts_missing: parts, is_asked: true, ..SnapshotState::default() };
        self.wanted_after_events.store(events_in(), Ordering::Release);
        Some(turn)
    }

    /// Waits for the requested snapshot; `None` if the query ends or stops first.
    pub fn wait(&self, _turn: Turn<'_>, is_stopped: impl Fn() -> bool) -> Option<Snapshot> {
        let mut state = lock(&self.state);
        while state.cycle.is_none() || state.parts_missing > 0 {
            if is_stopped() || (state.ended && state.cycle.is_none()) {
                return None;
            }
            let waited = self.changed.wait_timeout(state, Duration::from_millis(100));
            state = waited.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        (state.is_asked, state.cycle) = (false, None);
        Some(std::mem::take(&mut state.snapshot))
    }

    /// Requests a snapshot at the end of the last cycle too, which takes this many contributions.
    pub fn keep_end(&mut self, parts: usize) {
        self.parts_at_end = Some(parts);
    }

    /// Whether the last cycle is snapshotted.
    pub fn keeps_end(&self) -> bool {
        self.parts_at_end.is_some()
    }

    /// The snapshot of the end, if it is complete and nobody has taken it.
    pub fn take_end(&self) -> Option<Snapshot> {
        let mut state = lock(&self.state);
        let is_complete = state.ended && !state.is_asked && state.cycle.is_some() && state.parts_missing == 0;
        is_complete.then(|| {
            state.cycle = None;
            std::mem::take(&mut state.snapshot)
        })
    }

    /// Whether the cycle that reaches this number of events must be snapshotted.
    pub fn take_request(&self, events_cut: u64) -> bool {
        let requested = self.is_due(events_cut);
        if requested {
            self.wanted_after_events.store(NO_REQUEST, Ordering::Release);
        }
        requested
    }

    /// Announces which cycle is snapshotted, and that none follows the last one. Must not be called before its cut is
    /// logged: the snapshot of a query without state is complete with this call, and its requester looks up the cut.
    pub fn announce(&self, cut: &Cut) {
        if cut.snapshot || cut.last {
            let mut state = lock(&self.state);
            state.ended = cut.last;
            if let (true, false, Some(parts)) = (cut.snapshot, state.is_asked, self.parts_at_end) {
                *state =
                    SnapshotState { parts_missing: parts, ended: state.ended, ..SnapshotState::default() };
            }
            if cut.snapshot {
                state.cycle = Some(cut.cycle);
                state.snapshot.cycle = cut.cycle;
            }
            self.changed.notify_all();
        }
    }

    /// One operator's partitions on one worker.
    pub fn contribute(&self, operator: &str, watermark: i64, partitions: BTreeMap<u32, Vec<u8>>) {
        let mut state = lock(&self.state);
        state.snapshot.operators.entry(operator.to_string()).or_default().extend(partitions);
        // All workers have seen the same cuts.
        state.snapshot.watermarks.insert(operator.to_string(), watermark);
        state.parts_missing = state.parts_missing.saturating_sub(1);
        self.changed.notify_all();
    }

    /// The query has stopped.
    pub fn wake(&self) {
        self.changed.notify_all();
    }
}
