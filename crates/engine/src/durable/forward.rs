//! Forwarding: from the journal into the gateway. Event times, lateness and idleness are decided on the way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use tidemill_core::error::{Cause, Fault};
use tidemill_flow::{Chunk, Gateway, Stopped, guard};
use tidemill_journal::{Positions, Record, StreamProgress, StreamReader};

use super::protocol::Forwarding;
use super::write::Told;
use crate::feed::{FeedState, POLL_WAIT};
use crate::intake::Intake;

/// Where a forwarder's chunks go: a gateway.
pub(super) trait Entrance {
    fn push(&self, chunk: Chunk) -> Result<(), Stopped>;
    /// The engine's clock, on which arrivals are stamped.
    fn now_ns(&self) -> u64;
}

impl Entrance for Gateway {
    fn push(&self, chunk: Chunk) -> Result<(), Stopped> {
        Gateway::push(self, chunk)
    }
    fn now_ns(&self) -> u64 {
        Gateway::now_ns(self)
    }
}

pub(super) struct Forwarder<E = Gateway> {
    pub journal: StreamReader,
    pub progress: Arc<StreamProgress>,
    /// Batches that were just journaled. They have gaps where the writer found no room in the queue.
    pub queue: Receiver<Record>,
    pub gateway: E,
    pub intake: Intake,
    pub idle_after: Option<Duration>,
    pub forwarding: Forwarding,
    /// The end of the cuts that are replayed: a stop does not take effect before it.
    pub replay_end: u64,
    /// The positions that are left out.
    pub skipped: Positions,
    pub state: Arc<FeedState>,
    pub told: Arc<Told>,
    pub pause: Pause,
}

/// Whether the source is silent, and since when.
pub(super) struct Pause {
    since: Instant,
    /// The position that was next at that time.
    position: u64,
    is_idle: bool,
}

impl Pause {
    pub fn since(since: Instant, position: u64) -> Self {
        Pause { since, position, is_idle: false }
    }
}

/// Why forwarding ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Everything was forwarded, and nothing more comes.
    Source,
    /// The feed was told to stop: the rest stays in the journal.
    Stop,
    /// The query has stopped.
    Query,
}

impl From<Stopped> for End {
    fn from(_: Stopped) -> Self {
        End::Query
    }
}

impl Forwarder {
    pub fn run(mut self) {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.forward()));
        let ended = ended.unwrap_or_else(|_| Err(Cause::bug("a feed panicked")));
        self.state.has_ended();
        match ended.and_then(|end| Ok((end, self.told.get()?))) {
            Ok((End::Source, true)) => drop(self.gateway),
            Ok(_) => self.gateway.leave(),
            Err(cause) => self.gateway.fail(cause),
        }
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

impl<E: Entrance> Forwarder<E> {
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
                return Err(Cause::bug(format!("the journal ends at {end} and has nothing at {next}")));
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
        let taken = guard(|| self.intake.take_without(record, &skipped));
        let mut chunk = taken.map_err(|cause| self.with_positions(cause, record, &skipped))?;
        self.state.add_skipped(skipped.within(record.start + known..end).count());
        // The clock of the run that took it in may have been ahead of this one's: do not wait for that.
        chunk.arrived_ns = Some(record.arrived_ns.min(self.gateway.now_ns()));
        self.state.set_late(self.intake.late());
        self.state.add_faults(self.intake.faults());
        let chunk = if known == 0 { Some(chunk) } else { chunk.split_at(known as u32).1 };
        Ok(chunk.map_or(Ok(()), |chunk| self.gateway.push(chunk)))
    }

    /// A failure over a record, with the positions of the rows that it can be due to.
    fn with_positions(&self, cause: Cause, record: &Record, skipped: &Positions) -> Cause {
        let (mut start, mut end) = (0, record.rows.num_rows());
        let fails = |start: usize, end: usize| {
            let range = record.start + start as u64..record.start + end as u64;
            let rows = record.rows.slice(start, end - start);
            // Rows that are left out are asked for their time only, and may fail.
            skipped.within(range).is_empty() && guard(|| self.intake.check(&rows)).is_err()
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
                    "{text} (at position {positions} of its journal; `tidemill journal skip` leaves rows out)"
                )
            }),
            // Not for what the rows are.
            Fault::Operation | Fault::Resource => cause,
        }
    }

    /// Tells the gateway that the source is idle, once it has been silent for long enough.
    pub fn look_idle(&mut self, now: Instant) -> Result<(), Stopped> {
        if self.forwarding.next() > self.pause.position {
            self.pause = Pause::since(now, self.forwarding.next());
            return Ok(());
        }
        let silent = now.saturating_duration_since(self.pause.since);
        if self.pause.is_idle || self.idle_after.is_none_or(|limit| silent < limit) {
            return Ok(());
        }
        self.pause.is_idle = true;
        self.gateway.push(self.intake.without_rows(true))
    }

    /// Tells the gateway how far the source is, where connections that closed or fell silent have let time go on behind all
    /// rows.
    pub fn look_ahead(&mut self, now: Instant) -> Result<(), Stopped> {
        let (position, time_ns) = self.told.reached();
        if self.forwarding.next() < position || !self.intake.raise(time_ns) {
            return Ok(());
        }
        // Nobody hears the time of a source that is idle: it is active, and idle again a little later.
        self.pause = Pause::since(now, self.forwarding.next());
        self.gateway.push(self.intake.without_rows(false))
    }
}
