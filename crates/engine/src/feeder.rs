//! Feeds a source into its gateway without a journal between them.

use std::sync::Arc;
use std::time::Instant;

use tidemill_core::arrow::schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::{Polled, Source};
use tidemill_flow::guard;

use crate::feed_entry::{ChunkReceiver, End, EndReceiver, FeedEntry};
use crate::feed_settings::FeedSettings;
use crate::feed_state::FeedState;
use crate::source_reader::{POLL_WAIT, SourceReader};

/// A source and its gateway, on one thread.
pub(crate) struct Feeder<E> {
    reader: SourceReader,
    entry: FeedEntry<E>,
    state: Arc<FeedState>,
}

impl<E: ChunkReceiver + EndReceiver> Feeder<E> {
    /// Feeds until the source ends or the feed is stopped.
    pub fn run(mut self) {
        let end = guard(|| {
            loop {
                if let Some(end) = self.step(Instant::now)? {
                    return Ok(end);
                }
            }
        });
        self.entry.close(end, &self.state);
    }
}

impl<E: ChunkReceiver> Feeder<E> {
    /// From a source into a gateway with these streams.
    pub fn new(
        source: Box<dyn Source>,
        receiver: (E, &[SchemaRef]),
        settings: &FeedSettings,
        now: Instant,
        state: Arc<FeedState>,
    ) -> Self {
        let reader = SourceReader::new(source, settings, receiver.1, i64::MIN, now);
        state.set_held_back(receiver.0.held_back());
        Feeder { reader, entry: FeedEntry::new(receiver, settings, i64::MIN, now), state }
    }

    /// Feeds what the source has next.
    pub fn step(&mut self, now: impl Fn() -> Instant) -> Result<Option<End>, Cause> {
        if self.state.is_stopped() {
            return Ok(Some(End::Stop));
        }
        let polled = self.reader.poll(POLL_WAIT, &self.state)?;
        let is_idle = matches!(polled, Polled::Idle);
        let pushed = match polled {
            // Without a journal, nobody remembers the numbers of requests.
            Polled::Rows(rows) | Polled::Request { rows, .. } => {
                self.reader.rows_came(now());
                let (rows, stretches) = self.reader.take(&rows, 0, &self.state)?;
                self.state.add_rows(&rows);
                match rows.num_rows() {
                    0 => Ok(()),
                    _ => {
                        let chunk = self.entry.chunks.take_stretches(&rows, &stretches)?;
                        let pushed = self.entry.push(chunk, &self.state);
                        // The source was not asked while the query held this back.
                        self.reader.rows_came(now());
                        pushed
                    }
                }
            }
            Polled::Nothing | Polled::Idle => {
                self.reader.hear_nothing(now(), is_idle);
                Ok(())
            }
            Polled::Ended => return Ok(Some(End::Source)),
            Polled::Left => return Ok(Some(End::Stop)),
        };
        let told = pushed
            .and_then(|()| self.entry.look_ahead(self.reader.time_ns().unwrap_or(i64::MIN), now()))
            .and_then(|()| if is_idle { self.entry.set_idle() } else { self.entry.look_idle(now()) });
        Ok(told.err().map(End::from))
    }
}
