//! Taking in: which of a source's rows are new, and how many of them may be acknowledged.

use std::time::Duration;

use crate::durable::SyncPolicy;

/// The most rows that wait for one sync.
const ROWS_PER_SYNC: u64 = 262_144;

/// What to do about the rows that are not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcknowledgeStep {
    Nothing,
    /// Sync, and then acknowledge.
    Sync,
    /// Acknowledge rows that are only written.
    Acknowledge,
}

/// How far one source has been taken in.
///
/// A row is acknowledged when it is synced, or when it is written if the policy says so; never while it waits to be
/// written.
pub(crate) struct IntakeProgress {
    policy: SyncPolicy,
    /// Rows that the source returns again although the journal has them.
    known: u64,
    /// Rows that the source has returned; of these, the rows that could not be written yet; the rows that were
    /// acknowledged.
    given: u64,
    unwritten: u64,
    acknowledged: u64,
}

impl IntakeProgress {
    /// For a source whose journal ends at a position.
    pub fn new(policy: SyncPolicy, is_repeatable: bool, journal_end: u64) -> Self {
        let known = if is_repeatable { journal_end } else { 0 };
        IntakeProgress { policy, known, given: 0, unwritten: 0, acknowledged: 0 }
    }

    /// Reports that the source has returned this many rows; `is_repeated` says whether they belong to a request that
    /// the journal has. Returns the first row to write; all behind it are written too. `None`: the journal has them
    /// all.
    pub fn given(&mut self, rows: u64, is_repeated: bool) -> Option<u64> {
        self.given += rows;
        let known = rows.min(self.known);
        self.known -= known;
        if is_repeated || known == rows {
            return None;
        }
        self.unwritten = rows;
        Some(known)
    }

    /// Reports that the returned rows are written.
    pub fn written(&mut self) {
        self.unwritten = 0;
    }

    /// Whether rows wait for their acknowledgement, other than those that wait to be written.
    pub fn is_waited_for(&self) -> bool {
        self.given - self.unwritten > self.acknowledged
    }

    /// How long until a sync is due, given the time since the last one; zero: now. Nothing may come meanwhile.
    pub fn until_sync(&self, since_sync: Duration) -> Option<Duration> {
        match self.policy {
            _ if !self.is_waited_for() => None,
            SyncPolicy::Every(interval) => Some(interval.saturating_sub(since_sync)),
            SyncPolicy::AtOnce | SyncPolicy::Never => Some(Duration::ZERO),
        }
    }

    /// What to do now; `has_more` says whether the source may have more rows at once.
    pub fn settle(&self, since_sync: Duration, has_more: bool) -> AcknowledgeStep {
        if has_more && self.given - self.acknowledged < ROWS_PER_SYNC {
            return AcknowledgeStep::Nothing;
        }
        match (self.until_sync(since_sync), self.policy) {
            (None, _) => AcknowledgeStep::Nothing,
            (_, SyncPolicy::Never) => AcknowledgeStep::Acknowledge,
            (Some(wait), _) => {
                if wait.is_zero() {
                    AcknowledgeStep::Sync
                } else {
                    AcknowledgeStep::Nothing
                }
            }
        }
    }

    /// The journal is as durable as promised. Returns how many of the source's first rows may be acknowledged.
    pub fn acknowledge(&mut self) -> u64 {
        self.acknowledged = self.given - self.unwritten;
        self.acknowledged
    }
}
