//! Starts a durable query under a clock that has a journal: it begins at a cut, or continues where an earlier run of it was.

use std::sync::Arc;
use std::time::Duration;

use tidemill_core::error::Cause;
use tidemill_core::snapshot::Snapshot;
use tidemill_core::{Cut, Sink};
use tidemill_flow::Resume;
use tidemill_journal::{Journal, StoredSnapshot, database};
use tidemill_plan::Plan;

use super::clock_journal::ClockJournal;
use super::journal_status::SnapshotStatus;
use super::need::Need;
use super::query_position::GivenNumbers;
use super::query_replay::{QueryReplay, of_sources};
use super::query_state::DurableState;
use super::source_journal::SourceJournal;
use super::source_use::SourceUse;
use super::subscription::{Joined, join};
use super::{ClockRun, DatabaseClock};
use crate::Engine;
use crate::durable::{
    ClockPart, Commits, Description, Durability, JournalGuard, Maintained, Maintenance, Recovered, Release,
    Retention, SinkCommit, keep_away, places,
};

/// The longest that a query which begins waits for a disk.
const SYNC_WAIT: Duration = Duration::from_secs(60);

/// Where a durable query begins that has not run before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Beginning {
    /// At the current cut.
    #[default]
    Current,
    /// With the first cycle of which the journal still has all rows.
    Earliest,
    /// With the cycle behind this one: it takes the place of a query that has all results up to there.
    After(u64),
}

/// What a durable query has of its own: its snapshots, and what its sinks have committed. Its rows and cuts are in the
/// journal of its clock.
pub struct QueryFolder {
    /// The name of the query in the database.
    pub name: String,
    /// Where it is kept. A query continues with what it finds there.
    pub journal: Journal,
    /// What must stay the same, and how often it is snapshotted.
    pub durability: Durability,
    /// Where it begins if it finds nothing.
    pub beginning: Beginning,
}

/// A durable query that runs under a clock. Its parts are dropped in this order.
pub struct DurableClockRun {
    /// The query and its feeds.
    pub run: ClockRun,
    /// Takes snapshots, and says what is no longer needed.
    pub maintenance: Maintenance,
    /// What was found from earlier runs.
    pub recovered: Recovered,
}

impl Engine {
    /// Starts a plan with its sinks and its durable sources, each in the plan's order, under a clock that has a journal.
    ///
    /// # Errors
    /// If what it finds belongs to another query or does not fit the clock's journal, a sink cannot say how far it is, a
    /// source cannot be opened, or the plan cannot run.
    pub fn run_durable_under(
        self,
        clock: &DatabaseClock,
        plan: Plan,
        mut sinks: Vec<Box<dyn Sink>>,
        sources: Vec<SourceUse>,
        folder: QueryFolder,
    ) -> Result<DurableClockRun, Cause> {
        let shared = &clock.shared;
        let log = shared.journal.clone().ok_or_else(|| Cause::bug("the clock has no journal"))?;
        let _starting = shared.starting.lock();
        shared.wait_for_closed();
        let durable = Some(DurableState::default());
        let joined = join(shared, (self.cycle_policy(), durable), &plan, sources)?;
        let own = shared.lock().journals_of(joined.query)?;
        log.lost_ends.forget(&folder.name);
        log.lost_ends.check(own.iter().map(|source| source.in_cuts.index))?;
        log.expect(&folder.name);
        let begun = begin(&folder, &plan, &mut sinks, &log, &own, &joined)?;
        let Begun { after, last, state, sinks: places, text, recovered } = begun;
        log.enter(&folder.name, need_of(after.as_ref(), &own));
        if let Some(cut) = &after {
            let bytes = folder.journal.snapshots().bytes(cut.cycle)?;
            let (cycle, closed_at_ns) = (cut.cycle, cut.closed_at_ns);
            log.has_snapshot(&folder.name, SnapshotStatus { cycle, closed_at_ns, bytes, took: None });
        }
        let replay = QueryReplay::new(&log, own.clone(), after.as_ref(), plan.has_clock_timers());
        joined.given.goes_on_at(replay.next_cycle());
        let first_new = places.iter().map(|place| place.committed.map_or(0, |cycle| cycle + 1)).collect();
        let resume = Resume { after: after.clone(), replay: Vec::new(), sinks: first_new };
        let progress: Vec<_> = own.iter().map(|source| Arc::clone(&source.progress)).collect();
        let waits = own.iter().map(|source| source.waits).collect();
        let QueryFolder { name, journal, durability, .. } = folder;
        let cuts = log.cuts().clone();
        let commits = Commits::new(places, after.as_ref().map(|cut| cut.cycle), last);
        let guard = Arc::new(JournalGuard::new(progress.clone(), waits, cuts.clone(), &journal, commits));
        let mut engine = self.commit_guard(Arc::clone(&guard) as _).snapshot_at_end();
        if let Some(state) = state.filter(|state| !state.operators.is_empty()) {
            engine = engine.state(Arc::new(state));
        }
        let given = joined.given.clone();
        let run = joined.run(engine, plan, sinks, resume, Some(replay))?;
        let part = Arc::new(PartOfClock { log, name, sources: own, given });
        let retention = retention(&journal, after.as_ref(), &*part)?;
        let kept = Maintained {
            journal,
            cuts,
            progress,
            guard,
            retention,
            text,
            snapshot_cycle: None,
            part: Some(part),
            takeover: None,
        };
        let maintenance = Maintenance::start(kept, run.running.snapshots(), &durability, Vec::new())?;
        Ok(DurableClockRun { run, maintenance, recovered })
    }
}

/// Where a query begins or continues.
struct Begun {
    after: Option<Cut>,
    /// The last cycle of the clock's journal.
    last: Option<u64>,
    state: Option<Snapshot>,
    sinks: Vec<SinkCommit>,
    text: String,
    recovered: Recovered,
}

fn begin(
    folder: &QueryFolder,
    plan: &Plan,
    sinks: &mut [Box<dyn Sink>],
    log: &ClockJournal,
    own: &[SourceJournal],
    joined: &Joined,
) -> Result<Begun, Cause> {
    let event_times = own.iter().map(|source| {
        let event_time = source.settings.event_time?;
        Some((source.schema.fields().get(event_time.column)?.name().clone(), event_time.delay_ns))
    });
    let event_times: Vec<_> = event_times.collect();
    let description = Description::of(plan, &event_times, &folder.durability)
        .under_clock(own.iter().map(|source| source.name.as_str()));
    let names: Vec<String> = plan.sinks.iter().map(|sink| sink.name.clone()).collect();
    let known = folder.journal.query()?;
    if let Some(known) = &known {
        if database::sources_of_query(known).next().is_none() {
            return Err(of_earlier_version());
        }
        description.check(known)?;
        // Until it has caught up, it reads what others have read before.
        joined.replays();
    } else {
        let after = match folder.beginning {
            Beginning::Current => joined.begins(),
            Beginning::Earliest => {
                joined.replays();
                earliest(log, own)?
            }
            Beginning::After(cycle) => {
                joined.replays();
                Some(logged_cut(cycle, log, own)?)
            }
        };
        create(folder, after, &names, description.text(), log, own)?;
    }
    let sinks = places(&folder.journal, &names, sinks)?;
    // What the query has kept of later cycles is of others, whose cuts or rows a crash of the machine has taken.
    let seen = folder.journal.seen_epochs()?;
    if seen > log.epochs() {
        return Err(Cause::operation(
            "the folder of the query is newer than the journal of the database: restore both from the same backup, or \
             DROP the query and create it again",
        ));
    }
    let last = log.holds_up_to(seen, own);
    if let Some(place) = sinks.iter().find(|place| place.check_ahead(last).is_err()) {
        let cause = committed_ahead(place, last);
        log.lost_ends.prove(&folder.name, own.iter().map(|source| source.in_cuts.index), &cause);
        return Err(cause);
    }
    keep_away(&folder.journal, &sinks, last)?;
    folder.journal.snapshots().remove_after(last)?;
    folder.journal.set_seen_epochs(log.epochs())?;
    let is_away = sinks.iter().any(|place| place.is_away);
    let stored = match sinks.iter().map(|place| place.committed).min().flatten() {
        // What a sink lacks that cannot say it is behind the oldest state.
        _ if is_away => folder.journal.snapshots().oldest(|cut| check_there(Some(cut), log, own).is_ok())?,
        Some(cycle) => folder.journal.snapshots().newest(Some(cycle))?,
        None => None,
    };
    let after = stored.as_ref().map(|stored| &stored.cut);
    check_there(after, log, own)?;
    // Of a query that was stopped for long, they may have been let go.
    if !keeps(after, log, own) {
        check_there(after, log, own)?;
    }
    let next = after.map_or(0, |cut| cut.cycle + 1);
    let start = |source: usize| after.map_or(0, |cut| cut.positions[source]);
    let events = own.iter().enumerate().map(|(at, source)| source.progress.end().saturating_sub(start(at)));
    let recovered = Recovered {
        snapshot: known.as_ref().and(after).map(|cut| cut.cycle),
        cycles: known.as_ref().map_or(0, |_| log.cuts().end().saturating_sub(next)),
        events: known.as_ref().map_or(0, |_| events.sum()),
        ..Recovered::default()
    };
    let (after, state) = stored.map(|StoredSnapshot { cut, state, .. }| (cut, state)).unzip();
    Ok(Begun { after, last, state, sinks, text: description.text().to_owned(), recovered })
}

/// Keeps where a new query begins: like a snapshot without state, which all of its sinks have.
fn create(
    folder: &QueryFolder,
    after: Option<Cut>,
    sinks: &[String],
    text: &str,
    log: &ClockJournal,
    own: &[SourceJournal],
) -> Result<(), Cause> {
    folder.journal.set_beginning(after.as_ref())?;
    if let Some(cut) = after {
        // Its cut and the rows before it must not be lost any more.
        for (source, position) in own.iter().zip(&cut.positions).filter(|(source, _)| source.waits) {
            if !source.progress.wait_synced(*position, SYNC_WAIT) {
                let slow = || Cause::operation("the disk of the journal takes too long; try again");
                return Err(source.progress.failure().unwrap_or_else(slow));
            }
        }
        log.cuts().sync()?;
        let commits = sinks.iter().map(|sink| (sink.clone(), cut.cycle)).collect();
        folder.journal.commits().write(&commits)?;
        let state = Snapshot { cycle: cut.cycle, ..Snapshot::default() };
        folder.journal.snapshots().write(&StoredSnapshot { cut, plan: text.to_owned(), state })?;
    }
    folder.journal.set_seen_epochs(log.epochs())?;
    // With this, the query is there.
    folder.journal.set_query(text)
}

/// The first logged cut behind which the journals have all rows; `None`: they have all rows that there ever were. What it
/// finds stays: until the query begins, nothing more is released.
fn earliest(log: &ClockJournal, own: &[SourceJournal]) -> Result<Option<Cut>, Cause> {
    let first = || own.iter().map(|source| source.progress.first()).collect::<Vec<_>>();
    loop {
        let (start, first_there) = (log.cuts().start(), first());
        if !log.cuts().keep_from(start) {
            continue;
        }
        let cut = earliest_from(start, log, own)?;
        let keep = |(at, source): (usize, &SourceJournal)| {
            source.progress.keep_from(cut.as_ref().map_or(0, |cut| cut.positions[at]))
        };
        // What was released before may be removed at any time, and then a later cut is the first one.
        if own.iter().enumerate().all(keep) || first() == first_there {
            return Ok(cut);
        }
    }
}

/// The cut of a cycle that was logged. Whether the rows behind it are there is looked at by `check_there`.
fn logged_cut(cycle: u64, log: &ClockJournal, own: &[SourceJournal]) -> Result<Cut, Cause> {
    let logged = if cycle < log.cuts().end() { log.cuts().reader().read(cycle)? } else { None };
    logged.map(|logged| of_sources(&logged, own)).ok_or_else(|| {
        Cause::operation(format!(
            "the journal of the database does not have the cut of cycle {cycle} any more"
        ))
    })
}

fn earliest_from(start: u64, log: &ClockJournal, own: &[SourceJournal]) -> Result<Option<Cut>, Cause> {
    if start == 0 && own.iter().all(|source| source.progress.first() == 0) {
        return Ok(None);
    }
    let mut reader = log.cuts().reader();
    let mut cut = None;
    for cycle in start..log.cuts().end() {
        cut = reader.read(cycle)?.map(|logged| of_sources(&logged, own));
        let is_there = |cut: &Cut| {
            own.iter().zip(&cut.positions).all(|(source, position)| source.progress.first() <= *position)
        };
        if cut.as_ref().is_some_and(is_there) {
            break;
        }
    }
    Ok(cut)
}

/// Whether the journal of the clock has what the query needs behind a cut.
fn check_there(after: Option<&Cut>, log: &ClockJournal, own: &[SourceJournal]) -> Result<(), Cause> {
    let (needed, start) = (after.map_or(0, |cut| cut.cycle + 1), log.cuts().start());
    if needed < start {
        return Err(Cause::operation(format!(
            "the journal of the database has the cuts from cycle {start} on, but the query continues with cycle \
             {needed}; restore the journal's folder, or DROP the query and create it again"
        )));
    }
    for (at, source) in own.iter().enumerate() {
        let needed = after.map_or(0, |cut| cut.positions[at]);
        let (first, end) = (source.progress.first(), source.progress.end());
        if needed < first || needed > end {
            return Err(Cause::operation(format!(
                "the journal of a source has the positions {first} to {end}, but the query continues with \
                 {needed}; restore the journal's folder, or DROP the query and create it again"
            )));
        }
    }
    Ok(())
}

/// What the query needs behind a cut stays until it has begun; whether it is there.
fn keeps(after: Option<&Cut>, log: &ClockJournal, own: &[SourceJournal]) -> bool {
    let keep = |(at, source): (usize, &SourceJournal)| {
        source.progress.keep_from(after.map_or(0, |cut| cut.positions[at]))
    };
    log.cuts().keep_from(after.map_or(0, |cut| cut.cycle + 1)) && own.iter().enumerate().all(keep)
}

fn of_earlier_version() -> Cause {
    Cause::user(
        "an earlier version has begun this query, with the rows of its sources in its own folder; this version keeps \
         them in the journal of the database, and cannot continue it. DROP the query and create it again",
    )
}

fn committed_ahead(place: &SinkCommit, last: Option<u64>) -> Cause {
    let committed = place.committed.unwrap_or(0);
    let known = last.map_or("no cycle at all".to_owned(), |last| format!("cycles up to {last} only"));
    Cause::operation(format!(
        "sink '{}' has committed cycle {committed}, but the journal of the database has {known}: it was written by \
         another database, or the end of the journal is lost (the machine crashed with sync = 'never'). Restore the \
         journal, or DROP the query and create it again with an output that is empty",
        place.name
    ))
}

fn need_of(after: Option<&Cut>, own: &[SourceJournal]) -> Need {
    let position = |(at, source): (usize, &SourceJournal)| {
        (source.in_cuts.index, after.map_or(0, |cut| cut.positions[at]))
    };
    Need { after: after.map(|cut| cut.cycle), positions: own.iter().enumerate().map(position).collect() }
}

/// The snapshots that are there: the one to resume from, and those behind it.
fn retention(folder: &Journal, after: Option<&Cut>, part: &dyn ClockPart) -> Result<Retention, Cause> {
    let newer =
        folder.snapshots().cycles()?.into_iter().filter(|cycle| after.is_none_or(|cut| *cycle > cut.cycle));
    let newer = newer.filter_map(|cycle| part.cut(cycle).transpose()).collect::<Result<Vec<_>, Cause>>()?;
    Ok(Retention::new(after.cloned().into_iter().chain(newer)))
}

/// A query's part in the journal of its clock.
struct PartOfClock {
    log: Arc<ClockJournal>,
    name: String,
    sources: Vec<SourceJournal>,
    given: GivenNumbers,
}

impl ClockPart for PartOfClock {
    fn last_cycle(&self) -> Option<u64> {
        self.given.last()
    }

    fn cut(&self, cycle: u64) -> Result<Option<Cut>, Cause> {
        Ok(self.log.cuts().cut(cycle)?.map(|cut| of_sources(&cut, &self.sources)))
    }

    fn stored(&self, cut: &Cut, bytes: u64, took: Duration) {
        let (cycle, closed_at_ns) = (cut.cycle, cut.closed_at_ns);
        self.log.has_snapshot(&self.name, SnapshotStatus { cycle, closed_at_ns, bytes, took: Some(took) });
    }

    fn release(&self, release: &Release) {
        let positions =
            self.sources.iter().map(|source| source.in_cuts.index).zip(release.positions.iter().copied());
        let positions = positions.collect();
        self.log.need(&self.name, Need { after: Some(release.snapshot), positions });
    }
}
