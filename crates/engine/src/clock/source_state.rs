//! A source under the clock of a database: what it gave and no cycle has yet, and where its last cut is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidemill_core::error::Cause;
use tidemill_flow::Chunk;

use super::lost_rows::SourceMark;
use super::slice::{Slice, bytes_of};
use super::source_journal::SourceJournal;
use super::source_use::SourceKey;
use crate::feed_state::FeedState;

/// How a source has ended.
#[derive(Clone, Debug)]
pub(super) enum SourceEnd {
    /// By itself: its event time is complete.
    Complete,
    /// More could come.
    Left,
    /// It cannot continue.
    Failed(Cause),
}

/// A source, and what no cycle has yet.
pub(super) struct SourceState {
    pub name: String,
    /// By which other queries find it; `None`: it belongs to one query.
    pub key: Option<SourceKey>,
    /// How long it waits for room that the slowest query is to make.
    pub waits_max: Duration,
    /// The queries that read it.
    pub queries: Vec<u64>,
    pub feed: Arc<FeedState>,
    pending: Vec<Chunk>,
    pub pending_events: u64,
    pending_bytes: u64,
    /// As of the last cut.
    pub position: u64,
    pub watermark: i64,
    pub is_idle: bool,
    pub ended_at: i64,
    pub end: Option<SourceEnd>,
    /// Whether a cut says that it has ended.
    pub has_ended: bool,
    held_bytes: Arc<AtomicU64>,
    /// If its rows are journaled.
    pub journal: Option<SourceJournal>,
    /// Whether a transaction gives it rows, which no cut divides.
    pub is_in_transaction: bool,
}

impl SourceState {
    pub fn new(name: &str, key: Option<SourceKey>, waits_max: Duration, feed: Arc<FeedState>) -> SourceState {
        SourceState {
            name: name.to_owned(),
            key,
            waits_max,
            queries: Vec::new(),
            feed,
            pending: Vec::new(),
            pending_events: 0,
            pending_bytes: 0,
            position: 0,
            watermark: i64::MIN,
            is_idle: false,
            ended_at: i64::MIN,
            end: None,
            has_ended: false,
            held_bytes: Arc::default(),
            journal: None,
            is_in_transaction: false,
        }
    }

    /// Whose rows are journaled; it continues where it was at the last cut.
    pub fn journaled(self, journal: SourceJournal, mark: SourceMark) -> SourceState {
        let SourceMark { position, watermark, is_idle, ended_at } = mark;
        SourceState { journal: Some(journal), position, watermark, is_idle, ended_at, ..self }
    }

    /// Where it is at the last cut.
    pub fn mark(&self) -> SourceMark {
        let SourceState { position, watermark, is_idle, ended_at, .. } = *self;
        SourceMark { position, watermark, is_idle, ended_at }
    }

    /// Whether a query that is slower than others does not hold it back.
    pub fn may_go_ahead(&self) -> bool {
        self.waits_max.is_zero() || self.journal.is_some()
    }

    pub fn push(&mut self, chunk: Chunk) {
        self.pending_events += u64::from(chunk.events);
        self.pending_bytes += bytes_of(&chunk);
        self.pending.push(chunk);
    }

    /// Whether more may be pushed: less than a full cycle waits, and the ring has room, or one of several `readers` is to make
    /// room.
    pub fn has_room(&self, events_max: u64, ring_bytes_max: u64, readers: usize) -> bool {
        // A transaction ends only when all of its rows are here.
        if self.is_in_transaction {
            return true;
        }
        // Chunks without rows count, too: they have bytes.
        let is_small = self.pending_events < events_max && self.pending_bytes < ring_bytes_max / 2;
        is_small && !self.is_held(ring_bytes_max, readers)
    }

    /// Whether the ring is full, and the source waits until a query has taken more of it.
    pub fn is_held(&self, ring_bytes_max: u64, readers: usize) -> bool {
        self.held_bytes() >= ring_bytes_max && (!self.may_go_ahead() || readers < 2)
    }

    /// The bytes of cycles that some query has not taken.
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    pub fn oldest_ns(&self) -> Option<u64> {
        self.pending.first().map(|chunk| chunk.arrived_ns.unwrap_or(0))
    }

    /// Whether its end is still to be cut.
    pub fn is_ending(&self) -> bool {
        self.end.is_some() && !self.has_ended
    }

    /// Whether a cut would change it.
    pub fn waits(&self) -> bool {
        !self.is_in_transaction && (!self.pending.is_empty() || self.is_ending())
    }

    /// One past the position of the last row that has come.
    pub fn end_of_rows(&self) -> u64 {
        self.position + self.pending_events
    }

    /// Forgets the rows that no cycle has.
    pub fn forget_pending(&mut self) {
        self.pending.clear();
        (self.pending_events, self.pending_bytes) = (0, 0);
    }

    /// Cuts here: what waits becomes the slice of a cycle.
    pub fn cut(&mut self) -> Arc<Slice> {
        let chunks = std::mem::take(&mut self.pending);
        (self.pending_events, self.pending_bytes) = (0, 0);
        for chunk in &chunks {
            self.position += u64::from(chunk.events);
            self.watermark = self.watermark.max(chunk.watermark);
            self.is_idle = chunk.idle;
        }
        if let Some(end) = &self.end {
            (self.has_ended, self.is_idle) = (true, self.is_idle && !matches!(end, SourceEnd::Complete));
            if let SourceEnd::Complete = end
                && self.watermark < i64::MAX
            {
                (self.ended_at, self.watermark) = (self.watermark, i64::MAX);
            }
        }
        Slice::new(chunks, &self.held_bytes)
    }
}
