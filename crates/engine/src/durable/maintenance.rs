//! Maintains a durable query's folder: takes snapshots, and removes what is no longer needed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tidemill_core::Cut;
use tidemill_core::error::{Cause, Fault, chain};
use tidemill_core::snapshot::Snapshot;
use tidemill_flow::{Failure, Snapshots};
use tidemill_journal::{CutJournal, Journal, Skips, StoredSnapshot, StreamProgress};
use tracing::{Span, debug, info, warn};

use super::Durability;
use super::guard::JournalGuard;
use super::protocol::{Release, Retention};
use super::replacement::{PendingTakeover, Takeover};
use super::suspects::Suspects;
use crate::feed::spawn;

/// How often it checks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The part of a durable query in the journal of the clock under which it runs.
pub(crate) trait ClockPart: Send + Sync {
    /// The last cycle that the query was given in this run.
    fn last_cycle(&self) -> Option<u64>;

    /// The cut of a cycle, for the query's sources.
    fn cut(&self, cycle: u64) -> Result<Option<Cut>, Cause>;

    /// A snapshot of the query is on the disk.
    fn stored(&self, cut: &Cut, bytes: u64, took: Duration);

    /// The query does not need any more what is before this.
    fn release(&self, release: &Release);
}

/// The parts of a durable query that maintenance looks after.
pub(crate) struct Maintained {
    pub journal: Journal,
    pub cuts: CutJournal,
    pub progress: Vec<Arc<StreamProgress>>,
    pub guard: Arc<JournalGuard>,
    pub retention: Retention,
    /// The query's description.
    pub text: String,
    /// The newest snapshot of this run.
    pub snapshot_cycle: Option<u64>,
    /// If the rows and cuts are those of a clock.
    pub part: Option<Arc<dyn ClockPart>>,
    /// If the query is to replace the one that the folder belongs to.
    pub takeover: Option<PendingTakeover>,
}

impl Maintained {
    /// Whether there were cycles since the last snapshot.
    pub fn wants_snapshot(&self) -> bool {
        let newest = match &self.part {
            None => self.cuts.last().map(|cut| cut.cycle),
            Some(part) => part.last_cycle(),
        };
        newest.is_some() && newest != self.snapshot_cycle
    }

    /// Writes a snapshot that was asked for at a time; false if there is no room for it.
    pub fn store(&mut self, state: Snapshot, asked: Instant) -> Result<bool, Cause> {
        let cycle = state.cycle;
        if !self.retention.wants(cycle) {
            self.snapshot_cycle = Some(cycle);
            return Ok(true);
        }
        let cut = match &self.part {
            None => self.cuts.cut(cycle)?,
            Some(part) => part.cut(cycle)?,
        };
        let cut = cut.ok_or_else(|| Cause::bug(format!("the cut of cycle {cycle} was not logged")))?;
        let (stored, plan) = (cut.clone(), self.text.clone());
        match self.journal.snapshots().write(&StoredSnapshot { cut, plan, state }) {
            Ok(()) => {
                let (bytes, took) = (self.journal.snapshots().bytes(cycle)?, asked.elapsed());
                info!(cycle, bytes, took_ms = took.as_millis() as u64, "snapshot taken");
                if let Some(part) = &self.part {
                    part.stored(&stored, bytes, took);
                }
                self.retention.stored(&stored);
                self.snapshot_cycle = Some(cycle);
                if let Some(surplus) = self.retention.surplus() {
                    self.journal.snapshots().remove(surplus)?;
                }
            }
            // Without it, more is replayed. There may be room for the next one.
            Err(cause) if cause.fault == Fault::Resource => {
                warn!(cycle, causes = ?chain(&cause), "there is no space for a snapshot; skipped until the \
                    next one is due");
                return Ok(false);
            }
            Err(cause) => return Err(cause),
        }
        Ok(true)
    }

    /// Removes what a run that resumes from the commits would not need.
    pub fn release(&mut self) -> Result<(), Cause> {
        if !self.take_over()? {
            // The query that is replaced may need what this one does not.
            return Ok(());
        }
        let Some(release) = self.retention.release(self.guard.committed()) else { return Ok(()) };
        self.journal.snapshots().remove_before(release.snapshot)?;
        match &self.part {
            None => self.release_own(&release),
            Some(part) => part.release(&release),
        }
        let Release { positions, snapshot } = release;
        debug!(snapshot, ?positions, "no recovery needs what is before this snapshot; it is removed");
        Ok(())
    }
}

impl Maintained {
    /// Takes over from the query that is replaced, if it is time; false if it is not.
    fn take_over(&mut self) -> Result<bool, Cause> {
        let Some(pending) = &self.takeover else { return Ok(true) };
        if !pending.is_due(self.guard.committed(), &self.cuts)? {
            return Ok(false);
        }
        match self.journal.take_over() {
            Err(cause) if cause.fault == Fault::Resource => {
                warn!(causes = ?chain(&cause), "there is no space to take over from the old query; tried again");
                return Ok(false);
            }
            done => done?,
        }
        info!("the query has taken over from the one that it replaces");
        pending.done();
        self.takeover = None;
        Ok(true)
    }

    fn release_own(&self, release: &Release) {
        for (progress, position) in self.progress.iter().zip(&release.positions) {
            progress.release(*position);
        }
        self.cuts.release(release.snapshot);
    }
}

/// See the module. Dropping it ends its thread; drop it after the query has ended.
pub struct Maintenance {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// `None`: they cannot be skipped, because others read them, too.
    suspects: Option<Suspects>,
    takeover: Option<Takeover>,
}

impl Maintenance {
    pub(crate) fn start(
        kept: Maintained,
        snapshots: Snapshots,
        durability: &Durability,
        streams: Vec<String>,
    ) -> Result<Maintenance, Cause> {
        let suspects = Suspects { cuts: kept.cuts.clone(), snapshots: kept.journal.snapshots(), streams };
        let suspects = kept.part.is_none().then_some(suspects);
        let takeover = kept.takeover.as_ref().map(|pending| pending.takeover.clone());
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, every) = (Arc::clone(&stop), durability.snapshot_every);
        let body = move || {
            let mut work = Work { kept, snapshots };
            if let Err(cause) = work.run(&stopped, every) {
                work.snapshots.fail("snapshot maintenance", cause);
            }
        };
        let span = Span::current();
        let thread = spawn("maintenance", move || span.in_scope(body))?;
        Ok(Maintenance { stop, thread: Some(thread), suspects, takeover })
    }

    /// Whether the query has taken over from the one that it replaces; `None`: it replaces none.
    pub fn takeover(&self) -> Option<Takeover> {
        self.takeover.clone()
    }

    /// The rows, by stream, that may have made the query fail: those that an operator's partition was given in the cycle
    /// in which it failed, or those of the cycle that a sink rejected. The cause is one of them or an earlier one.
    /// Empty if rows are not the cause, or if it is not known which.
    pub fn suspects(&self, failure: &Failure) -> Skips {
        self.suspects.as_ref().map_or(Skips::new(), |suspects| suspects.of(failure))
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
        let asked = Instant::now();
        if let Some(state) = self.snapshots.of_end() {
            self.kept.store(state, asked)?;
        }
        self.kept.release()
    }

    /// Takes a snapshot if there were cycles since the last one; false if the query has ended.
    fn snapshot(&mut self) -> Result<bool, Cause> {
        if !self.kept.wants_snapshot() {
            return Ok(true);
        }
        let asked = Instant::now();
        let Ok(state) = self.snapshots.take() else { return Ok(false) };
        self.kept.store(state, asked)?;
        Ok(true)
    }
}
