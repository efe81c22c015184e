//! Maintains a durable query's folder: takes snapshots, and removes what is no longer needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidemill_core::error::{Cause, Fault, chain};
use tidemill_core::snapshot::Snapshot;
use tidemill_flow::{Failure, Snapshots};
use tidemill_journal::{CutJournal, Journal, Skips, StoredSnapshot, StreamProgress};
use tracing::{info, warn};

use super::Durability;
use super::guard::Guard;
use super::protocol::{Release, Retention};
use super::suspects::Suspects;
use crate::feed::spawn;

/// How often it checks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The parts of a durable query that maintenance looks after.
pub(super) struct Maintained {
    pub journal: Journal,
    pub cuts: CutJournal,
    pub progress: Vec<Arc<StreamProgress>>,
    pub guard: Arc<Guard>,
    pub retention: Retention,
    /// The query's description.
    pub text: String,
    /// The newest snapshot of this run.
    pub snapshot_cycle: Option<u64>,
}

impl Maintained {
    /// Whether there were cycles since the last snapshot.
    pub fn wants_snapshot(&self) -> bool {
        let newest = self.cuts.last().map(|cut| cut.cycle);
        newest.is_some() && newest != self.snapshot_cycle
    }

    /// Writes a snapshot; false if there is no room for it.
    pub fn store(&mut self, state: Snapshot) -> Result<bool, Cause> {
        let cycle = state.cycle;
        if !self.retention.wants(cycle) {
            self.snapshot_cycle = Some(cycle);
            return Ok(true);
        }
        let cut = self.cuts.cut(cycle)?;
        let cut = cut.ok_or_else(|| Cause::bug(format!("the cut of cycle {cycle} was not logged")))?;
        let (stored, plan) = (cut.clone(), self.text.clone());
        match self.journal.snapshots().write(&StoredSnapshot { cut, plan, state }) {
            Ok(()) => {
                info!(cycle, "snapshot taken");
                self.retention.stored(&stored);
                self.snapshot_cycle = Some(cycle);
            }
            // Without it, more is replayed. There may be room for the next one.
            Err(cause) if cause.fault == Fault::Resource => {
                warn!(cycle, causes = ?chain(&cause), "there is no room for a snapshot; the next one is tried");
                return Ok(false);
            }
            Err(cause) => return Err(cause),
        }
        Ok(true)
    }

    /// Removes what a run that resumes from the commits would not need.
    pub fn release(&mut self) -> Result<(), Cause> {
        let Some(release) = self.retention.release(self.guard.committed()) else { return Ok(()) };
        let Release { positions, snapshot } = release;
        for (progress, position) in self.progress.iter().zip(positions) {
            progress.release(position);
        }
        self.journal.snapshots().remove_before(snapshot)?;
        self.cuts.release(snapshot);
        Ok(())
    }
}

/// See the module. Dropping it ends its thread; drop it after the query has ended.
pub struct Maintenance {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    suspects: Suspects,
}

impl Maintenance {
    pub(super) fn start(
        kept: Maintained,
        snapshots: Snapshots,
        durability: &Durability,
        streams: Vec<String>,
    ) -> Result<Maintenance, Cause> {
        let suspects = Suspects { cuts: kept.cuts.clone(), snapshots: kept.journal.snapshots(), streams };
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, every) = (Arc::clone(&stop), durability.snapshot_every);
        let body = move || {
            let mut work = Work { kept, snapshots };
            if let Err(cause) = work.run(&stopped, every) {
                work.snapshots.fail("snapshot maintenance", cause);
            }
        };
        Ok(Maintenance { stop, thread: Some(spawn("maintenance", body)?), suspects })
    }

    /// The rows, by stream, that may have made the query fail: those that an operator's partition was given in the cycle
    /// in which it failed, or those of the cycle that a sink rejected. The cause is one of them or an earlier one.
    /// Empty if rows are not the cause, or if it is not known which.
    pub fn suspects(&self, failure: &Failure) -> Skips {
        self.suspects.of(failure)
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

struct Work {
    kept: Maintained,
    snapshots: Snapshots,
}

impl Work {
    fn run(&mut self, stop: &AtomicBool, every: Duration) -> Result<(), Cause> {
        let mut last = Instant::now();
        while !stop.load(Ordering::SeqCst) {
            if last.elapsed() >= every {
                if !self.snapshot()? {
                    break;
                }
                last = Instant::now();
            }
            self.kept.release()?;
            std::thread::park_timeout(LOOK_EVERY);
        }
        while !stop.load(Ordering::SeqCst) {
            std::thread::park_timeout(LOOK_EVERY);
        }
        self.end()
    }

    /// Stores the state at the end of a run that has ended normally, so that the next one has nothing to recompute.
    fn end(&mut self) -> Result<(), Cause> {
        if let Some(state) = self.snapshots.of_end() {
            self.kept.store(state)?;
        }
        self.kept.release()
    }

    /// Takes a snapshot if there were cycles since the last one; false if the query has ended.
    fn snapshot(&mut self) -> Result<bool, Cause> {
        if !self.kept.wants_snapshot() {
            return Ok(true);
        }
        let Ok(state) = self.snapshots.take() else { return Ok(false) };
        self.kept.store(state)?;
        Ok(true)
    }
}
