//! What stands between a durable query and its sinks' commits.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidemill_core::error::Cause;
use tidemill_core::{CommitGuard, Cut};
use tidemill_journal::{CommitFile, CutJournal, StreamProgress};

use super::protocol::{Commits, Durable, Missing, SinkPlace};

/// How long to wait for a disk before asking whether the query still runs.
const WAIT: Duration = Duration::from_millis(50);

pub(super) struct Guard {
    streams: Vec<Arc<StreamProgress>>,
    cuts: CutJournal,
    durable: Durable,
    commits: Mutex<Commits>,
    file: CommitFile,
}

impl Guard {
    /// For each stream, `waits` says whether a commit waits for its sync.
    pub fn new(
        streams: Vec<Arc<StreamProgress>>,
        waits: Vec<bool>,
        cuts: CutJournal,
        file: CommitFile,
        sinks: Vec<SinkPlace>,
    ) -> Self {
        let (durable, commits) = (Durable::new(waits), Mutex::new(Commits::new(sinks)));
        Guard { streams, cuts, durable, commits, file }
    }

    /// The last cycle that a run that began now would find committed by all sinks, if there is one.
    pub fn committed(&self) -> Option<u64> {
        self.lock().by_all()
    }

    /// What a commit up to this cut still waits for.
    pub fn missing(&self, cut: &Cut) -> Option<Missing> {
        self.durable.missing(cut, |stream| self.streams[stream].synced(), self.cuts.synced())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Commits> {
        self.commits.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl CommitGuard for Guard {
    fn before_commit(&self, cut: &Cut, is_stopped: &dyn Fn() -> bool) -> Result<(), Cause> {
        while let Some(missing) = self.missing(cut) {
            match missing {
                Missing::Cuts => self.cuts.sync()?,
                Missing::Rows { stream, position } => {
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
}
