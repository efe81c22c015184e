//! Sources, queries, and when a cycle of a database is closed.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use tidemill_core::Cut;
use tidemill_core::error::Cause;
use tidemill_flow::{Failure, Waker};
use tracing::debug;

use super::clock_journal::ClockJournal;
use super::lost_rows::{SourceMark, ended_at};
use super::query_state::{QueryState, QueuedCycle};
use super::source_journal::SourceJournal;
use super::source_state::{SourceEnd, SourceState};
use super::source_use::SourceKey;

/// What the lock of a clock protects.
#[derive(Default)]
pub(super) struct ClockState {
    pub next_cycle: u64,
    pub next_id: u64,
    pub sources: BTreeMap<u64, SourceState>,
    pub queries: BTreeMap<u64, QueryState>,
    pub ring_bytes_max: u64,
    /// The newest cuts, oldest first.
    pub cuts: VecDeque<DatabaseCut>,
    /// Where cuts are logged, if they are.
    pub journal: Option<Arc<ClockJournal>>,
    /// Where each durable source is at the last cut, in the order of the journal's cuts.
    pub marks: Vec<SourceMark>,
    /// Why cuts cannot be logged any more.
    pub journal_failure: Option<Failure>,
}

/// How many cuts are kept.
const CUTS_MAX: usize = 4096;

/// A cut of a database: where each source that it has changed is. It is kept in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseCut {
    /// The number of its cycle.
    pub cycle: u64,
    /// When it was closed, on the clock.
    pub closed_at_ns: u64,
    /// For each source that it has changed: its name, and one past the position of its last row in the cycle.
    pub positions: Vec<(String, u64)>,
}

/// What is to be done about a cycle.
enum Due {
    Now,
    /// At this time on the clock, if nothing else happens.
    At(u64),
    Never,
}

impl ClockState {
    pub fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// The source that stands for this key and has not ended.
    pub fn source_of(&self, key: &SourceKey) -> Option<u64> {
        let is_it = |source: &SourceState| {
            source.end.is_none() && source.key.as_ref().is_some_and(|known| known.is(key))
        };
        self.sources.iter().find(|(_, source)| is_it(source)).map(|(id, _)| *id)
    }

    /// The most events of a source in a cycle: those of the query that wants the fewest.
    pub fn events_max(&self, source: &SourceState) -> u64 {
        let queries = source.queries.iter().filter_map(|query| self.queries.get(query));
        queries.map(|query| u64::from(query.policy.events_max)).min().unwrap_or(1)
    }

    /// How many queries take, or will take, rows of a source from memory.
    pub fn readers(&self, source: &SourceState) -> usize {
        let queries = source.queries.iter().filter_map(|query| self.queries.get(query));
        queries.filter(|query| query.is_active || !query.cycles.is_empty()).count()
    }

    /// Closes a cycle if one is due. Otherwise says when one will be, if nothing else happens, in nanoseconds from now.
    /// The wakers are to be called without the lock.
    pub fn close_if_due(&mut self, now_ns: u64) -> (Option<u64>, Vec<Waker>) {
        match self.due(now_ns) {
            Due::Now => (None, self.close(now_ns)),
            Due::At(due_ns) => (Some(due_ns - now_ns), Vec::new()),
            Due::Never => (None, Vec::new()),
        }
    }

    fn due(&self, now_ns: u64) -> Due {
        let (mut is_one_ready, mut are_all_idle, mut is_full) = (false, true, false);
        let mut due_ns = None::<u64>;
        for source in self.sources.values().filter(|source| source.waits()) {
            if source.is_ending() {
                return Due::Now;
            }
            let queries = source.queries.iter().filter_map(|query| self.queries.get(query));
            for query in queries.filter(|query| query.is_active) {
                is_one_ready |= query.is_ready();
                are_all_idle &= query.is_ready() && query.is_idle && query.policy.close_when_idle;
                is_full |= source.pending_events >= u64::from(query.policy.events_max);
                let oldest_ns = source.oldest_ns().unwrap_or(now_ns);
                if let Some(wait_max) = query.policy.wait_max {
                    let wait_ns = u64::try_from(wait_max.as_nanos()).unwrap_or(u64::MAX);
                    let latest_ns = oldest_ns.saturating_add(wait_ns);
                    due_ns = Some(due_ns.map_or(latest_ns, |due_ns| due_ns.min(latest_ns)));
                }
            }
        }
        let is_due = are_all_idle || is_full || due_ns.is_some_and(|due_ns| due_ns <= now_ns);
        match (is_one_ready, is_due, due_ns) {
            (true, true, _) => Due::Now,
            (true, false, Some(due_ns)) => Due::At(due_ns),
            _ => Due::Never,
        }
    }

    /// Closes a cycle over everything that waits, and gives it to the queries that it concerns.
    pub fn close(&mut self, now_ns: u64) -> Vec<Waker> {
        let cycle = self.next_cycle;
        self.next_cycle += 1;
        let waiting = self.sources.iter_mut().filter(|(_, source)| source.waits());
        let slices: BTreeMap<u64, _> = waiting.map(|(id, source)| (*id, source.cut())).collect();
        debug!(cycle, sources = slices.len(), "a cycle of the database is closed");
        let changed = slices.keys().filter_map(|id| self.sources.get(id));
        let positions = changed.map(|source| (source.name.clone(), source.position)).collect();
        self.cuts.push_back(DatabaseCut { cycle, closed_at_ns: now_ns, positions });
        self.cuts.drain(..self.cuts.len().saturating_sub(CUTS_MAX));
        self.log_cut(cycle, now_ns);
        let mut wakers = Vec::new();
        for query in self.queries.values_mut().filter(|query| query.is_active) {
            let of_query: Vec<_> = query.sources.iter().map(|id| slices.get(id).cloned()).collect();
            if of_query.iter().all(Option::is_none) && !query.has_clock_timers {
                continue;
            }
            if query.durable.is_some()
                && let Some(failure) = &self.journal_failure
            {
                query.is_active = false;
                query.failure.get_or_insert_with(|| failure.clone());
                wakers.extend(query.waker.clone());
                continue;
            }
            let mut cut = cut_of(query, &self.sources, cycle, now_ns);
            if let Some(failure) = failure_of(query, &self.sources) {
                // Behind this cycle the query fails, so it is not its last one.
                cut.last = false;
                query.is_active = false;
                query.failure.get_or_insert(failure);
                wakers.extend(query.waker.clone());
            }
            if !query.is_concerned(&cut) {
                continue;
            }
            query.is_active &= !cut.last;
            query.last_cut = cycle;
            query.give(QueuedCycle { cut, slices: of_query });
            wakers.extend(query.waker.clone());
        }
        wakers.extend(self.leave_slowest_behind(&slices.keys().copied().collect::<Vec<_>>()));
        wakers
    }

    /// Logs a cut before anybody is given its cycle.
    fn log_cut(&mut self, cycle: u64, now_ns: u64) {
        let Some(journal) = self.journal.as_ref().filter(|_| self.journal_failure.is_none()) else { return };
        for source in self.sources.values() {
            if let Some(index) = source.journal.as_ref().map(|journal| journal.in_cuts.index) {
                self.marks.resize(self.marks.len().max(index + 1), SourceMark::START);
                self.marks[index] = source.mark();
            }
        }
        if let Err(cause) = journal.log(cycle, now_ns, &self.marks) {
            self.journal_failure = Some(Failure::Engine { part: "the log of cuts".into(), cause });
        }
    }

    /// Where a source is at the last cut, if its journal has these rows. Others that cuts name are lost.
    pub fn mark_of(&mut self, source: usize, there: Range<u64>) -> Result<SourceMark, Cause> {
        let Some(mark) = self.marks.get_mut(source) else { return Ok(SourceMark::START) };
        if mark.position > there.end
            && let Some(journal) = &self.journal
        {
            // Under the lock, because the next cut is of the source as it is now.
            *mark = journal.lose(source, there.clone())?;
        }
        // What is removed, no query needs; of a source that is never synced, the cuts that say so may be lost.
        mark.position = mark.position.max(there.start);
        Ok(*mark)
    }

    /// The journals of the sources of a query.
    pub fn journals_of(&self, query: u64) -> Result<Vec<SourceJournal>, Cause> {
        let sources = self.queries.get(&query).map_or(&[][..], |query| &query.sources);
        let journal = |id| self.sources.get(id).and_then(|source: &SourceState| source.journal.clone());
        let journals = sources.iter().map(journal).collect::<Option<Vec<_>>>();
        journals.ok_or_else(|| Cause::bug("a source of a durable query is not journaled"))
    }

    /// A query that has read everything from the journal takes part from here on.
    pub fn catch_up(&mut self, query: u64, now_ns: u64) -> Vec<Waker> {
        let (mut is_ending, mut have_ended) = (false, false);
        if let Some(state) = self.queries.get_mut(&query) {
            let of_query = || state.sources.iter().filter_map(|id| self.sources.get(id));
            have_ended = of_query().all(|source| source.has_ended);
            (state.failure, state.is_active) = (failure_of(state, &self.sources), true);
            state.is_active = state.failure.is_none();
            if let Some(durable) = &mut state.durable {
                durable.is_replaying = false;
                is_ending = durable.is_ending;
            }
            state.given.replays(None);
        }
        if is_ending || have_ended { self.end(query, now_ns) } else { Vec::new() }
    }

    /// Ends a query at a cut that is closed for it: what waits is part of its last cycle. One that reads from the journal ends
    /// with the next cycle there.
    pub fn end(&mut self, query: u64, now_ns: u64) -> Vec<Waker> {
        if let Some(state) = self.queries.get_mut(&query)
            && let Some(durable) = state.durable.as_mut().filter(|durable| durable.is_replaying)
        {
            durable.is_ending = true;
            return state.waker.clone().into_iter().collect();
        }
        let mut wakers = self.close_for(query, now_ns);
        let Some(state) = self.queries.get_mut(&query).filter(|state| state.is_active) else { return wakers };
        if let Some(last) = state.cycles.back_mut() {
            last.cut.last = true;
            state.last_cut = last.cut.cycle;
        }
        state.given.has_last();
        state.is_active = false;
        wakers.extend(state.waker.clone());
        wakers
    }

    /// Closes a cycle that a query is given, even if it has no rows.
    pub fn close_for(&mut self, query: u64, now_ns: u64) -> Vec<Waker> {
        let wakers = self.close(now_ns);
        let cycle = self.next_cycle - 1;
        let Some(state) = self.queries.get_mut(&query).filter(|state| state.is_active) else { return wakers };
        if state.cycles.back().is_none_or(|last| last.cut.cycle != cycle) {
            let cut = Cut { last: false, ..cut_of(state, &self.sources, cycle, now_ns) };
            let slices = vec![None; state.sources.len()];
            state.give(QueuedCycle { cut, slices });
        }
        wakers
    }

    /// The cut at which a query begins.
    pub fn begin(&mut self, query: u64, now_ns: u64) -> (Option<Cut>, Vec<Waker>) {
        let is_waiting = |id: &u64| self.sources.get(id).is_some_and(SourceState::waits);
        let waits = self.queries.get(&query).is_some_and(|state| state.sources.iter().any(is_waiting));
        // Rows that came before it belong to a cycle before it.
        let wakers = if waits { self.close(now_ns) } else { Vec::new() };
        let Some(state) = self.queries.get_mut(&query) else { return (None, wakers) };
        state.is_active = true;
        let Some(before) = self.next_cycle.checked_sub(1) else { return (None, wakers) };
        state.last_cut = before;
        let cut = Cut { last: false, ..cut_of(state, &self.sources, before, now_ns) };
        if let Some(durable) = &mut state.durable {
            durable.last = Some(cut.clone());
        }
        (Some(cut), wakers)
    }

    /// Takes away a source, by its name in the journal, and ends the queries that read it. The wakers are to be called without the
    /// lock.
    pub fn close_source(&mut self, stream: &str, why: &Cause) -> (Vec<SourceState>, Vec<Waker>) {
        let is_it =
            |source: &SourceState| source.journal.as_ref().is_some_and(|journal| journal.name == stream);
        let ids: Vec<u64> =
            self.sources.iter().filter(|(_, source)| is_it(source)).map(|(id, _)| *id).collect();
        let closed: Vec<SourceState> = ids.iter().filter_map(|id| self.sources.remove(id)).collect();
        let mut wakers = Vec::new();
        for source in &closed {
            for query in &source.queries {
                let Some(state) = self.queries.get_mut(query) else { continue };
                let part = format!("source '{}'", source.name);
                (state.is_active, state.failure) =
                    (false, Some(Failure::Engine { part, cause: why.clone() }));
                state.cycles.clear();
                wakers.extend(state.waker.clone());
            }
        }
        (closed, wakers)
    }

    /// A query takes no more cycles. Returns the sources that nobody reads any more.
    pub fn leave(&mut self, query: u64) -> Vec<SourceState> {
        let Some(state) = self.queries.remove(&query) else { return Vec::new() };
        state.given.leave(self.next_cycle);
        let mut unread = Vec::new();
        for id in &state.sources {
            let Some(source) = self.sources.get_mut(id) else { continue };
            source.queries.retain(|reader| *reader != query);
            if source.queries.is_empty() {
                unread.extend(self.sources.remove(id));
            }
        }
        unread
    }

    /// Leaves queries behind that hold more rows of a source than the ring may have, the slowest one first, as long
    /// as others are further. A source that waits for them is not concerned.
    fn leave_slowest_behind(&mut self, changed: &[u64]) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for id in changed {
            while self.is_beyond_ring(*id) && self.leave_slowest(*id, &mut wakers) {}
        }
        wakers
    }

    fn is_beyond_ring(&self, source: u64) -> bool {
        let source = self.sources.get(&source).filter(|source| source.may_go_ahead());
        source.is_some_and(|source| source.held_bytes() > self.ring_bytes_max)
    }

    /// Ends the query that is slowest to take cycles with rows of a source or, if it is durable, lets it read them
    /// from the journal. Returns whether there was one: another query must be further.
    pub fn leave_slowest(&mut self, source: u64, wakers: &mut Vec<Waker>) -> bool {
        let Some(source) = self.sources.get(&source) else { return false };
        let behind = |query: &u64| {
            let state = self.queries.get(query)?;
            Some((state.cycles.front()?.cut.cycle, *query))
        };
        let slowest = source.queries.iter().filter_map(behind).min();
        let Some((_, slowest)) = slowest.filter(|_| self.readers(source) > 1) else { return false };
        let Some(state) = self.queries.get_mut(&slowest) else { return false };
        if state.durable.is_some() {
            let mut of_query = state.sources.iter().filter_map(|id| self.sources.get(id));
            let have_ended = of_query.all(|source| source.has_ended);
            state.fall_back(have_ended);
        } else {
            state.cycles.clear();
            state.is_active = false;
            state.failure = Some(fallen_behind(&source.name, self.ring_bytes_max));
        }
        wakers.extend(state.waker.clone());
        true
    }
}

/// The cut of a cycle, for the sources of one query.
fn cut_of(query: &QueryState, sources: &BTreeMap<u64, SourceState>, cycle: u64, now_ns: u64) -> Cut {
    let of_query = || query.sources.iter().filter_map(|id| sources.get(id));
    Cut {
        cycle,
        positions: of_query().map(|source| source.position).collect(),
        watermarks: of_query().map(|source| source.watermark).collect(),
        idle: of_query().map(|source| source.is_idle).collect(),
        ended_at: ended_at(&of_query().map(SourceState::mark).collect::<Vec<_>>()),
        stands_still_when_idle: false,
        closed_at_ns: now_ns,
        snapshot: false,
        last: of_query().all(|source| source.has_ended),
        splits: Vec::new(),
    }
}

/// Why the query cannot continue behind the cycles that it has, if a source of it has failed.
fn failure_of(query: &QueryState, sources: &BTreeMap<u64, SourceState>) -> Option<Failure> {
    query.sources.iter().filter_map(|id| sources.get(id)).find_map(|source| match &source.end {
        Some(SourceEnd::Failed(cause)) => {
            Some(Failure::Engine { part: format!("source '{}'", source.name), cause: cause.clone() })
        }
        _ => None,
    })
}

fn fallen_behind(source: &str, bytes_max: u64) -> Failure {
    let cause = Cause::resource(format!(
        "the query is more than {} MiB of rows behind other queries of this source, and the rows that it has not read \
         are no longer kept; make the query cheaper, or the source durable",
        bytes_max >> 20
    ));
    Failure::Engine { part: format!("source '{source}'"), cause }
}
