//! What an earlier run left, and how to resume from it.

use std::sync::Arc;

use tidemill_core::error::{Cause, Fault};
use tidemill_core::snapshot::Snapshot;
use tidemill_core::{Cut, Sink};
use tidemill_flow::Resume;
use tidemill_journal::{CutJournal, Journal, Skips, StoredSnapshot, StreamProgress};
use tracing::info;

use super::changed_sinks::{ChangedSinks, RetainedParts, begins};
use super::description::Description;
use super::protocol::{JournaledRange, RecoveryInput, RecoveryPlan, Retention, SinkCommit};
use super::reach::{check_there, keep_away, places, reach};
use super::repair::{self, Repair};
use super::replacement;

/// What was found from earlier runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The cycle whose state was restored.
    pub snapshot: Option<u64>,
    /// Later cycles that are recomputed.
    pub cycles: u64,
    /// Events that are in the journal but not in the state.
    pub events: u64,
    /// Cuts at the end of the log that were discarded: their events had not reached the disk, and no sink has them.
    pub cuts_forgotten: u64,
    /// For each stream the positions behind the state that are skipped.
    pub skips: Skips,
    /// If sinks were added or removed since.
    pub changed: Option<ChangedSinks>,
}

/// How a run resumes.
pub(super) struct Recovery {
    pub resume: Resume,
    /// The last cycle that the journal has.
    pub last: Option<u64>,
    pub state: Option<Snapshot>,
    pub sinks: Vec<SinkCommit>,
    pub retention: Retention,
    pub recovered: Recovered,
}

/// Resumes a query from its journal: it inspects what earlier runs left, plans how to resume, and then applies the plan.
pub(super) struct Recoverer<'a> {
    pub journal: &'a Journal,
    pub cuts: &'a CutJournal,
    pub description: &'a Description,
    /// The names of the sinks.
    pub names: &'a [String],
    pub stream_names: &'a [String],
    pub streams: &'a [Arc<StreamProgress>],
}

/// What earlier runs left.
struct Inspection {
    /// What stays of the query in the journal, if its sinks have changed.
    kept: Option<RetainedParts>,
    /// Whether the journal describes the same query in other words.
    is_reworded: bool,
    sinks: Vec<SinkCommit>,
    reaches: Vec<JournaledRange>,
    /// The state to begin with, under the names that operators have now.
    stored: Option<StoredSnapshot>,
    /// Whether the state has other names in the journal.
    is_renamed: bool,
}

impl Recoverer<'_> {
    /// Determines how to resume, and removes what is no longer valid.
    ///
    /// # Errors
    /// If the journal belongs to another query, something that is needed is lost, or the disk fails.
    pub fn recover(&self, sinks: &mut [Box<dyn Sink>]) -> Result<Recovery, Cause> {
        self.claim(sinks)?;
        let found = self.inspect(sinks)?;
        let plan = self.plan(&found)?;
        self.apply(found, plan)
    }

    /// Makes a journal without a query that of this one.
    fn claim(&self, sinks: &mut [Box<dyn Sink>]) -> Result<(), Cause> {
        let (journal, cuts) = (self.journal, self.cuts);
        if journal.query()?.is_some() {
            return Ok(());
        }
        if journal.is_replacement() {
            replacement::begin(journal, cuts, self.description, self.names, sinks, self.streams)?;
        } else if cuts.end() > 0 {
            return Err(nameless(journal));
        }
        journal.set_query(self.description.text())
    }

    /// Reads what earlier runs left in the journal and in the sinks. It writes nothing.
    fn inspect(&self, sinks: &mut [Box<dyn Sink>]) -> Result<Inspection, Cause> {
        let (journal, cuts, names) = (self.journal, self.cuts, self.names);
        let known = journal.query()?.unwrap_or_default();
        let kept = self.description.compare(&known).map_err(|cause| with_replacement(cause, journal))?;
        if let Some(kept) = &kept {
            check_there(sinks)?;
            check_new(&kept.added, names, sinks)?;
        }
        let mut sinks = places(journal, names, sinks)?;
        let reaches: Vec<JournaledRange> = self.streams.iter().map(reach).collect();
        let floor = floor(journal, names)?;
        let stored = match RecoveryInput::snapshot_max(&of_earlier_runs(&sinks, kept.as_ref())) {
            _ if sinks.iter().any(|place| place.is_away) => earliest(journal, cuts.start(), &reaches, floor)?,
            Some(cycle) => journal.snapshots().newest(Some(cycle))?,
            None => None,
        };
        check_floor(stored.as_ref(), floor)
            .map_err(|cause| with_remedy(cause, &sinks, &reaches, journal, cuts))?;
        let stored = stored.map(|stored| in_names_of_today(stored, self.description)).transpose()?;
        let (stored, is_renamed) = stored.unzip();
        if let Some(kept) = &kept {
            let cycle = stored.as_ref().map(|stored| stored.cut.cycle);
            sinks.iter_mut().filter(|place| kept.added.contains(&place.name)).for_each(|place| {
                (place.committed, place.is_brought) = (cycle, place.remembers && cycle.is_some());
            });
        }
        let is_reworded = kept.is_none() && known != self.description.text();
        Ok(Inspection { kept, is_reworded, sinks, reaches, stored, is_renamed: is_renamed == Some(true) })
    }

    /// Plans how to resume from what was found.
    fn plan(&self, found: &Inspection) -> Result<RecoveryPlan, Cause> {
        let snapshot = found.stored.as_ref().map(|stored| &stored.cut);
        let input = RecoveryInput {
            sinks: &found.sinks,
            snapshot,
            cuts: self.cuts.cuts_after(snapshot.map(|cut| cut.cycle))?,
            cuts_end: self.cuts.end(),
            streams: &found.reaches,
        };
        let plan = input.plan();
        plan.map_err(|cause| with_remedy(cause, &found.sinks, &found.reaches, self.journal, self.cuts))
    }

    /// Writes what changes in the journal, and removes what is no longer valid.
    fn apply(&self, found: Inspection, plan: RecoveryPlan) -> Result<Recovery, Cause> {
        let (journal, cuts, names) = (self.journal, self.cuts, self.names);
        let Inspection { kept, is_reworded, sinks, stored, is_renamed, .. } = found;
        if is_reworded {
            journal.set_query(self.description.text())?;
        }
        if let Some(kept) = &kept {
            change(journal, self.description, kept, stored.as_ref(), &sinks)?;
        }
        if let Some(stored) = stored.as_ref().filter(|_| is_renamed) {
            journal.snapshots().write(stored)?;
        }
        journal.remove_rows_of_others(names)?;
        forget_repair(journal, &sinks)?;
        keep_away(journal, &sinks, plan.last)?;
        forget_behind(plan.last, journal, cuts)?;
        let snapshot = stored.as_ref().map(|stored| &stored.cut);
        let retention = retention(journal, snapshot, &plan.replay)?;
        let recovered = self.recovered(snapshot, &plan, kept);
        let (after, state) = stored.map(|StoredSnapshot { cut, state, .. }| (cut, state)).unzip();
        let resume = Resume { after, replay: plan.replay, sinks: plan.first_new };
        Ok(Recovery { resume, last: plan.last, state, sinks, retention, recovered })
    }

    /// Returns what is reported about the recovery.
    fn recovered(
        &self,
        snapshot: Option<&Cut>,
        plan: &RecoveryPlan,
        kept: Option<RetainedParts>,
    ) -> Recovered {
        let events = |(stream, start): (&Arc<StreamProgress>, &u64)| stream.end().saturating_sub(*start);
        let recovered = Recovered {
            snapshot: snapshot.map(|cut| cut.cycle),
            cycles: plan.replay.len() as u64,
            events: self.streams.iter().zip(&plan.positions).map(events).sum(),
            cuts_forgotten: plan.cuts_forgotten,
            skips: Skips::new(),
            changed: kept.map(|kept| ChangedSinks {
                added: begins(&kept.added, self.stream_names, &plan.positions),
                removed: kept.removed,
                kept: kept.kept,
                dropped: kept.dropped,
            }),
        };
        info!(
            snapshot = recovered.snapshot,
            cycles = recovered.cycles,
            events = recovered.events,
            cuts_forgotten = recovered.cuts_forgotten,
            "the journal is open; cycles after the snapshot are recomputed"
        );
        recovered
    }
}

/// Adds that the query can be replaced.
fn with_replacement(cause: Cause, journal: &Journal) -> Cause {
    cause.map_message(|text| {
        format!(
            "{text}. Or let this query replace the other one: `tidemill run SCRIPT --replace` computes it from the \
             rows that '{}' still has, beside the state of the other one, and takes over when it has caught up",
            journal.folder().display()
        )
    })
}

/// A sink that is added must not have rows of another query.
fn check_new(added: &[String], names: &[String], sinks: &mut [Box<dyn Sink>]) -> Result<(), Cause> {
    let new = names.iter().zip(sinks).filter(|(name, _)| added.contains(name));
    for (name, sink) in new {
        replacement::check_empty(name, sink.as_mut())?;
    }
    Ok(())
}

/// The sinks that say where a run begins.
fn of_earlier_runs(sinks: &[SinkCommit], kept: Option<&RetainedParts>) -> Vec<SinkCommit> {
    let is_new = |place: &&SinkCommit| kept.is_some_and(|kept| kept.added.contains(&place.name));
    sinks.iter().filter(|place| !is_new(place)).cloned().collect()
}

/// The oldest cycle with whose state a run can begin: sinks that were added later began there.
fn floor(journal: &Journal, names: &[String]) -> Result<Option<u64>, Cause> {
    let begun = journal.begun().read()?;
    Ok(names.iter().filter_map(|name| begun.get(name).copied()).max())
}

fn check_floor(stored: Option<&StoredSnapshot>, floor: Option<u64>) -> Result<(), Cause> {
    let Some(floor) = floor.filter(|floor| stored.is_none_or(|stored| stored.cut.cycle < *floor)) else {
        return Ok(());
    };
    Err(Cause::operation(format!(
        "a sink lacks cycles up to {floor}, with which a sink was added; no run can begin before it. Restore what the \
         sink had written, or give it another name"
    )))
}

/// A stored state under the names that operators have now, and whether that is anything new.
fn in_names_of_today(
    stored: StoredSnapshot,
    description: &Description,
) -> Result<(StoredSnapshot, bool), Cause> {
    match description.compare(&stored.plan)? {
        None => Ok((stored, false)),
        Some(kept) => {
            let (plan, state) = (description.text().to_owned(), kept.state(&stored.state));
            Ok((StoredSnapshot { plan, state, ..stored }, true))
        }
    }
}

/// Makes the changed query that of the journal. A crash at any point leaves the query before, with a state of it, or this
/// one, whose next start does the rest: its state then still has the names of before.
fn change(
    journal: &Journal,
    description: &Description,
    kept: &RetainedParts,
    stored: Option<&StoredSnapshot>,
    sinks: &[SinkCommit],
) -> Result<(), Cause> {
    let cycle = stored.map(|stored| stored.cut.cycle);
    // The state of another cycle would lack what the new sinks have, or have more.
    journal.snapshots().remove_after(cycle)?;
    if let Some(cycle) = cycle {
        journal.snapshots().remove_before(cycle)?;
    }
    let is_here = |name: &String| sinks.iter().any(|place| place.name == *name);
    for (file, is_noted) in [(journal.commits(), true), (journal.begun(), false)] {
        let mut known = file.read()?;
        known.retain(|name, _| is_here(name) && !kept.added.contains(name));
        if let Some(cycle) = cycle {
            let new = sinks.iter().filter(|place| kept.added.contains(&place.name));
            known.extend(new.map(|place| (place.name.clone(), cycle)));
        }
        if is_noted || !known.is_empty() || !file.read()?.is_empty() {
            file.write(&known)?;
        }
    }
    journal.set_query(description.text())?;
    info!(added = ?kept.added, removed = ?kept.removed, "the query's sinks have changed");
    Ok(())
}

/// The first state with which a run can begin; `None`: it can begin at the beginning.
fn earliest(
    journal: &Journal,
    cuts_start: u64,
    streams: &[JournaledRange],
    floor: Option<u64>,
) -> Result<Option<StoredSnapshot>, Cause> {
    if floor.is_none() && RecoveryInput::can_begin_at(None, cuts_start, streams) {
        Ok(None)
    } else {
        journal.snapshots().oldest(|cut| {
            Some(cut.cycle) >= floor && RecoveryInput::can_begin_at(Some(cut), cuts_start, streams)
        })
    }
}

/// Removes the cuts and snapshots of later cycles: their events are lost, and other cycles will have their numbers.
fn forget_behind(last: Option<u64>, journal: &Journal, cuts: &CutJournal) -> Result<(), Cause> {
    journal.snapshots().remove_after(last)?;
    cuts.discard_after(last)
}

/// The existing snapshots: the one to resume from, and those of cycles that are recomputed.
fn retention(journal: &Journal, snapshot: Option<&Cut>, replay: &[Cut]) -> Result<Retention, Cause> {
    let there = journal.snapshots().cycles()?;
    let newer = replay.iter().filter(|cut| there.contains(&cut.cycle));
    Ok(Retention::new(snapshot.into_iter().chain(newer).cloned()))
}

/// Adds a hint if a repair would help.
fn with_remedy(
    cause: Cause,
    sinks: &[SinkCommit],
    reaches: &[JournaledRange],
    journal: &Journal,
    cuts: &CutJournal,
) -> Cause {
    match (cause, repair::candidate(sinks, reaches, journal, cuts, "")) {
        (cause, Ok(Some(Repair { snapshot, .. }))) if cause.fault == Fault::Operation => cause.map_message(|text| {
            format!(
                "{text}. The state after cycle {snapshot} still exists: `tidemill journal repair` shows what \
                 would be lost by resuming from it, and does it"
            )
        }),
        (cause, _) => cause,
    }
}

/// Removes the record of a repair that has served its purpose: the sink itself has come that far. The record must not
/// outlive the sink's data, which may be removed to start over.
fn forget_repair(journal: &Journal, sinks: &[SinkCommit]) -> Result<(), Cause> {
    let mut noted = journal.commits().read()?;
    let count = noted.len();
    noted.retain(|name, _| {
        !sinks.iter().any(|place| place.remembers && !place.is_brought && place.name == *name)
    });
    if noted.len() < count { journal.commits().write(&noted) } else { Ok(()) }
}

/// It is there before the first cut.
fn nameless(journal: &Journal) -> Cause {
    Cause::operation(format!(
        "{} has cycles, but no file 'query' that says whose they are; restore the folder",
        journal.folder().display()
    ))
}
