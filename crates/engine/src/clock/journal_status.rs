//! What the journal of a database has, and what it is kept for.

use std::path::PathBuf;
use std::time::Duration;

use tidemill_journal::StreamProgress;

/// What the journal of a database has, and what it is kept for.
#[derive(Clone, Debug)]
pub struct JournalStatus {
    /// Where it is.
    pub folder: PathBuf,
    /// The log of cuts; its positions are numbers of cycles.
    pub cuts: LogStatus,
    /// When the oldest cycle was closed whose cut is kept, in nanoseconds since 1970; `None`: there is none.
    pub oldest_closed_ns: Option<u64>,
    /// The durable sources, in the order in which they were first opened.
    pub sources: Vec<SourceLogStatus>,
    /// The durable queries, by name.
    pub queries: Vec<QueryNeeds>,
    /// Queries that have not begun yet. Until they have, nothing is removed.
    pub expected: Vec<String>,
}

/// How far a log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogStatus {
    /// The first position that is kept.
    pub first: u64,
    /// One past the last position.
    pub end: u64,
    /// One past the last position that is safe from a loss of power.
    pub synced: u64,
    /// The position below which nothing is needed any more.
    pub released: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// How many bytes it may have. At this limit it accepts no more rows.
    pub bytes_max: u64,
    /// In how many segments they are.
    pub segments: u64,
    /// Why it accepts nothing more, if it does not.
    pub failure: Option<String>,
}

impl LogStatus {
    pub(super) fn of(progress: &StreamProgress) -> LogStatus {
        LogStatus {
            first: progress.first(),
            end: progress.end(),
            synced: progress.synced(),
            released: progress.released(),
            bytes: progress.bytes(),
            bytes_max: progress.bytes_max(),
            segments: progress.segments(),
            failure: progress.failure().map(|cause| cause.to_string()),
        }
    }
}

/// The journal of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLogStatus {
    /// What it is called in the journal.
    pub name: String,
    /// How far it is; `None`: no query reads the source at present.
    pub log: Option<LogStatus>,
}

/// What a durable query needs of the journal, and what it has of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryNeeds {
    /// Its name in the journal.
    pub name: String,
    /// Whether it is stopped, and the journal keeps what it needs to continue.
    pub is_stopped: bool,
    /// The cycle behind which it would continue after a crash; `None`: it would begin with the first one.
    pub after: Option<u64>,
    /// For each of its sources, by the index in [`JournalStatus::sources`], the first position that it needs.
    pub positions: Vec<(usize, u64)>,
    /// Its newest snapshot.
    pub snapshot: Option<SnapshotStatus>,
}

/// A snapshot of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotStatus {
    /// The cycle whose end it has.
    pub cycle: u64,
    /// When this cycle was closed, in nanoseconds since 1970.
    pub closed_at_ns: u64,
    /// How many bytes it has on the disk.
    pub bytes: u64,
    /// How long it took to take and to write; `None`: an earlier process has taken it.
    pub took: Option<Duration>,
}
