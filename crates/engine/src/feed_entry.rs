//! The way into a gateway: lateness and idleness are decided here, whether the rows come from a source or from its
//! journal.

use std::time::{Duration, Instant};

use tidemill_core::arrow::schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_flow::{Chunk, Gateway, HeldBack, Stopped};

use crate::chunk_builder::ChunkBuilder;
use crate::feed_settings::FeedSettings;
use crate::feed_state::FeedState;

/// Where the chunks of a feed go: a gateway, or a stand-in for one in tests.
pub(crate) trait ChunkReceiver {
    fn push(&self, chunk: Chunk) -> Result<(), Stopped>;
    /// The engine's clock, on which arrivals are stamped.
    fn now_ns(&self) -> u64;
    /// How long pushes have waited for room.
    fn held_back(&self) -> HeldBack {
        HeldBack::default()
    }
}

impl ChunkReceiver for Gateway {
    fn push(&self, chunk: Chunk) -> Result<(), Stopped> {
        Gateway::push(self, chunk)
    }
    fn now_ns(&self) -> u64 {
        Gateway::now_ns(self)
    }
    fn held_back(&self) -> HeldBack {
        Gateway::held_back(self)
    }
}

/// Why a feed ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Everything was forwarded, and nothing more comes.
    Source,
    /// The feed was told to stop.
    Stop,
    /// The query has stopped.
    Query,
}

impl From<Stopped> for End {
    fn from(_: Stopped) -> Self {
        End::Query
    }
}

/// A gateway with what is known of its source.
pub(crate) struct FeedEntry<E> {
    pub gateway: E,
    pub chunks: ChunkBuilder,
    idle_after: Option<Duration>,
    /// Since when the source is silent.
    silent_since: Instant,
    /// Whether rows have come since this was last looked at.
    has_rows: bool,
    is_idle: bool,
}

impl<E: ChunkReceiver> FeedEntry<E> {
    /// Into a gateway with these streams, which was complete up to a watermark.
    pub fn new(
        (gateway, streams): (E, &[SchemaRef]),
        settings: &FeedSettings,
        watermark: i64,
        now: Instant,
    ) -> Self {
        let chunks = ChunkBuilder::new(settings, streams).resumed(watermark);
        let idle_after = settings.idle_after;
        FeedEntry { gateway, chunks, idle_after, silent_since: now, has_rows: false, is_idle: false }
    }

    /// Pushes what the intake made of rows, and reports what it found on the way.
    pub fn push(&mut self, chunk: Chunk, state: &FeedState) -> Result<(), Stopped> {
        state.set_late(self.chunks.late());
        state.add_faults(self.chunks.faults());
        self.has_rows = true;
        self.gateway.push(chunk)
    }

    /// Tells the gateway how far the source is, where connections that closed or fell silent have let time advance after
    /// all rows.
    pub fn look_ahead(&mut self, time_ns: i64, now: Instant) -> Result<(), Stopped> {
        if !self.chunks.raise(time_ns) {
            return Ok(());
        }
        // Nobody hears the time of a source that is idle: it is active, and idle again a little later.
        self.is_active(now);
        self.gateway.push(self.chunks.without_rows(false))
    }

    /// Tells the gateway that the source is idle, once it has been silent for long enough. A push may have waited for the
    /// query: `now` is after it, so that nobody counts as silent who was not heard.
    pub fn look_idle(&mut self, now: Instant) -> Result<(), Stopped> {
        if self.has_rows {
            self.is_active(now);
            return Ok(());
        }
        let silent = now.saturating_duration_since(self.silent_since);
        if self.is_idle || self.idle_after.is_none_or(|limit| silent < limit) {
            return Ok(());
        }
        self.is_idle = true;
        self.gateway.push(self.chunks.without_rows(true))
    }

    /// Tells the gateway that the source is idle, because the source has said so.
    pub fn set_idle(&mut self) -> Result<(), Stopped> {
        if self.is_idle && !self.has_rows {
            return Ok(());
        }
        (self.has_rows, self.is_idle) = (false, true);
        self.gateway.push(self.chunks.without_rows(true))
    }

    fn is_active(&mut self, now: Instant) {
        (self.silent_since, self.has_rows, self.is_idle) = (now, false, false);
    }
}

/// What learns how a source has ended.
pub(crate) trait EndReceiver {
    fn end(self, end: Result<End, Cause>);
}

impl EndReceiver for Gateway {
    fn end(self, end: Result<End, Cause>) {
        match end {
            Ok(End::Source) => drop(self),
            Ok(End::Stop | End::Query) => self.leave(),
            Err(cause) => self.fail(cause),
        }
    }
}

impl<E: EndReceiver> FeedEntry<E> {
    /// Ends the source, as it ended itself.
    pub fn close(self, end: Result<End, Cause>, state: &FeedState) {
        state.has_ended();
        self.gateway.end(end);
    }
}
