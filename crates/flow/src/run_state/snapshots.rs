//! Where a snapshot is requested and assembled.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tidemill_core::Cut;
use tidemill_core::snapshot::Snapshot;

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
    /// What a thread waits for.
    requested: Option<Assembly>,
    /// What is kept of the last cycle. The cycle before it may be the requested one, and its requester may be slow: so
    /// there can be two.
    of_end: Option<Assembly>,
    /// Whether the last cycle was closed.
    ended: bool,
}

/// A snapshot that is being put together.
struct Assembly {
    /// The cycle whose end it is of, once that is closed.
    cycle: Option<u64>,
    parts_missing: usize,
    snapshot: Snapshot,
}

impl Assembly {
    fn of_parts(parts_missing: usize) -> Assembly {
        Assembly { cycle: None, parts_missing, snapshot: Snapshot::default() }
    }

    fn begin(&mut self, cycle: u64) {
        self.cycle = Some(cycle);
        self.snapshot.cycle = cycle;
    }

    fn is_complete(&self) -> bool {
        self.cycle.is_some() && self.parts_missing == 0
    }
}

impl SnapshotRequests {
    /// Whether a snapshot is due once this many events are cut.
    pub fn is_due(&self, events_cut: u64) -> bool {
        self.wanted_after_events.load(Ordering::Acquire) <= events_cut
    }

    /// Requests a snapshot of all events taken in so far, which will be complete after `parts` contributions. `None` if
    /// the query has ended. Wake the thread that closes cycles, then [`wait`](SnapshotRequests::wait).
    pub fn request(&self, parts: usize, events_in: impl FnOnce() -> u64) -> Option<Turn<'_>> {
        let turn = self.turn.lock();
        let mut state = self.state.lock();
        if state.ended {
            return None;
        }
        state.requested = Some(Assembly::of_parts(parts));
        self.wanted_after_events.store(events_in(), Ordering::Release);
        Some(turn)
    }

    /// Waits for the requested snapshot; `None` if the query ends or stops first.
    pub fn wait(&self, _turn: Turn<'_>, is_stopped: impl Fn() -> bool) -> Option<Snapshot> {
        let mut state = self.state.lock();
        loop {
            if let Some(complete) = state.requested.take_if(|requested| requested.is_complete()) {
                return Some(complete.snapshot);
            }
            let is_begun = state.requested.as_ref().is_some_and(|requested| requested.cycle.is_some());
            if is_stopped() || (state.ended && !is_begun) {
                return None;
            }
            self.changed.wait_for(&mut state, Duration::from_millis(100));
        }
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
        let complete = self.state.lock().of_end.take_if(|of_end| of_end.is_complete());
        complete.map(|complete| complete.snapshot)
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
        if !(cut.snapshot || cut.last) {
            return;
        }
        let mut state = self.state.lock();
        state.ended = cut.last;
        if cut.snapshot {
            match (&mut state.requested, self.parts_at_end) {
                (Some(requested), _) if requested.cycle.is_none() => requested.begin(cut.cycle),
                (_, Some(parts)) if cut.last => {
                    state.of_end.insert(Assembly::of_parts(parts)).begin(cut.cycle);
                }
                _ => {}
            }
        }
        self.changed.notify_all();
    }

    /// One operator's partitions on one worker at the end of a cycle.
    pub fn contribute(&self, cycle: u64, operator: &str, watermark: i64, partitions: BTreeMap<u32, Vec<u8>>) {
        let mut state = self.state.lock();
        let SnapshotState { requested, of_end, .. } = &mut *state;
        let Some(assembly) = [requested, of_end].into_iter().flatten().find(|one| one.cycle == Some(cycle))
        else {
            return;
        };
        assembly.snapshot.operators.entry(operator.to_string()).or_default().extend(partitions);
        // All workers have seen the same cuts.
        assembly.snapshot.watermarks.insert(operator.to_string(), watermark);
        assembly.parts_missing = assembly.parts_missing.saturating_sub(1);
        self.changed.notify_all();
    }

    /// The query has stopped.
    pub fn wake(&self) {
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(cycle: u64, last: bool) -> Cut {
        Cut { cycle, snapshot: true, last, ..Cut::first() }
    }

    fn contribute(requests: &SnapshotRequests, cycle: u64, state: u8) {
        requests.contribute(cycle, "o", 0, BTreeMap::from([(0, vec![state])]));
    }

    fn state_of(snapshot: &Snapshot) -> (u64, u8) {
        (snapshot.cycle, snapshot.operators["o"][&0][0])
    }

    /// One cycle is snapshotted on request, the next one because it is the last. However late the requester and the
    /// parts come, each snapshot has the state of its own cycle.
    #[test]
    fn the_end_has_a_snapshot_of_its_own_while_another_is_under_way() {
        for is_complete_first in [true, false] {
            let mut requests = SnapshotRequests::default();
            requests.keep_end(1);
            let turn = requests.request(1, || 0).unwrap();
            requests.announce(&cut(4, false));
            if is_complete_first {
                contribute(&requests, 4, 40);
            }
            requests.announce(&cut(5, true));
            assert!(requests.take_end().is_none(), "nothing was contributed to it");
            if !is_complete_first {
                contribute(&requests, 4, 40);
            }
            contribute(&requests, 5, 50);
            assert_eq!(state_of(&requests.wait(turn, || false).unwrap()), (4, 40));
            assert_eq!(state_of(&requests.take_end().unwrap()), (5, 50));
            assert!(requests.take_end().is_none() && requests.request(1, || 0).is_none());
        }
    }

    /// The last cycle may be the requested one.
    #[test]
    fn who_requested_the_last_cycle_gets_it() {
        let mut requests = SnapshotRequests::default();
        requests.keep_end(1);
        let turn = requests.request(1, || 0).unwrap();
        requests.announce(&cut(5, true));
        contribute(&requests, 5, 50);
        assert_eq!(state_of(&requests.wait(turn, || false).unwrap()), (5, 50));
        assert!(requests.take_end().is_none());
    }

    #[test]
    fn an_end_that_is_not_snapshotted_ends_the_wait() {
        let requests = SnapshotRequests::default();
        let turn = requests.request(1, || 0).unwrap();
        requests.announce(&Cut { snapshot: false, ..cut(5, true) });
        assert!(requests.wait(turn, || false).is_none());
    }
}
