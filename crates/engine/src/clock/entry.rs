//! The way from a source into a clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;
use tidemill_core::error::Cause;
use tidemill_flow::{Chunk, HeldBack, Stopped};

use super::ClockShared;
use super::source_state::SourceEnd;
use super::state::ClockState;
use crate::feed_entry::{ChunkReceiver, End, EndReceiver};

/// Where the chunks of a source go.
pub(super) struct ClockEntry {
    pub shared: Arc<ClockShared>,
    pub source: u64,
    pub held_back: HeldBack,
}

impl ChunkReceiver for ClockEntry {
    /// Waits while the source is to be held back.
    fn push(&self, mut chunk: Chunk) -> Result<(), Stopped> {
        chunk.arrived_ns.get_or_insert_with(|| self.shared.clock.now_ns());
        let mut rest = Some(chunk);
        while let Some(chunk) = rest {
            rest = self.push_part(chunk)?;
        }
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        self.shared.clock.now_ns()
    }

    fn held_back(&self) -> HeldBack {
        self.held_back.clone()
    }
}

impl ClockEntry {
    /// The source cannot be read.
    pub fn fail(self, cause: Cause) {
        self.end(Err(cause));
    }

    /// Pushes at most a full cycle; returns the rest.
    fn push_part(&self, chunk: Chunk) -> Result<Option<Chunk>, Stopped> {
        let mut state = self.shared.lock();
        let mut held_since = None;
        let events_max = loop {
            let Some(source) = state.sources.get(&self.source) else { return Err(Stopped) };
            let (events_max, readers) = (state.events_max(source), state.readers(source));
            if source.has_room(events_max, state.ring_bytes_max, readers) {
                break events_max;
            }
            // A query that is alone cannot be left behind.
            let is_held = readers > 1 && source.is_held(state.ring_bytes_max, readers);
            let since = is_held.then(|| held_since.unwrap_or_else(Instant::now));
            let waits_max =
                since.map_or(Duration::MAX, |since| source.waits_max.saturating_sub(since.elapsed()));
            held_since = since;
            if waits_max.is_zero() {
                state = self.leave_slowest(state);
            } else {
                self.held_back.while_waiting(|| self.shared.wait_for_room(&mut state, waits_max));
            }
        };
        let Some(source) = state.sources.get_mut(&self.source) else { return Err(Stopped) };
        let was_waiting = source.waits();
        let room = if source.is_in_transaction {
            u32::MAX
        } else {
            u32::try_from(events_max.saturating_sub(source.pending_events)).unwrap_or(u32::MAX)
        };
        let (first, rest) = chunk.split_at(room);
        first.into_iter().for_each(|chunk| source.push(chunk));
        let is_in_transaction = source.is_in_transaction;
        let readers = source.queries.clone();
        let (_, mut wakers) = state.close_if_due(self.shared.clock.now_ns());
        if wakers.is_empty() && !was_waiting {
            // One that waits for nothing must now wait for the time of this chunk.
            let ready = readers.iter().filter_map(|query| state.queries.get(query));
            wakers.extend(ready.filter(|query| query.is_ready()).filter_map(|query| query.waker.clone()));
        }
        drop(state);
        self.shared.announce(&wakers);
        if is_in_transaction {
            // Who commits it waits for its rows.
            self.shared.room.notify_all();
        }
        Ok(rest)
    }

    /// Makes room: leaves the slowest query behind. If none is slower than others, rows are on their way to one, which makes room at once.
    fn leave_slowest<'a>(&'a self, mut state: MutexGuard<'a, ClockState>) -> MutexGuard<'a, ClockState> {
        let mut wakers = Vec::new();
        state.leave_slowest(self.source, &mut wakers);
        drop(state);
        self.shared.announce(&wakers);
        self.shared.lock()
    }
}

impl EndReceiver for ClockEntry {
    fn end(self, end: Result<End, Cause>) {
        let mut state = self.shared.lock();
        let Some(source) = state.sources.get_mut(&self.source) else { return };
        source.end = Some(match end {
            Ok(End::Source) => SourceEnd::Complete,
            Ok(End::Stop | End::Query) => SourceEnd::Left,
            Err(cause) => SourceEnd::Failed(cause),
        });
        let (_, wakers) = state.close_if_due(self.shared.clock.now_ns());
        drop(state);
        self.shared.announce(&wakers);
    }
}
