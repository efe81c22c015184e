//! Forwarding: from the journal into the gateway.

use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use tidemill_core::error::{Cause, Fault};
use tidemill_flow::{Gateway, Stopped, guard};
use tidemill_journal::{Positions, Record, StreamProgress, StreamReader};

use super::protocol::Forwarding;
use super::write::WriterReport;
use crate::feed_entry::{ChunkReceiver, End, EndReceiver, FeedEntry};
use crate::feed_state::FeedState;
use crate::source_reader::POLL_WAIT;

pub(crate) struct Forwarder<E = Gateway> {
    pub journal: StreamReader,
    pub progress: Arc<StreamProgress>,
    /// Batches that were just journaled. They have gaps where the writer found no room in the queue.
    pub queue: Receiver<Record>,
    pub entry: FeedEntry<E>,
    pub forwarding: Forwarding,
    /// The end of the cuts that are replayed: a stop does not take effect before it.
    pub replay_end: u64,
    /// The positions that are left out.
    pub skipped: Positions,
    pub state: Arc<FeedState>,
    pub told: Arc<WriterReport>,
}

impl<E: ChunkReceiver + EndReceiver> Forwarder<E> {
    pub fn run(mut self) {
        let end = guard(|| self.forward()).and_then(|end| {
            // What was taken in is forwarded. Whether more would come, only the taking in knows.
            let has_ended = self.told.get()?;
            Ok(if end == End::Source && !has_ended { End::Stop } else { end })
        });
        self.entry.close(end, &self.state);
    }

    fn forward(&mut self) -> Result<End, Cause> {
        loop {
            let received = self.queue.recv_timeout(POLL_WAIT);
            if let Some(end) = self.step(received)? {
                return Ok(end);
            }
            let now = Instant::now();
            if let Err(stopped) = self.look_ahead(now).and_then(|()| self.look_idle(now)) {
                return Ok(stopped.into());
            }
        }
    }
}

impl<E: ChunkReceiver> Forwarder<E> {
    /// Forwards what came through the queue, and what is in the journal before it.
    pub fn step(&mut self, received: Result<Record, RecvTimeoutError>) -> Result<Option<End>, Cause> {
        if self.is_stopped() {
            return Ok(Some(End::Stop));
        }
        let end = match &received {
            Ok(record) => record.start,
            Err(_) => self.progress.end(),
        };
        if let Some(end) = self.catch_up(end)? {
            return Ok(Some(end));
        }
        let forwarded = match received {
            Ok(record) => self.push(&record)?,
            Err(RecvTimeoutError::Disconnected) if self.forwarding.next() >= self.progress.end() => {
                return Ok(Some(End::Source));
            }
            Err(_) => Ok(()),
        };
        Ok(forwarded.err().map(End::from))
    }

    /// Whether it was told to stop, and may. Logged cuts are replayed completely, because a run can end only behind
    /// them.
    fn is_stopped(&self) -> bool {
        self.state.is_stopped() && self.forwarding.next() >= self.replay_end
    }

    /// Forwards from the journal what lies before `end`.
    fn catch_up(&mut self, end: u64) -> Result<Option<End>, Cause> {
        while self.forwarding.next() < end {
            if self.is_stopped() {
                return Ok(Some(End::Stop));
            }
            let Some(record) = self.journal.read(self.forwarding.next())? else {
                let (next, end) = (self.forwarding.next(), self.progress.end());
                return Err(Cause::bug(format!("the journal ends at {end}, so it has nothing at {next}")));
            };
            if let Err(stopped) = self.push(&record)? {
                return Ok(Some(stopped.into()));
            }
        }
        Ok(None)
    }

    /// Forwards a record, except for its events that were forwarded before.
    fn push(&mut self, record: &Record) -> Result<Result<(), Stopped>, Cause> {
        let Some(known) = self.forwarding.take(record.start, record.rows.num_rows() as u64) else {
            return Ok(Ok(()));
        };
        let end = record.start + record.rows.num_rows() as u64;
        let skipped = self.skipped.within(record.start..end);
        let taken = guard(|| self.entry.chunks.take_without(record, &skipped));
        let mut chunk = taken.map_err(|cause| self.with_positions(cause, record, &skipped))?;
        self.state.add_skipped(skipped.within(record.start + known..end).count());
        // The clock of the run that took it in may have been ahead of this one's: do not wait for that.
        chunk.arrived_ns = Some(record.arrived_ns.min(self.entry.gateway.now_ns()));
        let chunk = if known == 0 { Some(chunk) } else { chunk.split_at(known as u32).1 };
        Ok(chunk.map_or(Ok(()), |chunk| self.entry.push(chunk, &self.state)))
    }

    /// A failure over a record, with the positions of the rows that it can be due to.
    fn with_positions(&self, cause: Cause, record: &Record, skipped: &Positions) -> Cause {
        let (mut start, mut end) = (0, record.rows.num_rows());
        let fails = |start: usize, end: usize| {
            let range = record.start + start as u64..record.start + end as u64;
            let rows = record.rows.slice(start, end - start);
            // Rows that are left out are asked for their time only, and may fail.
            skipped.within(range).is_empty() && guard(|| self.entry.chunks.check(&rows)).is_err()
        };
        while end - start > 1 {
            let middle = start + (end - start) / 2;
            match (fails(start, middle), fails(middle, end)) {
                (true, _) => end = middle,
                (false, true) => start = middle,
                (false, false) => break,
            }
        }
        let positions: Positions =
            std::iter::once(record.start + start as u64..record.start + end as u64).collect();
        match cause.fault {
            Fault::User | Fault::Bug => cause.map_message(|text| {
                format!(
                    "{text} (at position {positions} of its journal; `tidemill journal skip` can skip rows)"
                )
            }),
            // Not for what the rows are.
            Fault::Operation | Fault::Resource => cause,
        }
    }

    /// Tells the gateway that the source is idle: because it has said so, and all rows before that are forwarded, or
    /// because it has been silent for long enough.
    pub fn look_idle(&mut self, now: Instant) -> Result<(), Stopped> {
        if self.told.idle_from() == Some(self.forwarding.next()) {
            self.entry.set_idle()
        } else {
            self.entry.look_idle(now)
        }
    }

    /// Tells the gateway how far the source is behind all rows that were forwarded.
    pub fn look_ahead(&mut self, now: Instant) -> Result<(), Stopped> {
        let (position, time_ns) = self.told.reached();
        if self.forwarding.next() < position { Ok(()) } else { self.entry.look_ahead(time_ns, now) }
    }
}
