//! The journal of a database: the rows of its durable sources, its cuts, and how long both are needed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tidemill_core::arrow::schema::SchemaRef;
use tidemill_core::error::Cause;
use tidemill_core::{Cut, CutLog};
use tidemill_journal::{
    CutJournal, Epoch, Journal, Medium, StreamProgress, StreamReader, StreamSettings, StreamWriter, database,
    inspect,
};
use tracing::warn;

use super::journal_status::{JournalStatus, LogStatus, QueryNeeds, SnapshotStatus, SourceLogStatus};
use super::lost_end::LostEnds;
use super::lost_rows::{SourceInCuts, SourceMark, ended_at};
use super::need::{Need, least};
use super::source_journal::SourceJournal;
use super::stopped_queries::{JournaledSource, RetainedRows, StoppedQuery};

/// Cuts that no query needs any more are kept up to this many bytes, for queries that begin with the earliest rows.
const CUTS_RETAINED_BYTES: u64 = 256 << 20;

/// The journal of a database. Its cuts have the positions of all its durable sources, in the order in which these were
/// first opened; a query sees those of its own sources.
pub(crate) struct ClockJournal {
    journal: Journal,
    cuts: CutJournal,
    state: Mutex<JournalState>,
    pub(super) lost_ends: LostEnds,
}

#[derive(Default)]
struct JournalState {
    /// The names of the streams, in the order of the cuts.
    sources: Vec<String>,
    /// How far the journals of the open sources are.
    progress: BTreeMap<usize, Arc<StreamProgress>>,
    /// The most bytes that each of these may have.
    bytes_max: BTreeMap<usize, u64>,
    /// From where on each query needs cuts and rows.
    needs: BTreeMap<String, Need>,
    /// Queries that are stopped, and may continue.
    stopped: BTreeMap<String, StoppedQuery>,
    /// The newest snapshot of each query.
    snapshots: BTreeMap<String, SnapshotStatus>,
    /// Queries that will begin, and whose needs are not known yet: until then, nothing is removed.
    expected: BTreeSet<String>,
    /// What has happened to the journal, in order.
    epochs: Vec<Epoch>,
}

impl ClockJournal {
    /// Opens the journal of a database, or creates it.
    pub fn open(medium: Arc<dyn Medium>, folder: &Path) -> Result<ClockJournal, Cause> {
        let journal = Journal::open_on(medium, folder)?;
        let sources = match journal.query()? {
            None if !journal.streams()?.is_empty() => return Err(nameless(folder)),
            None => Vec::new(),
            Some(text) => {
                let names = database::sources(&text).ok_or_else(|| {
                    Cause::user(format!(
                        "{} is the journal of a single query, not that of a database; choose another folder",
                        folder.display()
                    ))
                })?;
                names.into_iter().map(str::to_owned).collect()
            }
        };
        let cuts = journal.cuts_retained(CUTS_RETAINED_BYTES)?;
        // Before a number is used again that a lost cut had.
        let mut epochs = journal.epochs()?;
        epochs.push(Epoch::Opened { next_cycle: cuts.end() });
        journal.set_epochs(&epochs)?;
        let state = JournalState { sources, epochs, ..JournalState::default() };
        Ok(ClockJournal { journal, cuts, state: Mutex::new(state), lost_ends: LostEnds::default() })
    }

    pub fn cuts(&self) -> &CutJournal {
        &self.cuts
    }

    /// Logs a cut of all sources.
    pub fn log(&self, cycle: u64, closed_at_ns: u64, marks: &[SourceMark]) -> Result<(), Cause> {
        let cut = Cut {
            cycle,
            positions: marks.iter().map(|mark| mark.position).collect(),
            watermarks: marks.iter().map(|mark| mark.watermark).collect(),
            idle: marks.iter().map(|mark| mark.is_idle).collect(),
            ended_at: ended_at(marks),
            closed_at_ns,
            ..Cut::first()
        };
        self.cuts.clone().append(&cut)
    }

    /// Opens the journal of a source; also its place in the cuts.
    pub fn open_source(
        &self,
        name: &str,
        schema: SchemaRef,
        settings: &StreamSettings,
    ) -> Result<(usize, StreamWriter, StreamReader), Cause> {
        let mut state = self.state.lock();
        let index = match state.sources.iter().position(|known| known == name) {
            Some(index) => index,
            None => {
                let names = state.sources.iter().map(String::as_str).chain([name]);
                // Before it has a row, so that no cut is ever read with another order.
                self.journal.set_query(&database::describe(names))?;
                state.sources.push(name.to_owned());
                state.sources.len() - 1
            }
        };
        let (writer, reader) = self.journal.stream(name, schema, settings)?;
        state.progress.insert(index, writer.progress());
        state.bytes_max.insert(index, settings.bytes_max);
        Ok((index, writer, reader))
    }

    /// The place in the cuts of a source that was opened before.
    pub fn place_of(&self, name: &str) -> Option<usize> {
        self.state.lock().sources.iter().position(|known| known == name)
    }

    /// Whether the journal of a source is there.
    pub fn has_source(&self, name: &str) -> Result<bool, Cause> {
        self.journal.has_stream(name)
    }

    /// The sources that it has rows of.
    pub fn streams(&self) -> Result<Vec<String>, Cause> {
        self.journal.streams()
    }

    /// The columns of the newest rows of each source.
    pub fn columns(&self) -> Result<BTreeMap<String, SchemaRef>, Cause> {
        let mut columns = BTreeMap::new();
        for name in self.journal.streams()? {
            let schema = self.journal.columns_of(&name)?;
            columns.extend(schema.map(|schema| (name, schema)));
        }
        Ok(columns)
    }

    /// The places of the sources that a query reads.
    pub fn sources_of(&self, query: &str) -> Vec<usize> {
        let state = self.state.lock();
        let positions = state.needs.get(query).into_iter().flat_map(|need| &need.positions);
        positions.map(|(source, _)| *source).collect()
    }

    /// Removes the journals of sources that are neither open nor needed; returns their names.
    pub fn remove_sources(&self, is_needed: impl Fn(&str) -> bool) -> Result<Vec<String>, Cause> {
        // Meanwhile, none is opened.
        let _state = self.state.lock();
        let mut removed = self.journal.streams()?;
        removed.retain(|name| !is_needed(name));
        let is_removed = |name: &String| self.journal.remove_stream(name);
        removed
            .into_iter()
            .map(|name| Ok(is_removed(&name)?.then_some(name)))
            .filter_map(Result::transpose)
            .collect()
    }

    /// The folder of the journal.
    pub fn folder(&self) -> &Path {
        self.journal.folder()
    }

    /// A source in the cuts.
    pub fn in_cuts(&self, source: usize) -> SourceInCuts {
        SourceInCuts::new(source, &self.state.lock().epochs)
    }

    /// The journal of a source has no more rows than these, but logged cuts name others. From here on, these cuts change
    /// nothing of the source. Returns where it is at the last cut.
    pub fn lose(&self, source: usize, there: Range<u64>) -> Result<SourceMark, Cause> {
        let mut state = self.state.lock();
        let lost = SourceInCuts::new(source, &state.epochs).lost_behind(there.clone(), &self.cuts)?;
        let name = state.sources.get(source).map_or("", String::as_str);
        warn!(
            source = name,
            position = there.end,
            first = lost.cycles.start(),
            last = lost.cycles.end(),
            "the machine has crashed before the last rows of a source were on the disk; its cycles lack them"
        );
        let (position, watermark, is_idle) = (lost.position, lost.watermark, lost.is_idle);
        let mark = SourceMark { position, watermark, is_idle, ended_at: i64::MIN };
        // Before other rows take their positions.
        let epochs: Vec<Epoch> = state.epochs.iter().cloned().chain([Epoch::Lost(lost)]).collect();
        self.journal.set_epochs(&epochs)?;
        state.epochs = epochs;
        Ok(mark)
    }

    /// How many epochs the journal has.
    pub fn epochs(&self) -> usize {
        self.state.lock().epochs.len()
    }

    /// The last cycle that still is what it was when a query kept something of it that had seen this many epochs, and reads
    /// these sources; `None`: no cycle is.
    pub fn holds_up_to(&self, seen: usize, own: &[SourceJournal]) -> Option<u64> {
        let state = self.state.lock();
        let is_own = |source| own.iter().any(|own| own.in_cuts.index == source);
        let changed = state.epochs.iter().skip(seen).filter_map(|epoch| match epoch {
            Epoch::Opened { next_cycle } => Some(*next_cycle),
            Epoch::Lost(lost) => is_own(lost.source).then_some(*lost.cycles.start()),
        });
        changed.chain([self.cuts.end()]).min()?.checked_sub(1)
    }

    /// A source is not read any more.
    pub fn close_source(&self, index: usize) {
        self.state.lock().progress.remove(&index);
    }

    /// A query will begin: what it needs is not known yet.
    pub fn expect(&self, query: &str) {
        self.state.lock().expected.insert(query.to_owned());
    }

    /// A query begins, and needs this.
    pub fn enter(&self, query: &str, need: Need) {
        let mut state = self.state.lock();
        state.expected.remove(query);
        state.stopped.remove(query);
        state.needs.insert(query.to_owned(), need);
        self.release(&mut state);
    }

    /// A query that is there needs no more than this from here on.
    pub fn need(&self, query: &str, need: Need) {
        let mut state = self.state.lock();
        if let Some(known) = state.needs.get_mut(query) {
            *known = need;
            self.release(&mut state);
        }
    }

    /// A query is not there any more.
    pub fn forget(&self, query: &str) {
        self.lost_ends.forget(query);
        let mut state = self.state.lock();
        state.expected.remove(query);
        state.needs.remove(query);
        state.stopped.remove(query);
        state.snapshots.remove(query);
        self.release(&mut state);
    }

    /// A query does not run, and may continue with what it has in a folder: what it needs for that is kept, up to a limit.
    pub fn keep_for(&self, query: &str, folder: &Path) -> Result<(), Cause> {
        let stopped = self.stopped_in(folder);
        let mut state = self.state.lock();
        if let Ok(Some(stopped)) = &stopped {
            state.stopped.insert(query.to_owned(), stopped.clone());
        }
        state.expected.remove(query);
        state.needs.remove(query);
        state.snapshots.remove(query);
        self.release(&mut state);
        stopped.map(drop)
    }

    /// What is kept for a query that is stopped; `None`: there is none of this name, or it has never begun.
    pub fn kept_for(&self, query: &str) -> Result<Option<RetainedRows>, Cause> {
        let mut state = self.state.lock();
        let JournalState { stopped, progress, bytes_max, needs, .. } = &mut *state;
        let Some(stopped) = stopped.get_mut(query) else { return Ok(None) };
        let next = stopped.need.after.map_or(0, |cycle| cycle + 1);
        // Read once, because going back in the log takes time.
        if stopped.waits_since_ns.is_none() && (self.cuts.start()..self.cuts.end()).contains(&next) {
            stopped.waits_since_ns = self.cuts.cut(next)?.map(|cut| cut.closed_at_ns);
        }
        Ok(Some(stopped.kept(&open_sources(progress, bytes_max, needs))))
    }

    /// Where a query continues that has this folder; `None`: it has never begun, or needs nothing of this journal.
    fn stopped_in(&self, folder: &Path) -> Result<Option<StoppedQuery>, Cause> {
        let description = if folder.is_dir() { inspect::query(folder)? } else { None };
        let Some(description) = description else { return Ok(None) };
        let sources: Vec<usize> =
            database::sources_of_query(&description).filter_map(|name| self.place_of(name)).collect();
        if sources.is_empty() {
            // It has a clock and a journal of its own.
            return Ok(None);
        }
        // The oldest one that is there is the oldest one that a start may need.
        let after = inspect::list(folder)?.snapshots.first().copied();
        let cut = match after {
            Some(cycle) if cycle >= self.cuts.start() => self.cuts.cut(cycle)?,
            _ => None,
        };
        let position = |source: usize| cut.as_ref().map_or(0, |cut| self.in_cuts(source).at(cut).position);
        let positions = sources.into_iter().map(|source| (source, position(source))).collect();
        let is_let_go = after.is_some() && cut.is_none();
        Ok(Some(StoppedQuery { need: Need { after, positions }, is_let_go, ..StoppedQuery::default() }))
    }

    /// A query that is there has a newer snapshot.
    pub fn has_snapshot(&self, query: &str, snapshot: SnapshotStatus) {
        let mut state = self.state.lock();
        if state.needs.contains_key(query) {
            state.snapshots.insert(query.to_owned(), snapshot);
        }
    }

    /// What it has, and what it is kept for. It reads the oldest cut from the disk.
    pub fn status(&self) -> JournalStatus {
        let (cuts, oldest) = (LogStatus::of(&self.cuts.progress()), self.cuts.start());
        // It may be removed meanwhile.
        let oldest = if oldest < cuts.end { self.cuts.reader().read(oldest).ok().flatten() } else { None };
        let state = self.state.lock();
        let source = |(index, name): (usize, &String)| SourceLogStatus {
            name: name.clone(),
            log: state.progress.get(&index).map(|progress| LogStatus::of(progress)),
        };
        let needs = |(name, need, is_stopped): (&String, &Need, bool)| QueryNeeds {
            name: name.clone(),
            is_stopped,
            after: need.after,
            positions: need.positions.clone(),
            snapshot: state.snapshots.get(name).cloned(),
        };
        let running = state.needs.iter().map(|(name, need)| (name, need, false));
        let kept = state.stopped.iter().filter(|(_, stopped)| !stopped.is_let_go);
        let stopped = kept.map(|(name, stopped)| (name, &stopped.need, true));
        JournalStatus {
            folder: self.folder().to_owned(),
            cuts,
            oldest_closed_ns: oldest.map(|cut| cut.closed_at_ns),
            sources: state.sources.iter().enumerate().map(source).collect(),
            queries: running.chain(stopped).map(needs).collect(),
            expected: state.expected.iter().cloned().collect(),
        }
    }

    /// Lets go what no query needs.
    fn release(&self, state: &mut JournalState) {
        let JournalState { stopped, progress, bytes_max, needs, expected, .. } = state;
        if !expected.is_empty() {
            return;
        }
        let sources = open_sources(progress, bytes_max, needs);
        for (query, stopped) in stopped.iter_mut() {
            if stopped.let_go_if_due(&sources, &self.cuts) {
                let after = stopped.need.after;
                warn!(
                    query,
                    after, "the rows that a stopped query needs are too many, and are no longer kept"
                );
            }
        }
        let stopped = stopped.values().filter(|stopped| !stopped.is_let_go).map(|stopped| &stopped.need);
        let needs: Vec<&Need> = needs.values().chain(stopped).collect();
        // The cut behind which the slowest begins is kept: after a crash, it may be the last one whose rows are all there.
        let after = needs.iter().map(|need| need.after).min().flatten();
        if let Some(before) = after.and_then(|cycle| cycle.checked_sub(1)) {
            self.cuts.release(before);
        }
        for (index, progress) in progress {
            if let Some(position) = least(needs.iter().copied(), *index) {
                progress.release(position);
            }
        }
    }
}

/// The sources that are open, with what the queries need of them that run.
fn open_sources<'a>(
    progress: &'a BTreeMap<usize, Arc<StreamProgress>>,
    bytes_max: &BTreeMap<usize, u64>,
    needs: &BTreeMap<String, Need>,
) -> BTreeMap<usize, JournaledSource<'a>> {
    let open = |(index, progress): (&usize, &'a Arc<StreamProgress>)| {
        let bytes_max = bytes_max.get(index).copied().unwrap_or(u64::MAX);
        (*index, JournaledSource { progress, bytes_max, needed: least(needs.values(), *index) })
    };
    progress.iter().map(open).collect()
}

/// The cuts have the positions of the sources in an order that nothing says any more.
fn nameless(folder: &Path) -> Cause {
    Cause::operation(format!(
        "{} has journals of sources, but no file 'query' that names them in the order of the cuts; restore the folder",
        folder.display()
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidemill_core::arrow::schema::{DataType, Field, Schema};
    use tidemill_journal::Disk;

    use super::*;

    #[test]
    fn the_slowest_query_says_what_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let journal = ClockJournal::open(Arc::new(Disk), folder.path()).unwrap();
        let schema: SchemaRef = Schema::new(vec![Field::new("n", DataType::Int64, false)]).into();
        let settings = StreamSettings::default();
        let (index, writer, _reader) = journal.open_source("s", schema, &settings).unwrap();
        let released = || writer.progress().released();
        let need = |position| Need { after: Some(1), positions: vec![(index, position)] };
        journal.expect("late");
        journal.enter("one", need(10));
        assert_eq!(released(), 0, "another query will begin");
        journal.enter("late", need(4));
        assert_eq!(released(), 4);
        journal.need("late", need(20));
        assert_eq!(released(), 10);
        journal.forget("one");
        assert_eq!(released(), 20);
        journal.need("one", need(7));
        journal.need("late", need(30));
        assert_eq!(released(), 30, "one that was forgotten needs nothing any more");
    }

    #[test]
    fn the_status_says_what_is_there_and_for_whom() {
        let folder = tempfile::tempdir().unwrap();
        let journal = ClockJournal::open(Arc::new(Disk), folder.path()).unwrap();
        let empty = journal.status();
        assert_eq!((empty.oldest_closed_ns, empty.cuts.first, empty.cuts.end), (None, 0, 0));
        let schema: SchemaRef = Schema::new(vec![Field::new("n", DataType::Int64, false)]).into();
        let settings = StreamSettings { bytes_max: 1 << 30, ..StreamSettings::default() };
        let (index, _writer, _reader) = journal.open_source("s", schema, &settings).unwrap();
        (0..3).for_each(|cycle| journal.log(cycle, 100 + cycle, &[SourceMark::START]).unwrap());
        journal.expect("late");
        journal.enter("one", Need { after: Some(1), positions: vec![(index, 5)] });
        let snapshot =
            |cycle| SnapshotStatus { cycle, closed_at_ns: 100 + cycle, bytes: 7, took: Some(Duration::ZERO) };
        journal.has_snapshot("one", snapshot(1));
        journal.has_snapshot("nobody", snapshot(2));
        let status = journal.status();
        assert_eq!((status.oldest_closed_ns, status.cuts.end, status.expected.len()), (Some(100), 3, 1));
        let log = status.sources[0].log.as_ref().unwrap();
        assert_eq!((log.first, log.end, log.segments, log.bytes_max), (0, 0, 1, 1 << 30));
        assert!(status.cuts.segments == 1 && status.cuts.bytes > 0);
        let needs = QueryNeeds {
            name: "one".into(),
            is_stopped: false,
            after: Some(1),
            positions: vec![(index, 5)],
            snapshot: Some(snapshot(1)),
        };
        assert_eq!(status.queries, [needs]);
        journal.close_source(index);
        journal.forget("one");
        let status = journal.status();
        assert!(status.queries.is_empty() && status.sources[0].log.is_none());
        // Its snapshot is not that of another query of its name.
        journal.enter("one", Need::default());
        assert_eq!(journal.status().queries[0].snapshot, None);
    }

    #[test]
    fn sources_keep_their_places_in_the_cuts() {
        let folder = tempfile::tempdir().unwrap();
        let schema: SchemaRef = Schema::new(vec![Field::new("n", DataType::Int64, false)]).into();
        let open = |journal: &ClockJournal, name: &str| {
            journal.open_source(name, Arc::clone(&schema), &StreamSettings::default()).unwrap().0
        };
        let journal = ClockJournal::open(Arc::new(Disk), folder.path()).unwrap();
        assert_eq!((open(&journal, "b"), open(&journal, "a")), (0, 1));
        drop(journal);
        let journal = ClockJournal::open(Arc::new(Disk), folder.path()).unwrap();
        assert_eq!((open(&journal, "a"), open(&journal, "c"), open(&journal, "b")), (1, 2, 0));
        drop(journal);
        // The folder of a single query is none of a database.
        let other = tempfile::tempdir().unwrap();
        Journal::open(other.path()).unwrap().set_query("SELECT 1").unwrap();
        let refused = ClockJournal::open(Arc::new(Disk), other.path()).err().unwrap().to_string();
        assert!(refused.contains("the journal of a single query"), "{refused}");
    }
}
