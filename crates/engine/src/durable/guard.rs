//! What stands between a durable query and its sinks' commits.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidemill_core::error::Cause;
use tidemill_core::{CommitGuard, Cut};
use tidemill_journal::{CommitFile, CutJournal, Journal, StreamProgress};

use super::protocol::{AwaitedSync, Commits, SyncTargets};

/// How long to wait for a disk before asking whether the query still runs.
const WAIT: Duration = Duration::from_millis(50);

pub(crate) struct JournalGuard {
    streams: Vec<Arc<StreamProgress>>,
    cuts: CutJournal,
    durable: SyncTargets,
    commits: Mutex<Commits>,
    file: CommitFile,
    away: CommitFile,
}

impl JournalGuard {
    /// For each stream, `waits` says whether a commit waits for its sync.
    pub fn new(
        streams: Vec<Arc<StreamProgress>>,
        waits: Vec<bool>,
        cuts: CutJournal,
        journal: &Journal,
        commits: Commits,
    ) -> Self {
        let (durable, commits) = (SyncTargets::new(waits), Mutex::new(commits));
        JournalGuard { streams, cuts, durable, commits, file: journal.commits(), away: journal.away() }
    }

    /// The last cycle that a run that began now would find committed by all sinks, and that this run has passed, if there
    /// is one.
    pub fn committed(&self) -> Option<u64> {
        self.lock().by_all()
    }

    /// What a commit up to this cut still waits for.
    pub fn missing(&self, cut: &Cut) -> Option<AwaitedSync> {
        self.durable.missing(cut, |stream| self.streams[stream].synced(), self.cuts.synced())
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Commits> {
        self.commits.lock()
    }
}

impl CommitGuard for JournalGuard {
    fn before_commit(&self, cut: &Cut, is_stopped: &dyn Fn() -> bool) -> Result<(), Cause> {
        while let Some(missing) = self.missing(cut) {
            match missing {
                AwaitedSync::Cuts => self.cuts.sync()?,
                AwaitedSync::Rows { stream, position } => {
                    let progress = &self.streams[stream];
                    let synced = progress.wait_synced(position, WAIT);
                    match progress.failure() {
                        Some(cause) if !synced => return Err(cause),
                        _ if is_stopped() => return Ok(()),
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }

    fn after_commit(&self, sink: usize, cycle: u64, recorded: Option<u64>) -> Result<(), Cause> {
        let mut commits = self.lock();
        commits.passed(sink, cycle);
        let Some(noted) = commits.to_note(sink, cycle) else {
            commits.recorded(sink, recorded);
            return Ok(());
        };
        // Under the lock, so that an older list does not replace a newer one. It counts when it is written, not before,
        // because maintenance removes what is older.
        self.file.write(&noted)?;
        commits.recorded(sink, Some(cycle));
        Ok(())
    }

    fn passed(&self, sink: usize, cycle: u64) {
        self.lock().passed(sink, cycle);
    }

    fn arrived(&self, sink: usize, last_committed: Option<u64>) -> Result<u64, Cause> {
        let mut commits = self.lock();
        let (place, away) = commits.arriving(sink, last_committed)?;
        // Before its first commit: from then on it has cycles that the journal did not have at the start.
        if self.away.read()? != away {
            self.away.write(&away)?;
        }
        let first_new = place.committed.map_or(0, |cycle| cycle + 1);
        commits.arrived(sink, place);
        Ok(first_new)
    }
}
