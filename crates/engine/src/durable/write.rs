//! Taking in: from the source into its journal, synced as was promised, then acknowledged.

use std::cmp::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use tidemill_core::arrow::array::RecordBatch;
use tidemill_core::error::Cause;
use tidemill_core::{Clock, Faults, Polled, Request, Source};
use tidemill_journal::{Record, StreamWriter};

use super::SyncPolicy;
use super::feed::Start;
use super::protocol::{Settle, Taking};
use crate::admission::Gate;
use crate::feed::{FeedState, POLL_WAIT};

/// How long to wait until room is asked for again.
const ROOM_WAIT: Duration = Duration::from_millis(5);
/// And on a full disk, where each time is an attempt to write.
const DISK_WAIT: Duration = Duration::from_secs(1);

/// How the taking in has ended, for the forwarder, which has the gateway.
#[derive(Default)]
pub(super) struct Ending {
    end: Mutex<Option<Result<bool, Cause>>>,
}

impl Ending {
    /// True: the source has come to its end; false: it was stopped before.
    pub fn get(&self) -> Result<bool, Cause> {
        self.lock().clone().unwrap_or(Ok(false))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Result<bool, Cause>>> {
        self.end.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// What a step of the taking in has come to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Next,
    /// There is no room: the next step has time.
    Wait(Duration),
    /// True: the source has come to its end; false: it was stopped before.
    Ended(bool),
}

pub(super) struct Writer {
    source: Box<dyn Source>,
    gate: Gate,
    journal: StreamWriter,
    taking: Taking,
    /// Rows for which the disk had no room, and whose they are.
    held: Option<(RecordBatch, Option<Request>)>,
    /// What is handed on without a detour over the journal, as long as there is room.
    queue: Sender<Record>,
    clock: Arc<dyn Clock>,
    state: Arc<FeedState>,
    ending: Arc<Ending>,
    synced_at: Instant,
}

impl Writer {
    pub fn new(
        (source, gate): (Box<dyn Source>, Gate),
        journal: StreamWriter,
        policy: SyncPolicy,
        queue: Sender<Record>,
        (state, ending): (Arc<FeedState>, Arc<Ending>),
        start: Start,
    ) -> Self {
        let taking = Taking::new(policy, source.is_repeatable(), journal.end());
        let Start { clock, now: synced_at, .. } = start;
        Writer { source, gate, journal, taking, held: None, queue, clock, state, ending, synced_at }
    }

    pub fn run(mut self) {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.take_in()));
        let ended = ended.unwrap_or_else(|_| Err(Cause::Bug("a source panicked".into())));
        *self.ending.lock() = Some(ended);
    }

    fn take_in(&mut self) -> Result<bool, Cause> {
        loop {
            match self.step(Instant::now())? {
                Step::Next => {}
                Step::Wait(wait) => self.sleep(wait),
                Step::Ended(at_end) => return Ok(at_end),
            }
        }
    }

    fn sleep(&self, wait: Duration) {
        let until = Instant::now() + wait;
        while Instant::now() < until && !self.state.is_stopped() {
            std::thread::sleep(ROOM_WAIT);
        }
    }

    /// Takes in what the source has next, or looks for room.
    pub fn step(&mut self, now: Instant) -> Result<Step, Cause> {
        if self.held.is_some() {
            return self.write(now);
        }
        if self.state.is_stopped() {
            self.sync(now)?;
            return Ok(Step::Ended(false));
        }
        if !self.journal.has_room() {
            // What is no longer needed goes with the next sync.
            self.sync(now)?;
            return Ok(Step::Wait(ROOM_WAIT));
        }
        let polled = self.source.poll(self.poll_wait(now))?;
        self.tell();
        match polled {
            Polled::Rows(rows) => self.take(rows, now),
            Polled::Nothing => self.settle(now, false),
            Polled::Ended => {
                self.sync(now)?;
                Ok(Step::Ended(true))
            }
        }
    }

    /// How long the source may wait for rows: not at all while others wait for a sync.
    fn poll_wait(&self, now: Instant) -> Duration {
        let until_sync = self.taking.until_sync(now.saturating_duration_since(self.synced_at));
        until_sync.map_or(POLL_WAIT, |wait| wait.min(POLL_WAIT))
    }

    fn take(&mut self, rows: RecordBatch, now: Instant) -> Result<Step, Cause> {
        let request = self.source.request();
        let last = request.as_ref().and_then(|request| self.journal.last_of(&request.client));
        let place = request.as_ref().zip(last).map(|(request, last)| request.sequence.cmp(&last));
        if let (Some(Ordering::Less), Some(last)) = (place, last) {
            self.source.refuse(last);
        }
        let is_repeated = matches!(place, Some(Ordering::Less | Ordering::Equal));
        let Some(known) = self.taking.given(rows.num_rows() as u64, is_repeated) else {
            return self.settle(now, true);
        };
        let known = known as usize;
        // Before it is journaled: what depends on the clock is not decided again by a replay.
        let rows = self.gate.admit(rows.slice(known, rows.num_rows() - known))?;
        self.state.add_faults(self.gate.faults());
        if rows.num_rows() == 0 {
            self.taking.written();
            return self.settle(now, true);
        }
        self.held = Some((rows, request));
        self.write(now)
    }

    /// Writes the rows that are held. A full disk holds the senders back, as a full journal does.
    fn write(&mut self, now: Instant) -> Result<Step, Cause> {
        let Some((rows, request)) = self.held.take() else { return Ok(Step::Next) };
        let (start, arrived_ns) = (self.journal.end(), self.clock.now_ns());
        match self.journal.append(&rows, arrived_ns, request.as_ref()) {
            Ok(_) => {}
            Err(Cause::Resource(reason)) if !self.state.is_stopped() => {
                self.held = Some((rows, request));
                self.tell_of_full_disk(&reason);
                self.settle(now, false)?;
                return Ok(Step::Wait(DISK_WAIT));
            }
            Err(cause) => return Err(cause),
        }
        self.taking.written();
        self.state.add_rows(rows.num_rows());
        // If there is no room, the forwarder reads it from the journal.
        let _ = self.queue.try_send(Record { start, rows, arrived_ns, request: None });
        self.settle(now, true)
    }

    /// Syncs and acknowledges, if it is time.
    fn settle(&mut self, now: Instant, has_more: bool) -> Result<Step, Cause> {
        match self.taking.settle(now.saturating_duration_since(self.synced_at), has_more) {
            Settle::Nothing => {}
            Settle::Sync => self.sync(now)?,
            Settle::Acknowledge => {
                self.journal.check_there()?;
                self.acknowledge();
            }
        }
        Ok(Step::Next)
    }

    fn sync(&mut self, now: Instant) -> Result<(), Cause> {
        self.journal.sync()?;
        self.synced_at = now;
        self.acknowledge();
        Ok(())
    }

    fn acknowledge(&mut self) {
        self.source.acknowledge(self.taking.acknowledge());
    }

    fn tell_of_full_disk(&self, reason: &str) {
        let mut faults = Faults::default();
        faults.add(format!("nothing is taken in until there is room: {reason}"));
        self.state.add_faults(faults);
    }

    fn tell(&mut self) {
        let faults = self.source.faults();
        if faults.count > 0 {
            self.state.add_faults(faults);
        }
        self.state.set_progress(self.source.progress());
    }
}
