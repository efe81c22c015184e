//! Taking in: from the source into its journal, synced as was promised, then acknowledged.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use tidemill_core::arrow::array::RecordBatch;
use tidemill_core::error::Cause;
use tidemill_core::{Clock, Faults, Polled, Source};
use tidemill_journal::{Record, StreamWriter};

use super::SyncPolicy;
use crate::feed::{FeedState, POLL_WAIT};

/// At most so many rows wait for one sync.
const ROWS_PER_SYNC: u64 = 262_144;
/// How long to wait until room is asked for again.
const ROOM_WAIT: Duration = Duration::from_millis(5);

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

pub(super) struct Writer {
    source: Box<dyn Source>,
    journal: StreamWriter,
    policy: SyncPolicy,
    /// What is handed on without a detour over the journal, as long as there is room.
    queue: Sender<Record>,
    clock: Arc<dyn Clock>,
    state: Arc<FeedState>,
    ending: Arc<Ending>,
    /// Rows that the source gives again and the journal has.
    known_rows: u64,
    /// Rows that the source has given, and those of them that were acknowledged.
    given: u64,
    acknowledged: u64,
    synced_at: Instant,
}

impl Writer {
    pub fn new(
        source: Box<dyn Source>,
        journal: StreamWriter,
        policy: SyncPolicy,
        queue: Sender<Record>,
        clock: Arc<dyn Clock>,
        state: Arc<FeedState>,
        ending: Arc<Ending>,
    ) -> Self {
        let known_rows = if source.is_repeatable() { journal.end() } else { 0 };
        Writer {
            source,
            journal,
            policy,
            queue,
            clock,
            state,
            ending,
            known_rows,
            given: 0,
            acknowledged: 0,
            synced_at: Instant::now(),
        }
    }

    pub fn run(mut self) {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.take_in()));
        let ended = ended.unwrap_or_else(|_| Err(Cause::Bug("a source panicked".into())));
        *self.ending.lock() = Some(ended);
    }

    fn take_in(&mut self) -> Result<bool, Cause> {
        loop {
            if self.state.is_stopped() {
                self.sync()?;
                return Ok(false);
            }
            if !self.journal.has_room() {
                // What is no longer needed goes with the next sync.
                self.sync()?;
                std::thread::sleep(ROOM_WAIT);
                continue;
            }
            let polled = self.source.poll(self.poll_wait())?;
            self.tell();
            match polled {
                Polled::Rows(rows) => {
                    self.take(rows)?;
                    if self.given - self.acknowledged >= ROWS_PER_SYNC {
                        self.settle()?;
                    }
                }
                Polled::Nothing => self.settle()?,
                Polled::Ended => {
                    self.sync()?;
                    return Ok(true);
                }
            }
        }
    }

    /// How long the source may wait for rows: not at all while others wait for a sync.
    fn poll_wait(&self) -> Duration {
        match self.policy {
            _ if self.given == self.acknowledged => POLL_WAIT,
            SyncPolicy::Every(interval) => POLL_WAIT.min(interval.saturating_sub(self.synced_at.elapsed())),
            _ => Duration::ZERO,
        }
    }

    fn take(&mut self, rows: RecordBatch) -> Result<(), Cause> {
        let count = rows.num_rows() as u64;
        self.given += count;
        let known = count.min(self.known_rows);
        self.known_rows -= known;
        let request = self.source.request();
        let is_repeated = request.as_ref().is_some_and(|request| self.journal.is_repeated(request));
        if is_repeated || known == count {
            return Ok(());
        }
        let rows = rows.slice(known as usize, (count - known) as usize);
        let (start, arrived_ns) = (self.journal.end(), self.clock.now_ns());
        loop {
            match self.journal.append(&rows, arrived_ns, request.as_ref()) {
                Ok(_) => break,
                // A full disk holds the senders back, as a full journal does.
                Err(Cause::Resource(reason)) if !self.state.is_stopped() => self.wait_for_room(&reason),
                Err(cause) => return Err(cause),
            }
        }
        self.state.add_rows(rows.num_rows());
        // If there is no room, the forwarder reads it from the journal.
        let _ = self.queue.try_send(Record { start, rows, arrived_ns, request: None });
        Ok(())
    }

    fn wait_for_room(&mut self, reason: &str) {
        let mut faults = Faults::default();
        faults.add(format!("nothing is taken in until there is room: {reason}"));
        self.state.add_faults(faults);
        let until = Instant::now() + Duration::from_secs(1);
        while Instant::now() < until && !self.state.is_stopped() {
            std::thread::sleep(ROOM_WAIT);
        }
    }

    /// Syncs and acknowledges, if the policy says that it is time.
    fn settle(&mut self) -> Result<(), Cause> {
        let is_due = match self.policy {
            SyncPolicy::AtOnce => true,
            SyncPolicy::Every(interval) => self.synced_at.elapsed() >= interval,
            SyncPolicy::Never => {
                self.acknowledge();
                false
            }
        };
        if is_due && self.given > self.acknowledged { self.sync() } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<(), Cause> {
        self.journal.sync()?;
        self.synced_at = Instant::now();
        self.acknowledge();
        Ok(())
    }

    fn acknowledge(&mut self) {
        self.acknowledged = self.given;
        self.source.acknowledge(self.given);
    }

    fn tell(&mut self) {
        let faults = self.source.faults();
        if faults.count > 0 {
            self.state.add_faults(faults);
        }
        self.state.set_progress(self.source.progress());
    }
}
