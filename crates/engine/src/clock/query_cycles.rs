//! The cycles of a database for one query.

use std::sync::Arc;

use tidemill_core::Batch;
use tidemill_core::arrow::array::{RecordBatch, RecordBatchOptions};
use tidemill_core::arrow::schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_flow::{Chunk, Failure, Given, GivenCycle, GivenCycles, Waker};

use super::ClockShared;
use super::query_replay::QueryReplay;
use super::query_state::QueuedCycle;
use super::slice::row_bytes_of;
use crate::feed_state::FeedState;

/// A source as a query sees it.
pub(crate) struct SourceView {
    /// Which of its columns the query reads; `None`: all.
    pub columns: Option<Vec<usize>>,
    /// The streams of the query's plan.
    pub streams: Vec<SchemaRef>,
    /// What the query has read of it.
    pub feed: Arc<FeedState>,
}

/// The cycles of a database for one query. Dropping it ends the query's part.
pub(super) struct QueryCycles {
    pub shared: Arc<ClockShared>,
    pub query: u64,
    pub sources: Vec<SourceView>,
    /// If the query is durable: where it is in the journal.
    pub replay: Option<QueryReplay>,
}

impl GivenCycles for QueryCycles {
    fn wake_by(&mut self, waker: Waker) {
        if let Some(query) = self.shared.lock().queries.get_mut(&self.query) {
            query.waker = Some(waker);
        }
    }

    fn next(&mut self, is_idle: bool, wants_cycle: bool) -> Result<Given, Failure> {
        if let Some(cycle) = self.next_in_journal()? {
            return Ok(Given::Cycle(cycle));
        }
        let mut state = self.shared.lock();
        let mut closed = (None, Vec::new());
        if let Some(query) = state.queries.get_mut(&self.query)
            && query.cycles.is_empty()
        {
            if let Some(failure) = &query.failure {
                return Err(failure.clone());
            }
            query.is_idle = is_idle;
            let now_ns = self.shared.clock.now_ns();
            closed = if wants_cycle {
                (None, state.close_for(self.query, now_ns))
            } else {
                state.close_if_due(now_ns)
            };
        }
        let next = state.queries.get_mut(&self.query).and_then(|query| {
            let next = query.cycles.pop_front()?;
            query.is_idle = false;
            Some(next)
        });
        drop(state);
        let (wait_ns, wakers) = closed;
        self.shared.announce(&wakers);
        match next {
            None => Ok(Given::Wait(wait_ns)),
            Some(next) => {
                if let Some(replay) = &mut self.replay {
                    replay.follow(&next.cut);
                }
                let cycle = self.cycle(next).map_err(of_clock)?;
                // The rows that nobody holds any more make room.
                self.shared.announce_room();
                Ok(Given::Cycle(cycle))
            }
        }
    }
}

fn of_clock(cause: Cause) -> Failure {
    Failure::Engine { part: "the clock of the database".into(), cause }
}

impl QueryCycles {
    /// The next cycle, as long as the query reads them from the journal.
    fn next_in_journal(&mut self) -> Result<Option<GivenCycle>, Failure> {
        let Some(replay) = &mut self.replay else { return Ok(None) };
        loop {
            let mut state = self.shared.lock();
            let (end, failure) = (state.next_cycle, state.journal_failure.clone());
            let Some(query) = state.queries.get_mut(&self.query) else { return Ok(None) };
            let Some(durable) = query.durable.as_ref().filter(|durable| durable.is_replaying) else {
                return Ok(None);
            };
            let is_last = durable.is_ending;
            if let Some(failure) = failure {
                return Err(failure);
            }
            query.given.replays(Some(replay.next_cycle()));
            if replay.next_cycle() >= end {
                let wakers = state.catch_up(self.query, self.shared.clock.now_ns());
                drop(state);
                self.shared.announce(&wakers);
                return Ok(None);
            }
            drop(state);
            let Some(cycle) = replay.next(end, is_last).map_err(of_clock)? else { continue };
            if let Some(query) = self.shared.lock().queries.get_mut(&self.query) {
                query.note_read(&cycle.cut, replay.next_cycle());
            }
            let GivenCycle { cut, chunks } = cycle;
            let mut seen = Vec::with_capacity(chunks.len());
            for (chunks, source) in chunks.iter().zip(&self.sources) {
                source.count(chunks);
                let of_query = chunks.iter().map(|chunk| source.chunk(chunk));
                seen.push(of_query.collect::<Result<Vec<_>, Cause>>().map_err(of_clock)?);
            }
            if cut.last {
                self.sources.iter().for_each(|source| source.feed.has_ended());
            }
            return Ok(Some(GivenCycle { cut, chunks: seen }));
        }
    }

    fn cycle(&self, queued: QueuedCycle) -> Result<GivenCycle, Cause> {
        let QueuedCycle { cut, slices } = queued;
        let mut chunks = Vec::with_capacity(slices.len());
        for (slice, source) in slices.iter().zip(&self.sources) {
            let of_source = slice.iter().flat_map(|slice| &slice.chunks);
            chunks.push(of_source.map(|chunk| source.chunk(chunk)).collect::<Result<Vec<_>, Cause>>()?);
            if let Some(slice) = slice {
                source.count(&slice.chunks);
            }
        }
        if cut.last {
            self.sources.iter().for_each(|source| source.feed.has_ended());
        }
        Ok(GivenCycle { cut, chunks })
    }
}

impl SourceView {
    /// A chunk with the columns and the streams of the query.
    pub(crate) fn chunk(&self, chunk: &Chunk) -> Result<Chunk, Cause> {
        let streams = chunk.streams.iter().zip(&self.streams);
        let project = |(batch, schema): (&Option<Batch>, &SchemaRef)| {
            batch.as_ref().map(|batch| self.batch(batch, schema)).transpose()
        };
        let streams = streams.map(project).collect::<Result<Vec<_>, Cause>>()?;
        Ok(Chunk { streams, ..*chunk })
    }

    fn batch(&self, batch: &Batch, schema: &SchemaRef) -> Result<Batch, Cause> {
        let Some(columns) = &self.columns else { return Ok(batch.clone()) };
        let columns = columns.iter().map(|column| Arc::clone(batch.rows.column(*column))).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.rows.num_rows()));
        let rows = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options);
        let rows = rows.map_err(|error| Cause::bug(error.to_string()).with_source(error))?;
        Ok(Batch { rows, ..batch.clone() })
    }

    fn count(&self, chunks: &[Chunk]) {
        let bytes = chunks.iter().map(row_bytes_of).sum();
        let rows = chunks.iter().map(|chunk| u64::from(chunk.events)).sum();
        let late = chunks.iter().filter_map(|chunk| chunk.streams.get(1)?.as_ref());
        self.feed.add_read(rows, bytes, late.map(|batch| batch.len() as u64).sum());
    }
}

impl Drop for QueryCycles {
    fn drop(&mut self) {
        self.shared.leave(self.query);
    }
}
