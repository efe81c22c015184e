//! What is known of a query from outside, and what must be true of it after each step: an oracle over all its runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tidemill_core::Cut;
use tidemill_core::arrow::array::cast::AsArray;
use tidemill_core::arrow::array::types::{TimestampNanosecondType, UInt64Type};
use tidemill_journal::{Journal, StreamReader};

use super::oracle::{DELAY_NS, Out, check_watermarks, expected};
use super::process::{FOLDER, Process, Settings};
use super::times::Times;
use super::world::{Row, SinkWorld, SourceWorld, World, schema};
use crate::durable::SyncPolicy;
use tidemill_testing::fault_disk::FaultDisk;

pub struct Ledger {
    world: Arc<Mutex<World>>,
    /// All rows that the journals were given and that no crash has taken, by source.
    rows: Vec<Vec<Row>>,
    /// Which of them are late, and how far their sources are.
    times: Vec<Times>,
    /// By source and number the position of a row.
    positions: Vec<BTreeMap<u64, u64>>,
    /// All cuts that were logged and that no crash has taken.
    pub cuts: Vec<Cut>,
    /// What was noted of each sink that does not remember.
    pub noted: Vec<Option<u64>>,
    /// By source the positions that are left out.
    pub skipped: Vec<BTreeSet<u64>>,
    /// Those that were being noted when the process ended: all of them are left out from now on, or none.
    pub being_skipped: Option<(usize, BTreeSet<u64>)>,
    /// How many of the results of each sink were checked before others were left out.
    checked: Vec<usize>,
    /// Whether cycles that a sink has committed were lost while it was away. It must never be given others in their place.
    lost_while_away: Vec<bool>,
    /// Up to where the journals and the cuts claimed to be synced when the process ended.
    claims: Option<(Vec<u64>, Option<u64>)>,
    /// Whether the machine has lost power since the query ran last, and whether it ever has.
    power_is_lost: bool,
    power_was_lost: bool,
}

impl Ledger {
    pub fn new(world: Arc<Mutex<World>>) -> Ledger {
        let (sources, sinks) = {
            let world = world.lock();
            (world.sources.len(), world.sinks.len())
        };
        Ledger {
            world,
            rows: vec![Vec::new(); sources],
            times: (0..sources).map(|_| Times::default()).collect(),
            positions: vec![BTreeMap::new(); sources],
            cuts: Vec::new(),
            noted: vec![None; sinks],
            skipped: vec![BTreeSet::new(); sources],
            being_skipped: None,
            checked: vec![0; sinks],
            lost_while_away: vec![false; sinks],
            claims: None,
            power_is_lost: false,
            power_was_lost: false,
        }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock()
    }

    /// Notes what was written to the journal, and checks what was acknowledged. Rows may be `held` that were polled and could
    /// not be written.
    pub fn written(
        &mut self,
        process: &Process,
        index: usize,
        (now, idle_after): (Instant, Option<Duration>),
        is_held: bool,
    ) {
        let progress = &process.kept.progress[index];
        let mut world = self.world.lock();
        let source = &mut world.sources[index];
        // What is new in the journal are the last rows of what was given last.
        let new = (progress.end() - self.rows[index].len() as u64) as usize;
        assert!(new <= source.last_given.len(), "{new} rows are new in the journal");
        for row in &source.last_given[source.last_given.len() - new..] {
            let before = self.positions[index].insert(row.id, self.rows[index].len() as u64);
            assert_eq!(before, None, "row {} is in the journal twice", row.id);
            self.rows[index].push(*row);
        }
        if let Some(polled) = source.last_poll.take_if(|_| !is_held) {
            let new = &source.last_given[source.last_given.len() - new..];
            self.times[index].polled(&polled, new, now, idle_after);
        }
        for id in std::mem::take(&mut source.newly_acknowledged) {
            let position = self.positions[index].get(&id);
            let position = position.unwrap_or_else(|| panic!("row {id} is acknowledged and not written"));
            let is_safe = source.sync == SyncPolicy::Never || *position < progress.synced();
            assert!(is_safe, "row {id} at {position} is acknowledged and not synced");
            source.acknowledged.insert(id);
        }
    }

    /// No commit without its rows and its cut on the disk.
    pub fn check_durable(&self, process: &Process, cut: &Cut) {
        let world = self.world();
        let waiting =
            (0..world.sources.len()).filter(|source| world.sources[*source].sync != SyncPolicy::Never);
        let waiting: Vec<usize> = waiting.collect();
        for source in &waiting {
            let (synced, needed) = (process.kept.progress[*source].synced(), cut.positions[*source]);
            assert!(synced >= needed, "source {source} is synced up to {synced}, the commit needs {needed}");
        }
        let synced = process.kept.cuts.synced();
        let is_safe = waiting.is_empty() || synced >= Some(cut.cycle);
        assert!(is_safe, "cycle {} is committed, cuts are synced up to {synced:?}", cut.cycle);
    }

    /// Nothing is gone that a run which resumes from the commits would need. Nothing else is kept either, once
    /// maintenance `has_released` it.
    pub fn check_kept(&self, process: &Process, has_released: bool) {
        if !has_released && process.kept.progress.iter().all(|progress| progress.first() == 0) {
            return;
        }
        let world = self.world();
        let places = world.sinks.iter().zip(&self.noted);
        let committed = places.map(|(sink, noted)| if sink.remembers { sink.recorded } else { *noted });
        let committed = committed.min().flatten();
        let snapshots = process.kept.journal.snapshots().cycles().unwrap();
        let usable = |committed| snapshots.iter().filter(move |cycle| Some(**cycle) <= committed);
        let needed = |committed, source: usize| {
            usable(committed).next_back().map_or(0, |cycle| self.cuts[*cycle as usize].positions[source])
        };
        // Maintenance learns of a commit a little later.
        let heard = process.kept.guard.committed();
        let old = usable(heard).count().saturating_sub(1);
        assert!(!has_released || old == 0, "{snapshots:?} are kept, {heard:?} is committed");
        for (source, progress) in process.kept.progress.iter().enumerate() {
            let (first, released) = (progress.first(), progress.released());
            let (needed, due) = (needed(committed, source), needed(heard, source));
            assert!(first <= needed, "source {source} begins with {first}, {needed} is needed");
            assert!(released <= needed, "source {source}: {released} is released, {needed} is needed");
            assert!(
                !has_released || released == due,
                "source {source}: {released} is released, {due} is due"
            );
        }
    }

    /// The process is about to end, whatever ends it.
    pub fn ended(&mut self, process: &Process) {
        let synced = process.kept.progress.iter().map(|progress| progress.synced()).collect();
        self.claims = Some((synced, process.kept.cuts.synced()));
    }

    /// The machine has lost power.
    pub fn power_lost(&mut self) {
        (self.power_is_lost, self.power_was_lost) = (true, true);
    }

    /// What the journal of a source has are the rows that it was given.
    pub fn check_journal(&self, source: usize, reader: &mut StreamReader, (first, end): (u64, u64)) {
        let mut position = first;
        while position < end {
            let record = reader.read(position).unwrap().expect("a record");
            let ids = record.rows.column(0).as_primitive::<UInt64Type>().values();
            let times = record.rows.column(1).as_primitive::<TimestampNanosecondType>().values();
            let rows = ids.iter().zip(times).map(|(id, time_ns)| Row { id: *id, time_ns: *time_ns });
            let rows: Vec<Row> = rows.collect();
            let range = record.start as usize..record.start as usize + rows.len();
            assert_eq!(self.rows[source].get(range), Some(&rows[..]), "the journal at {position}");
            position = record.start + rows.len() as u64;
        }
    }

    /// Whether a sink has cycles that are lost, and was away when a run found that out.
    pub fn has_lost_while_away(&self) -> bool {
        self.lost_while_away.contains(&true)
    }

    /// The target of a sink is there now, and the run continues with it.
    pub fn arrived(&self, sink: usize) {
        assert!(!self.lost_while_away[sink], "a committed cycle of sink {sink} is lost, and nobody says so");
    }

    /// Whether the disk lacks rows or cuts of committed cycles, as it may if a source is never synced.
    pub fn has_lost_commits(&self, disk: &FaultDisk, settings: &Settings) -> bool {
        let world = self.world();
        let is_never = |source: &SourceWorld| source.sync == SyncPolicy::Never;
        assert!(self.power_was_lost && world.sources.iter().any(is_never), "nothing can be lost");
        if self.has_lost_while_away() {
            return true;
        }
        let journal = Journal::open_on(Arc::new(disk.clone()), Path::new(FOLDER)).unwrap();
        let cuts_end = journal.cuts_in_segments(settings.cut_segment_bytes).unwrap().end();
        let end = |source: usize| {
            let (writer, _) =
                journal.stream(&format!("source {source}"), schema(), &settings.stream).unwrap();
            writer.end()
        };
        let ends: Vec<u64> = (0..world.sources.len()).map(end).collect();
        let noted = journal.commits().read().unwrap();
        let place = |(index, sink): (usize, &SinkWorld)| {
            if sink.remembers { sink.committed } else { noted.get(&format!("sink {index}")).copied() }
        };
        let mut places = world.sinks.iter().enumerate().filter_map(place);
        places.any(|cycle| !self.is_there(cycle, cuts_end, &ends))
    }

    /// Whether a cycle's cut is logged and its rows are in the journals.
    fn is_there(&self, cycle: u64, cuts_end: u64, ends: &[u64]) -> bool {
        let cut = &self.cuts[cycle as usize];
        cycle < cuts_end && cut.positions.iter().zip(ends).all(|(position, end)| position <= end)
    }

    /// What is left after a crash is what must be.
    pub fn started(&mut self, process: &Process, now: Instant) {
        let ends: Vec<u64> = process.kept.progress.iter().map(|progress| progress.end()).collect();
        let cuts_end = process.kept.cuts.end();
        let had: Vec<u64> = self.rows.iter().map(|rows| rows.len() as u64).collect();
        let fits = ends.iter().zip(&had).all(|(end, had)| end <= had) && cuts_end <= self.cuts.len() as u64;
        assert!(fits, "{ends:?} rows and {cuts_end} cuts were never written");
        if !self.power_is_lost {
            let there = (&ends, cuts_end, process.recovered.cuts_forgotten);
            assert_eq!(there, (&had, self.cuts.len() as u64, 0), "all that was written is there");
        }
        if let Some((synced, cuts_synced)) = self.claims.take() {
            let kept = ends.iter().zip(&synced).all(|(end, synced)| end >= synced);
            assert!(kept, "{synced:?} were synced, {ends:?} are there");
            let lost = (cuts_end..cuts_synced.map_or(0, |cycle| cycle + 1))
                .find(|cycle| self.is_there(*cycle, u64::MAX, &ends));
            assert_eq!(lost, None, "a cut that was synced is lost");
        }
        for (index, sink) in self.world.lock().sinks.iter().enumerate() {
            let committed = sink.committed.filter(|_| sink.remembers);
            let is_lost = committed.is_some_and(|cycle| !self.is_there(cycle, cuts_end, &ends));
            self.lost_while_away[index] |= is_lost;
            let is_told = sink.is_away || !self.lost_while_away[index];
            assert!(is_told, "a committed cycle of sink {index} is lost, and nobody says so");
        }
        self.forget(&ends, cuts_end);
        self.check_skipped(process);
        for (source, times) in self.times.iter_mut().enumerate() {
            let watermark = self.cuts.last().map_or(i64::MIN, |cut| cut.watermarks[source]);
            let cut_ns = if watermark > i64::MIN { watermark.saturating_add(DELAY_NS) } else { i64::MIN };
            times.started(self.rows[source].len(), cut_ns, now);
        }
        // A note that failed may be there all the same.
        let noted = process.kept.journal.commits().read().unwrap();
        let noted_of = |sink| noted.get(&format!("sink {sink}")).copied();
        self.noted = (0..self.noted.len()).map(noted_of).collect();
    }

    /// What the disk has lost never was, and of what was acknowledged nothing may be in it.
    fn forget(&mut self, ends: &[u64], cuts_end: u64) {
        self.cuts.truncate(cuts_end as usize);
        let mut world = self.world.lock();
        for (index, source) in world.sources.iter_mut().enumerate() {
            for row in self.rows[index].drain(ends[index] as usize..) {
                self.positions[index].remove(&row.id);
                let was_acknowledged = source.acknowledged.remove(&row.id);
                let may_be_lost = source.sync == SyncPolicy::Never;
                assert!(may_be_lost || !was_acknowledged, "row {} was acknowledged and is lost", row.id);
            }
        }
        self.power_is_lost = false;
    }

    /// The sinks were given what is due. Returns what is due of each cycle.
    fn check_given(&self, world: &World) -> Vec<Vec<Out>> {
        let late: Vec<Vec<bool>> = self.times.iter().map(Times::late).collect();
        check_watermarks(&self.rows, &late, &self.cuts);
        let expected = expected(&self.rows, &late, &self.skipped, &self.cuts);
        for (index, sink) in world.sinks.iter().enumerate() {
            // One that has what is lost gets nothing more.
            let may_differ = self.may_differ(world, sink) || self.lost_while_away[index];
            let given = sink.cycles[self.checked[index]..].iter();
            for (cycle, given) in given.filter(|_| !may_differ) {
                let due = expected.get(*cycle as usize).map(|results| sink.rows_of(results));
                assert_eq!(Some(given), due.as_ref(), "sink {index}, cycle {cycle}");
            }
        }
        expected
    }

    /// What was committed before rows were lost that nobody synced may differ from what came in their place.
    fn may_differ(&self, world: &World, sink: &SinkWorld) -> bool {
        let is_never = |source: &SourceWorld| source.sync == SyncPolicy::Never;
        self.power_was_lost && world.sources.iter().any(is_never) && !sink.remembers
    }

    /// Whether rows may be left out now: what was given so far can be checked only as long as nothing is lost. It is.
    pub fn begin_skip(&mut self) -> bool {
        if self.power_is_lost {
            return false;
        }
        let world = Arc::clone(&self.world);
        let mut world = world.lock();
        world.sinks.iter_mut().for_each(|sink| sink.reopened(false));
        self.check_given(&world);
        self.checked = world.sinks.iter().map(|sink| sink.cycles.len()).collect();
        true
    }

    /// How many rows the journal of a source was given.
    pub fn row_count(&self, source: usize) -> u64 {
        self.rows[source].len() as u64
    }

    /// What the journal says that is left out is what was asked for.
    fn check_skipped(&mut self, process: &Process) {
        let noted = process.kept.journal.skips().unwrap();
        let noted: Vec<BTreeSet<u64>> = (0..self.skipped.len())
            .map(|source| noted.get(&format!("source {source}")).map(|positions| positions.ranges()))
            .map(|ranges| ranges.unwrap_or_default().iter().cloned().flatten().collect())
            .collect();
        if let Some((source, positions)) = self.being_skipped.take()
            && positions.difference(&self.skipped[source]).any(|position| noted[source].contains(position))
        {
            self.skipped[source].extend(positions);
        }
        for (source, progress) in process.kept.progress.iter().enumerate() {
            let there = self.skipped[source].range(progress.first()..progress.end());
            assert!(there.eq(&noted[source]), "source {source} leaves out {:?}", noted[source]);
        }
    }

    /// The sources are in the journal, and the sinks have the results.
    pub fn check_results(&self) {
        let world = self.world();
        for (index, source) in world.sources.iter().enumerate() {
            source.check_complete(&self.rows[index], self.power_was_lost);
            let lost = source.acknowledged.iter().find(|id| !self.positions[index].contains_key(id));
            assert_eq!(lost, None, "an acknowledged row is lost");
        }
        let expected = self.check_given(&world);
        for (index, sink) in world.sinks.iter().enumerate() {
            let may_differ = self.may_differ(&world, sink);
            let mut expected: Vec<Vec<_>> = expected.iter().map(|results| sink.rows_of(results)).collect();
            // What it was given before rows were left out stays, unless it was given it once more.
            let again: BTreeSet<u64> =
                sink.cycles[self.checked[index]..].iter().map(|(cycle, _)| *cycle).collect();
            for (cycle, given) in &sink.cycles[..self.checked[index]] {
                if let Some(expected) = expected.get_mut(*cycle as usize).filter(|_| !again.contains(cycle)) {
                    expected.clone_from(given);
                }
            }
            let given: Vec<&Vec<_>> = sink.last_given().into_values().collect();
            let (given, rest) = given.split_at(expected.len().min(given.len()));
            let (had, missing) = expected.split_at(given.len());
            assert!(given.iter().copied().eq(had), "sink {index} has other results");
            // What it has not recorded, a next run would give it once more.
            let has_all = missing.iter().all(Vec::is_empty) && (sink.remembers || missing.is_empty());
            assert!(has_all, "sink {index} lacks {missing:?}");
            assert!(rest.is_empty() || may_differ, "sink {index} has results of cycles that never were");
        }
    }
}
