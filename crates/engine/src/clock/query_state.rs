//! A query under the clock of a database: the cycles that it has not taken.

use std::collections::VecDeque;
use std::sync::Arc;

use tidemill_core::Cut;
use tidemill_flow::{Failure, Waker};
use tidemill_plan::CyclePolicy;

use super::query_position::GivenNumbers;
use super::query_replay::differs;
use super::slice::Slice;

/// The most cycles that a durable query has in memory.
const CYCLES_MAX: usize = 4096;

/// A cycle that a query has not taken.
pub(super) struct QueuedCycle {
    /// The cut, for the query's sources.
    pub cut: Cut,
    /// For each of its sources, the rows in the cycle; `None`: the source is not changed by it.
    pub slices: Vec<Option<Arc<Slice>>>,
}

/// A query, and the cycles that it has not taken.
pub(super) struct QueryState {
    /// Its sources, in the plan's order.
    pub sources: Vec<u64>,
    pub policy: CyclePolicy,
    pub waker: Option<Waker>,
    /// Whether it takes part: it has begun at a cut, and has not ended at one.
    pub is_active: bool,
    /// Whether it waits for a cycle, and nothing of it is in flight.
    pub is_idle: bool,
    pub cycles: VecDeque<QueuedCycle>,
    /// The numbers of its cycles, also of those that it has taken.
    pub given: GivenNumbers,
    /// Why no more cycles come.
    pub failure: Option<Failure>,
    /// The last cut with which it has to do anything.
    pub last_cut: u64,
    /// Whether all cuts concern it, because its operators wait for times of the clock.
    pub has_clock_timers: bool,
    /// If it is durable.
    pub durable: Option<DurableState>,
}

/// What is known of a durable query.
#[derive(Default)]
pub(super) struct DurableState {
    /// Whether it reads its next cycles from the journal.
    pub is_replaying: bool,
    /// Whether it is to end meanwhile.
    pub is_ending: bool,
    /// The cut of the last cycle that it was given.
    pub last: Option<Cut>,
}

impl QueryState {
    pub fn new(policy: CyclePolicy) -> QueryState {
        QueryState {
            sources: Vec::new(),
            policy,
            waker: None,
            is_active: false,
            is_idle: false,
            cycles: VecDeque::new(),
            given: GivenNumbers::default(),
            failure: None,
            last_cut: 0,
            has_clock_timers: false,
            durable: None,
        }
    }

    /// Gives it a cycle. Cycles that have no rows do not pile up before a query that takes none: a durable one will read them from the
    /// journal, and no other is run again, so the last of several will do.
    pub fn give(&mut self, cycle: QueuedCycle) {
        let is_empty = |cycle: &QueuedCycle| cycle.slices.iter().all(Option::is_none);
        if self.durable.is_none() && is_empty(&cycle) && self.cycles.back().is_some_and(is_empty) {
            self.cycles.pop_back();
        }
        self.given.add(&cycle.cut);
        if let Some(durable) = &mut self.durable {
            durable.last = Some(cycle.cut.clone());
        }
        let is_last = cycle.cut.last;
        self.cycles.push_back(cycle);
        if self.cycles.len() > CYCLES_MAX && self.durable.is_some() && !is_last {
            self.fall_back(false);
        }
    }

    /// It was given a cycle from the journal, and looks at `next` next.
    pub fn note_read(&mut self, cut: &Cut, next: u64) {
        self.given.replays(Some(next));
        self.given.add(cut);
        self.last_cut = cut.cycle;
        if let Some(durable) = &mut self.durable {
            durable.last = Some(cut.clone());
            // It ends with this cycle.
            durable.is_replaying &= !cut.last;
        }
    }

    /// Whether a cycle with this cut concerns it: a cut that changes nothing does not concern a durable query, because it
    /// could not be told from the journal.
    pub fn is_concerned(&self, cut: &Cut) -> bool {
        let last = self.durable.as_ref().and_then(|durable| durable.last.as_ref());
        cut.last || self.has_clock_timers || last.is_none_or(|last| differs(cut, last))
    }

    /// From here on it reads its cycles from the journal, as it is too far behind. If its sources `have_ended`, it ends once
    /// it has read all of them; if it was to end for another reason, with the next one.
    pub fn fall_back(&mut self, have_ended: bool) {
        let is_ending = !have_ended && self.cycles.back().is_some_and(|last| last.cut.last);
        self.cycles.clear();
        self.is_active = false;
        if let Some(durable) = &mut self.durable {
            (durable.is_replaying, durable.is_ending) = (true, durable.is_ending || is_ending);
        }
    }

    /// Whether it would take a cycle at once.
    pub fn is_ready(&self) -> bool {
        self.is_active && self.cycles.is_empty()
    }
}
