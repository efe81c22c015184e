//! One clock for the queries of a database: sources are read once, cycles are closed over all of them and numbered once, and
//! each query works through those that concern it at its own pace (decision 0048).

mod clock_journal;
mod durable_query;
mod entry;
mod journal_status;
mod lost_end;
mod lost_rows;
mod need;
mod query_cycles;
mod query_position;
mod query_replay;
mod query_state;
mod slice;
mod source_journal;
mod source_replay;
mod source_state;
mod source_use;
mod state;
mod stopped_queries;
mod subscription;
mod transaction;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tidemill_core::arrow::schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::{Clock, SystemClock};
use tidemill_flow::Waker;
use tidemill_journal::{Disk, Medium};

use self::clock_journal::ClockJournal;
pub use self::durable_query::{Beginning, DurableClockRun, QueryFolder};
pub use self::journal_status::{JournalStatus, LogStatus, QueryNeeds, SnapshotStatus, SourceLogStatus};
pub(crate) use self::lost_rows::{SourceInCuts, SourceMark};
pub(crate) use self::query_cycles::SourceView;
pub use self::query_position::{QueryLag, QueryPosition};
pub(crate) use self::query_replay::{differs, of_marks};
pub(crate) use self::source_replay::{ReadRecord, SourceReplay};
use self::source_state::SourceState;
pub use self::source_use::{DurableUse, OpenSource, SourceKey, SourceUse};
use self::state::ClockState;
pub use self::state::DatabaseCut;
pub use self::stopped_queries::RetainedRows;
pub use self::subscription::ClockRun;
pub use self::transaction::SourceTransaction;
use crate::feed_state::FeedState;

/// How often one who waits looks again.
const LOOK: Duration = Duration::from_millis(20);

/// The bytes of a source's rows in cycles that some query has not taken, unless something else is said.
pub const RING_BYTES_MAX: u64 = 64 << 20;

/// The clock of a database. It owns the sources of the queries that run under it, closes their cycles, and numbers them:
/// cycle 7 of one query has the same rows as cycle 7 of any other. Clones are the same clock.
///
/// See [`Engine::run_under`](crate::Engine::run_under).
#[derive(Clone)]
pub struct DatabaseClock {
    shared: Arc<ClockShared>,
}

/// Keeps the sources that are opened meanwhile from being read, until it is dropped: queries that are started together begin
/// with the same row.
pub struct Held(Arc<ClockShared>);

pub(crate) struct ClockShared {
    pub clock: Arc<dyn Clock>,
    state: Mutex<ClockState>,
    /// A source may continue, or has nobody who reads it.
    room: Condvar,
    /// Held while a query is started, so that two of them do not open a source at once.
    starting: Mutex<()>,
    threads: Mutex<Threads>,
    /// The journal of its durable sources, if it has one.
    journal: Option<Arc<ClockJournal>>,
}

/// The threads of the sources.
#[derive(Default)]
struct Threads {
    /// How many [`Held`] there are.
    held: usize,
    /// Sources that are to be read when nothing is held any more.
    waiting: Vec<(Arc<FeedState>, StartReading)>,
    running: Vec<ReadSource>,
}

/// The threads that read a source.
struct ReadSource {
    feed: Arc<FeedState>,
    threads: Vec<JoinHandle<()>>,
}

/// Starts the thread of a source.
type StartReading = Box<dyn FnOnce() -> Option<ReadSource> + Send>;

impl Default for DatabaseClock {
    fn default() -> Self {
        DatabaseClock::new(RING_BYTES_MAX)
    }
}

impl DatabaseClock {
    /// A clock that keeps at most this many bytes of a source for queries that are behind others.
    pub fn new(ring_bytes_max: u64) -> DatabaseClock {
        DatabaseClock::of(ClockState { ring_bytes_max, ..ClockState::default() })
    }

    /// A clock whose cuts, and the rows of whose durable sources, are journaled in a folder. It continues where an earlier one
    /// was.
    ///
    /// # Errors
    /// If another process has the folder, it is damaged, or the disk fails.
    pub fn journaled(folder: &Path, ring_bytes_max: u64) -> Result<DatabaseClock, Cause> {
        DatabaseClock::journaled_on(Arc::new(Disk), folder, ring_bytes_max)
    }

    /// As [`journaled`](DatabaseClock::journaled), on another medium.
    ///
    /// # Errors
    /// As `journaled`.
    pub fn journaled_on(
        medium: Arc<dyn Medium>,
        folder: &Path,
        ring_bytes_max: u64,
    ) -> Result<DatabaseClock, Cause> {
        let journal = Arc::new(ClockJournal::open(medium, folder)?);
        let last = journal.cuts().read_last()?;
        let sources = last.as_ref().map_or(0, |cut| cut.positions.len());
        let marks = last.iter().flat_map(|cut| (0..sources).map(|source| journal.in_cuts(source).at(cut)));
        let marks = marks.collect();
        let next_cycle = journal.cuts().end();
        let state =
            ClockState { ring_bytes_max, next_cycle, marks, journal: Some(journal), ..ClockState::default() };
        Ok(DatabaseClock::of(state))
    }

    fn of(state: ClockState) -> DatabaseClock {
        let journal = state.journal.clone();
        let shared = ClockShared {
            clock: Arc::new(SystemClock::since_1970()),
            state: Mutex::new(state),
            room: Condvar::new(),
            starting: Mutex::default(),
            threads: Mutex::default(),
            journal,
        };
        DatabaseClock { shared: Arc::new(shared) }
    }

    /// The number of the last cycle that was closed; `None`: there is none yet.
    pub fn cycle(&self) -> Option<u64> {
        self.shared.lock().next_cycle.checked_sub(1)
    }

    /// Waits until all rows that a source has brought so far, by its name, are in cycles. Returns the number of the last cycle by then;
    /// `None` if no query reads the source under this clock. `goes_on` is asked again and again meanwhile; if it says no, the wait ends.
    ///
    /// ```
    /// use tidemill_engine::DatabaseClock;
    /// assert_eq!(DatabaseClock::default().cycle_of_rows("ticks", &|| true), None);
    /// ```
    pub fn cycle_of_rows(&self, source: &str, goes_on: &dyn Fn() -> bool) -> Option<u64> {
        let mut state = self.shared.lock();
        let is_it = |known: &SourceState| known.name == source && known.end.is_none();
        let (id, source) = state.sources.iter().find(|(_, known)| is_it(known))?;
        // What is journaled already may still be on its way here.
        let journaled = source.journal.as_ref().map_or(0, |journal| journal.progress.end());
        let (id, end) = (*id, source.end_of_rows().max(journaled));
        while state.sources.get(&id)?.position < end && goes_on() {
            self.shared.wait_for_room(&mut state, LOOK);
        }
        state.next_cycle.checked_sub(1)
    }

    /// Whether it has a journal, in which it keeps the rows of durable sources.
    pub fn is_journaled(&self) -> bool {
        self.shared.journal.is_some()
    }

    /// The folder of its journal, if it has one.
    pub fn journal_folder(&self) -> Option<&Path> {
        self.shared.journal.as_ref().map(|journal| journal.folder())
    }

    /// What its journal has, and what it is kept for; `None`: it has none. It reads from the disk.
    pub fn journal_status(&self) -> Option<JournalStatus> {
        self.shared.journal.as_ref().map(|journal| journal.status())
    }

    /// Removes the journals of sources that nobody reads and that are not needed, by their names there; returns these names.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn remove_sources(&self, is_needed: impl Fn(&str) -> bool) -> Result<Vec<String>, Cause> {
        self.shared.journal.as_ref().map_or(Ok(Vec::new()), |journal| journal.remove_sources(is_needed))
    }

    /// A durable query of this name will begin. Until it has, nothing is removed from the journal.
    pub fn expect(&self, query: &str) {
        if let Some(journal) = &self.shared.journal {
            journal.expect(query);
        }
    }

    /// The durable query of this name is not there any more: the journal need not keep anything for it.
    pub fn forget(&self, query: &str) {
        if let Some(journal) = &self.shared.journal {
            journal.forget(query);
        }
    }

    /// The durable query of this name does not run, and may continue with what it has in a folder: the journal keeps what it
    /// needs for that, up to half of the limit of each source. Once that is reached, or if the folder cannot be read, the journal
    /// keeps nothing more for it.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn keep_for(&self, query: &str, folder: &Path) -> Result<(), Cause> {
        self.shared.journal.as_ref().map_or(Ok(()), |journal| journal.keep_for(query, folder))
    }

    /// What the journal keeps for a query that is stopped; `None`: it keeps nothing for one of this name.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn kept_for(&self, query: &str) -> Result<Option<RetainedRows>, Cause> {
        self.shared.journal.as_ref().map_or(Ok(None), |journal| journal.kept_for(query))
    }

    /// Whether the journal lacks rows that a running query of this name has not come to yet: another query that reads the same
    /// source has committed them.
    ///
    /// # Errors
    /// If it does.
    pub fn check_end(&self, query: &str) -> Result<(), Cause> {
        self.shared
            .journal
            .as_ref()
            .map_or(Ok(()), |journal| journal.lost_ends.check(journal.sources_of(query)))
    }

    /// The sources that its journal has rows of, by their names there.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn journaled_sources(&self) -> Result<Vec<String>, Cause> {
        self.shared.journal.as_ref().map_or(Ok(Vec::new()), |journal| journal.streams())
    }

    /// The columns that its journal has of sources, by their names there.
    ///
    /// # Errors
    /// If the disk fails, or the journal is damaged.
    pub fn journaled_columns(&self) -> Result<BTreeMap<String, SchemaRef>, Cause> {
        self.shared.journal.as_ref().map_or(Ok(BTreeMap::new()), |journal| journal.columns())
    }

    /// The newest cuts, oldest first: some thousand of them are kept.
    pub fn cuts(&self) -> Vec<DatabaseCut> {
        self.shared.lock().cuts.iter().cloned().collect()
    }

    /// Whether queries read a source now.
    pub fn reads(&self, key: &SourceKey) -> bool {
        self.shared.lock().source_of(key).is_some()
    }

    /// Ends all queries that read a source now, by its name in the journal, and closes it: it is opened with other columns next.
    /// Those that have a state keep it.
    pub fn close_source(&self, stream: &str, why: &Cause) {
        let (closed, wakers) = self.shared.lock().close_source(stream, why);
        self.shared.close_all(&closed);
        self.shared.announce(&wakers);
        drop(closed);
        self.shared.wait_for_closed();
    }

    /// How many sources are open.
    pub fn sources(&self) -> usize {
        self.shared.lock().sources.len()
    }

    /// Sources that are opened from here on are not read until the result is dropped.
    #[must_use]
    pub fn hold(&self) -> Held {
        self.shared.threads.lock().held += 1;
        Held(Arc::clone(&self.shared))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut threads = self.0.threads.lock();
        threads.held -= 1;
        if threads.held == 0 {
            let waiting = std::mem::take(&mut threads.waiting);
            threads.running.extend(waiting.into_iter().filter_map(|(_, start)| start()));
        }
    }
}

impl ClockShared {
    fn lock(&self) -> MutexGuard<'_, ClockState> {
        self.state.lock()
    }

    /// Waits until a source may have room, at most for some time.
    fn wait_for_room(&self, state: &mut MutexGuard<'_, ClockState>, time_max: Duration) {
        self.room.wait_for(state, time_max);
    }

    /// Tells those that a cycle concerns, once the lock is free.
    fn announce(&self, wakers: &[Waker]) {
        if !wakers.is_empty() {
            self.room.notify_all();
            wakers.iter().for_each(|wake| wake());
        }
    }

    /// Tells sources that rows were given up without the lock.
    fn announce_room(&self) {
        // A source that has just found no room waits once the lock is free, and so hears of it.
        drop(self.lock());
        self.room.notify_all();
    }

    /// A query takes no more cycles. Sources that nobody reads any more are told to stop.
    fn leave(&self, query: u64) {
        let unread: Vec<SourceState> = self.lock().leave(query);
        self.close_all(&unread);
    }

    /// Tells sources to stop that nobody reads any more.
    fn close_all(&self, sources: &[SourceState]) {
        for source in sources {
            source.feed.stop();
            if let (Some(log), Some(journal)) = (&self.journal, &source.journal) {
                log.close_source(journal.in_cuts.index);
            }
        }
        self.room.notify_all();
    }

    /// Starts to read a source, as soon as nothing is held.
    fn read(&self, feed: Arc<FeedState>, start: StartReading) {
        let mut threads = self.threads.lock();
        match threads.held {
            0 => threads.running.extend(start()),
            _ => threads.waiting.push((feed, start)),
        }
    }

    /// Waits until sources that were told to stop are closed, so that they can be opened again.
    fn wait_for_closed(&self) {
        let mut threads = self.threads.lock();
        // Those that were not read yet, because something is held.
        threads.waiting.retain(|(feed, _)| !feed.is_stopped());
        let (stopped, running) =
            threads.running.drain(..).partition::<Vec<_>, _>(|source| source.feed.is_stopped());
        threads.running = running;
        drop(threads);
        for source in stopped {
            source.threads.into_iter().for_each(|thread| drop(thread.join()));
        }
    }
}
