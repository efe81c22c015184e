//! Forwarding: from the journal into the gateway, with event times, lateness and idleness decided on the way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use tidemill_core::error::Cause;
use tidemill_flow::{Gateway, Stopped};
use tidemill_journal::{Record, StreamProgress, StreamReader};

use super::write::Ending;
use crate::feed::{FeedState, POLL_WAIT};
use crate::intake::Intake;

pub(super) struct Forwarder {
    pub journal: StreamReader,
    pub progress: Arc<StreamProgress>,
    /// What was just journaled. It has gaps where the writer found no room in it.
    pub queue: Receiver<Record>,
    pub gateway: Gateway,
    pub intake: Intake,
    pub idle_after: Option<Duration>,
    /// The position that is forwarded next.
    pub next: u64,
    pub state: Arc<FeedState>,
    pub ending: Arc<Ending>,
}

/// Why forwarding ends.
enum End {
    /// Everything was forwarded, and nothing comes any more.
    Source,
    /// The feed was told to stop: what is left stays in the journal.
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
        let ended = ended.unwrap_or_else(|_| Err(Cause::Bug("a feed panicked".into())));
        self.state.has_ended();
        match ended.and_then(|end| Ok((end, self.ending.get()?))) {
            Ok((End::Source, true)) => drop(self.gateway),
            Ok(_) => self.gateway.leave(),
            Err(cause) => self.gateway.fail(cause),
        }
    }

    fn forward(&mut self) -> Result<End, Cause> {
        let mut last_rows = Instant::now();
        let mut idle = false;
        loop {
            if self.state.is_stopped() {
                return Ok(End::Stop);
            }
            let (before, received) = (self.next, self.queue.recv_timeout(POLL_WAIT));
            let end = match &received {
                Ok(record) => record.start,
                Err(_) => self.progress.end(),
            };
            if let Some(end) = self.catch_up(end)? {
                return Ok(end);
            }
            match received {
                Ok(record) if record.start + record.rows.num_rows() as u64 > self.next => {
                    if self.push(&record)? == Err(Stopped) {
                        return Ok(End::Query);
                    }
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) if self.next < self.progress.end() => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(End::Source),
            }
            if self.next > before {
                (last_rows, idle) = (Instant::now(), false);
            } else if !idle && self.idle_after.is_some_and(|limit| last_rows.elapsed() >= limit) {
                idle = true;
                if self.gateway.push(self.intake.idle()).is_err() {
                    return Ok(End::Query);
                }
            }
        }
    }

    /// Forwards from the journal what lies before `end`.
    fn catch_up(&mut self, end: u64) -> Result<Option<End>, Cause> {
        while self.next < end {
            if self.state.is_stopped() {
                return Ok(Some(End::Stop));
            }
            let Some(record) = self.journal.read(self.next)? else {
                let (next, end) = (self.next, self.progress.end());
                return Err(Cause::Bug(format!("the journal ends at {end} and has nothing at {next}")));
            };
            if self.push(&record)?.is_err() {
                return Ok(Some(End::Query));
            }
        }
        Ok(None)
    }

    /// Forwards a record, but for the events of it that were forwarded before.
    fn push(&mut self, record: &Record) -> Result<Result<(), Stopped>, Cause> {
        let known = self.next - record.start;
        let mut chunk = self.intake.take(&record.rows)?;
        // The clock of the run that took it in may have been ahead of this one's: it waits no longer for that.
        chunk.arrived_ns = Some(record.arrived_ns.min(self.gateway.now_ns()));
        self.next = record.start + record.rows.num_rows() as u64;
        self.state.set_late(self.intake.late());
        self.state.add_faults(self.intake.faults());
        let chunk = if known == 0 { Some(chunk) } else { chunk.split_at(known as u32).1 };
        Ok(chunk.map_or(Ok(()), |chunk| self.gateway.push(chunk)))
    }
}
