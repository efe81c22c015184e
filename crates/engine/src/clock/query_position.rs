//! How far a query is under the clock of a database.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tidemill_core::Cut;

use super::ClockShared;

/// How many numbers are kept of cycles that a query has taken. It never has as many that are not committed.
const NUMBERS_MAX: usize = 1024;

/// How far a query is under the clock of a database, or how far it was when it ended.
#[derive(Clone)]
pub struct QueryPosition {
    /// Not kept open by who looks at it.
    shared: Weak<ClockShared>,
    given: GivenNumbers,
}

/// What a query has not committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryLag {
    /// The cycles that concern it, that are closed, and that it has not committed.
    pub cycles: u64,
    /// How long ago the oldest of them was closed, in nanoseconds; 0 if there is none.
    pub oldest_ns: u64,
}

impl QueryPosition {
    pub(super) fn new(shared: &Arc<ClockShared>, given: GivenNumbers) -> QueryPosition {
        QueryPosition { shared: Arc::downgrade(shared), given }
    }

    /// Whether both are under the same clock: their cycles of the same number have the same rows.
    pub fn is_comparable(&self, other: &QueryPosition) -> bool {
        self.shared.ptr_eq(&other.shared)
    }

    /// The first cycle whose results the query does not have, if it has committed those up to `committed`: all cycles
    /// before that concern it are done. A query that has ended in order has all that will ever concern it: `u64::MAX`.
    pub fn reached(&self, committed: Option<u64>) -> u64 {
        // A cycle is closed and given out under this lock.
        let shared = self.shared.upgrade();
        let state = shared.as_ref().map(|shared| shared.lock());
        let next = state.as_ref().map_or(0, |state| state.next_cycle);
        self.given.0.lock().reached(committed, next)
    }

    /// What the query has not committed, if it has committed the cycles up to `committed`.
    pub fn lag(&self, committed: Option<u64>) -> QueryLag {
        let Some(shared) = self.shared.upgrade() else { return QueryLag::default() };
        let (now_ns, next) = (shared.clock.now_ns(), shared.lock().next_cycle);
        let numbers = self.given.0.lock();
        if numbers.end.is_some() {
            return QueryLag::default();
        }
        let start = numbers.first_after(committed);
        let oldest = numbers.cycles.get(start).map_or(0, |(_, closed_ns)| now_ns.saturating_sub(*closed_ns));
        // Whether a cycle in the journal concerns the query is not known before it is read.
        let unread = numbers.replayed.map_or(0, |replayed| next.saturating_sub(replayed));
        QueryLag { cycles: (numbers.cycles.len() - start) as u64 + unread, oldest_ns: oldest }
    }
}

/// The numbers of the cycles that a query was given. Clones are the same list.
#[derive(Clone, Default)]
pub(super) struct GivenNumbers(Arc<Mutex<Numbers>>);

#[derive(Default)]
struct Numbers {
    /// The newest cycles, ascending, each with the time when it was closed.
    cycles: VecDeque<(u64, u64)>,
    /// The number before the oldest of these, if there were more.
    forgotten: Option<u64>,
    /// Whether the last one is the query's last.
    has_last: bool,
    /// While the query reads cycles from a journal: the next one that it looks at. It does not have any from there on.
    replayed: Option<u64>,
    /// Once the query has left: the first cycle that it does not have, if it has committed all.
    end: Option<u64>,
}

impl GivenNumbers {
    pub fn add(&self, cut: &Cut) {
        let mut numbers = self.0.lock();
        numbers.cycles.push_back((cut.cycle, cut.closed_at_ns));
        numbers.has_last |= cut.last;
        if numbers.cycles.len() > NUMBERS_MAX {
            numbers.forgotten = numbers.cycles.pop_front().map(|(cycle, _)| cycle);
        }
    }

    /// The last cycle that it was given.
    pub fn last(&self) -> Option<u64> {
        self.0.lock().cycles.back().map(|(cycle, _)| *cycle)
    }

    /// The query reads cycles from a journal, and looks at this one next; `None`: it does so no longer. What it was not given
    /// from memory does not count as given.
    pub fn replays(&self, next: Option<u64>) {
        let mut numbers = self.0.lock();
        numbers.replayed = next;
        if let Some(next) = next {
            numbers.cycles.retain(|(cycle, _)| *cycle < next);
            numbers.has_last = false;
        }
    }

    /// A query that reads cycles from a journal begins with this one.
    pub fn goes_on_at(&self, next: u64) {
        let mut numbers = self.0.lock();
        numbers.replayed = numbers.replayed.map(|_| next);
    }

    /// The newest one is the query's last.
    pub fn has_last(&self) {
        self.0.lock().has_last = true;
    }

    /// The query takes no more cycles. `next` is the next cycle of the clock.
    pub fn leave(&self, next: u64) {
        let mut numbers = self.0.lock();
        let next = numbers.replayed.unwrap_or(next);
        numbers.end = Some(if numbers.has_last { u64::MAX } else { next });
    }
}

impl Numbers {
    fn reached(&self, committed: Option<u64>, next: u64) -> u64 {
        if self.forgotten > committed {
            return committed.map_or(0, |cycle| cycle + 1);
        }
        let uncommitted = self.cycles.get(self.first_after(committed)).map(|(cycle, _)| *cycle);
        uncommitted.unwrap_or(self.end.or(self.replayed).unwrap_or(next))
    }

    /// The index of the first cycle behind the committed ones.
    fn first_after(&self, committed: Option<u64>) -> usize {
        self.cycles.partition_point(|(cycle, _)| Some(*cycle) <= committed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(cycles: &[u64]) -> GivenNumbers {
        let given = GivenNumbers::default();
        cycles.iter().for_each(|cycle| given.add(&Cut { cycle: *cycle, ..Cut::first() }));
        given
    }

    #[test]
    fn a_query_has_reached_every_cycle_before_the_first_that_it_has_not_committed() {
        let reached = |given: &GivenNumbers, committed| given.0.lock().reached(committed, 10);
        let some = given(&[2, 5, 7]);
        assert_eq!(reached(&some, None), 2);
        assert_eq!(reached(&some, Some(2)), 5);
        assert_eq!(reached(&some, Some(5)), 7);
        assert_eq!(reached(&some, Some(7)), 10, "no later cycle concerns it");
        assert_eq!(reached(&given(&[]), None), 10);
    }

    #[test]
    fn one_that_has_ended_in_order_has_all_and_any_other_no_more_than_it_had() {
        let (ended, stopped) = (given(&[2, 5]), given(&[2, 5]));
        ended.has_last();
        [&ended, &stopped].iter().for_each(|given| given.leave(8));
        let reached = |given: &GivenNumbers, committed| given.0.lock().reached(committed, 100);
        assert_eq!((reached(&ended, Some(5)), reached(&stopped, Some(5))), (u64::MAX, 8));
        assert_eq!((reached(&ended, Some(2)), reached(&stopped, Some(2))), (5, 5));
    }

    #[test]
    fn one_that_reads_its_last_cycle_again_does_not_have_it_yet() {
        let given = given(&[2, 5]);
        given.has_last();
        given.replays(Some(3));
        given.leave(8);
        assert_eq!(given.0.lock().reached(Some(2), 100), 3);
    }

    #[test]
    fn a_query_that_is_far_behind_has_no_more_than_it_has_committed() {
        let many: Vec<u64> = (0..3000).collect();
        let reached = |committed| given(&many).0.lock().reached(committed, 3000);
        assert_eq!((reached(Some(10)), reached(Some(2500)), reached(Some(2999))), (11, 2501, 3000));
    }
}
