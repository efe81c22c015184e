//! Where a snapshot is asked for and put together.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use tidemill_core::Cut;
use tidemill_core::snapshot::Snapshot;

use crate::sync::lock;

/// No snapshot is wanted.
const NO_REQUEST: u64 = u64::MAX;

pub(crate) struct SnapshotDesk {
    /// A snapshot is wanted at the end of the first cycle with which so many events are cut.
    wanted_after_events: AtomicU64,
    /// Held by who asks: one snapshot at a time.
    turn: Mutex<()>,
    state: Mutex<SnapshotState>,
    changed: Condvar,
    /// How many contributions make a snapshot of the end, if one is to be kept.
    parts_at_end: Option<usize>,
}

/// Held by who has asked for a snapshot until it is there.
pub(crate) type Turn<'a> = MutexGuard<'a, ()>;

impl Default for SnapshotDesk {
    fn default() -> Self {
        SnapshotDesk {
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
    /// Whether someone waits for it.
    is_asked: bool,
    /// Whether the last cycle was closed.
    ended: bool,
}

impl SnapshotDesk {
    /// Whether a snapshot is due once so many events are cut.
    pub fn is_due(&self, events_cut: u64) -> bool {
        self.wanted_after_events.load(Ordering::Acquire) <= events_cut
    }

    /// Asks for a snapshot of all events taken in so far, which will be complete after `parts` contributions. `None` if
    /// the query has ended. Wake the one who closes cycles, then [`wait`](SnapshotDesk::wait).
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

    /// Waits for the snapshot that was asked for; `None` if the query ends or stops before.
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

    /// Has the end of the last cycle snapshotted, too, which takes so many contributions.
    pub fn keep_end(&mut self, parts: usize) {
        self.parts_at_end = Some(parts);
    }

    /// Whether the last cycle is snapshotted.
    pub fn keeps_end(&self) -> bool {
        self.parts_at_end.is_some()
    }

    /// The snapshot of the end, if it is complete and nobody has it.
    pub fn take_end(&self) -> Option<Snapshot> {
        let mut state = lock(&self.state);
        let is_complete = state.ended && !state.is_asked && state.cycle.is_some() && state.parts_missing == 0;
        is_complete.then(|| {
            state.cycle = None;
            std::mem::take(&mut state.snapshot)
        })
    }

    /// Whether the cycle with which so many events are cut is to be snapshotted.
    pub fn take_request(&self, events_cut: u64) -> bool {
        let requested = self.is_due(events_cut);
        if requested {
            self.wanted_after_events.store(NO_REQUEST, Ordering::Release);
        }
        requested
    }

    /// Says which cycle is snapshotted, and that none follows the last one. Not before its cut is logged: the snapshot of
    /// a query without state is complete with this, and who asked for it looks for the cut.
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
