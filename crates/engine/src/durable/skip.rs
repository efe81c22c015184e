//! Leaving out rows that a query cannot get past: their positions are noted in the journal, and from then on every run
//! makes its cycles without them.
//!
//! All replays must agree for ever afterwards, so no state may stay that has one of the rows while a later run makes the
//! same cycles without it. States that have them are removed before the note is written: a crash between the two leaves a
//! query that continues from an older state, and nothing left out.

use std::ops::Range;

use tidemill_core::error::Cause;
use tidemill_core::{Cut, Sink};
use tidemill_journal::{Journal, Positions};
use tidemill_plan::Plan;

use super::protocol::{JournaledRange, RecoveryPlan};
use super::stopped_query::StoppedQuery;
use super::{Durability, DurableSource};

/// More ranges than this of one stream are not kept.
const RANGES_MAX: usize = 10_000;

/// Rows that are to be left out, and what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The stream.
    pub stream: String,
    /// The positions of the rows, without those that are left out already.
    pub positions: Positions,
    /// How many of the rows that were named are left out already.
    pub known: u64,
    /// The cycle of the state that the next run continues from; `None`: it begins at the beginning.
    pub snapshot: Option<u64>,
    /// The cycles of the states that have some of the rows, and are removed.
    pub states: Vec<u64>,
    /// How many cycles the next run makes again.
    pub cycles: u64,
    /// The first and the last cycle that have some of the rows; `None`: none has.
    pub of_cycles: Option<(u64, u64)>,
    /// The sinks that have committed the first of these cycles: what it gave stays with them.
    pub kept_by: Vec<String>,
}

/// Finds out what it takes to leave out the rows at some positions of a stream.
///
/// # Errors
/// If there is no such stream or no such row, or if every state that a run could continue from has one of the rows.
pub fn find_skip(
    plan: &Plan,
    sinks: &mut [Box<dyn Sink>],
    sources: &[DurableSource],
    journal: &Journal,
    durability: &Durability,
    (stream, positions): (&str, &Positions),
) -> Result<Skip, Cause> {
    let mut stopped = StoppedQuery::of(plan, sinks, sources, journal, durability)?;
    let index = stopped.streams.iter().position(|(name, _)| name == stream);
    let index = index.ok_or_else(|| Cause::user(format!("the pipeline has no stream '{stream}'")))?;
    check_there(stream, positions, stopped.reaches[index])?;
    // A row that the machine could still lose would leave its position to another one.
    stopped.streams[index].1.sync()?;
    let skips = journal.skips()?;
    let known = skips.get(stream).cloned().unwrap_or_default();
    let new = without(positions, &known);
    let first = new.ranges().first().map_or(u64::MAX, |range| range.start);
    let (snapshot, recovery) =
        start_before(&stopped, index, first)?.ok_or_else(|| covered(stream, first, &stopped))?;
    let newer = journal.snapshots().cycles()?;
    let states: Vec<u64> =
        newer.into_iter().filter(|cycle| !new.is_empty() && Some(*cycle) > snapshot).collect();
    let of_cycles = cycles_of(&new, index, &recovery.replay);
    let has_rows = |committed: Option<u64>| of_cycles.is_some_and(|(first, _)| committed >= Some(first));
    let kept_by = stopped.sinks.iter().filter(|place| has_rows(place.committed));
    let all: Positions = known.ranges().iter().chain(new.ranges()).cloned().collect();
    if all.ranges().len() > RANGES_MAX {
        return Err(Cause::user(format!(
            "more than {RANGES_MAX} ranges of '{stream}' would be skipped; change the query so that it can \
             process such rows"
        )));
    }
    Ok(Skip {
        stream: stream.to_owned(),
        known: positions.count() - new.count(),
        positions: new,
        snapshot,
        states,
        cycles: recovery.replay.len() as u64,
        of_cycles,
        kept_by: kept_by.map(|place| place.name.clone()).collect(),
    })
}

impl Skip {
    /// Leaves the rows out from now on: removes the states that have them, and notes their positions.
    ///
    /// # Errors
    /// If the disk is full or fails. Then it is done or not; it can be asked for again.
    pub fn carry_out(&self, journal: &Journal) -> Result<(), Cause> {
        if self.positions.is_empty() {
            return Ok(());
        }
        // Its state may have the rows.
        journal.give_up_replacement()?;
        if !self.states.is_empty() {
            journal.snapshots().remove_after(self.snapshot)?;
        }
        let mut skips = journal.skips()?;
        let noted = skips.entry(self.stream.clone()).or_default();
        self.positions.ranges().iter().for_each(|range| noted.add(range.clone()));
        journal.set_skips(&skips)
    }
}

/// Whether the journal has all of the rows.
fn check_there(
    stream: &str,
    positions: &Positions,
    JournaledRange { first, end }: JournaledRange,
) -> Result<(), Cause> {
    let (Some(lowest), Some(highest)) = (positions.ranges().first(), positions.ranges().last()) else {
        return Err(Cause::user("no position is given"));
    };
    let there = if first == end {
        "the journal contains none of its rows".to_owned()
    } else {
        format!("the journal has positions {first} to {}", end - 1)
    };
    match () {
        () if lowest.start < first && lowest.start < end => Err(Cause::user(format!(
            "position {} of '{stream}' no longer exists, because all sinks have its results: {there}",
            lowest.start
        ))),
        () if highest.end > end => {
            let absent = highest.start.max(end);
            Err(Cause::user(format!("position {absent} of '{stream}' does not exist: {there}")))
        }
        () => Ok(()),
    }
}

/// The newest state that has no row from a position of a stream on, and how a run continues from there.
fn start_before(
    stopped: &StoppedQuery<'_>,
    stream: usize,
    first: u64,
) -> Result<Option<(Option<u64>, RecoveryPlan)>, Cause> {
    let committed = stopped.usable()?;
    // The recovery of a run as things are: if there is none, no row is the reason.
    stopped.plan_from(committed)?;
    let older = stopped.journal.snapshots().cycles()?;
    let older = older.into_iter().rev().filter(|cycle| Some(*cycle) <= committed).map(Some);
    for snapshot in older.chain([None]) {
        let Ok(recovery) = stopped.plan_from(snapshot) else { continue };
        if recovery.positions[stream] <= first {
            return Ok(Some((snapshot, recovery)));
        }
    }
    Ok(None)
}

fn covered(stream: &str, position: u64, stopped: &StoppedQuery<'_>) -> Cause {
    let oldest = stopped.journal.snapshots().cycles().ok().and_then(|cycles| cycles.first().copied());
    let oldest =
        oldest.map_or(String::new(), |cycle| format!(" (the oldest is the one after cycle {cycle})"));
    Cause::user(format!(
        "position {position} of '{stream}' is part of every remaining state{oldest}, and the rows before these \
         states are gone, so the effect of this row cannot be undone. If the pipeline stops because of it, \
         change the query so that it can process the row, and run it with another journal folder (SET journal \
         = 'folder')"
    ))
}

/// The cycles of the first and the last of these positions.
fn cycles_of(positions: &Positions, stream: usize, cuts: &[Cut]) -> Option<(u64, u64)> {
    let of = |position: u64| cuts.iter().find(|cut| cut.positions[stream] > position).map(|cut| cut.cycle);
    let first = of(positions.ranges().first()?.start)?;
    let last = of(positions.ranges().last()?.end - 1).or_else(|| cuts.last().map(|cut| cut.cycle))?;
    Some((first, last))
}

/// The positions that are not among others.
fn without(positions: &Positions, others: &Positions) -> Positions {
    let gaps = |range: &Range<u64>| {
        let within = others.within(range.clone());
        let starts = [range.start].into_iter().chain(within.ranges().iter().map(|known| known.end));
        let ends = within.ranges().iter().map(|known| known.start).chain([range.end]);
        starts.zip(ends).map(|(start, end)| start..end).collect::<Vec<_>>()
    };
    positions.ranges().iter().flat_map(gaps).collect()
}
