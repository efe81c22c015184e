//! What an earlier run left, and how to resume from it.

use std::sync::Arc;

use tidemill_core::error::{Cause, Fault};
use tidemill_core::snapshot::Snapshot;
use tidemill_core::{Cut, Sink};
use tidemill_flow::Resume;
use tidemill_journal::{CutJournal, Journal, Skips, StoredSnapshot, StreamProgress};
use tracing::info;

use super::description::Description;
use super::protocol::{JournaledRange, RecoveryInput, Retention, SinkCommit};
use super::reach::{keep_away, places, reach};
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

/// Determines how to resume, and removes what is no longer valid.
pub(super) fn find(
    journal: &Journal,
    cuts: &CutJournal,
    description: &Description,
    names: &[String],
    sinks: &mut [Box<dyn Sink>],
    streams: &[Arc<StreamProgress>],
) -> Result<Recovery, Cause> {
    match journal.query()? {
        Some(known) => {
            description.check(&known).map_err(|cause| with_replacement(cause, journal))?;
            if known != description.text() {
                journal.set_query(description.text())?;
            }
        }
        None => {
            if journal.is_replacement() {
                replacement::begin(journal, cuts, description, names, sinks, streams)?;
            }
            journal.set_query(description.text())?;
        }
    }
    let sinks = places(journal, names, sinks)?;
    let reaches: Vec<JournaledRange> = streams.iter().map(reach).collect();
    let stored = match RecoveryInput::snapshot_max(&sinks) {
        _ if sinks.iter().any(|place| place.is_away) => earliest(journal, cuts.start(), &reaches)?,
        Some(cycle) => journal.snapshots().newest(Some(cycle))?,
        None => None,
    };
    if let Some(stored) = &stored {
        description.check(&stored.plan)?;
    }
    let snapshot = stored.as_ref().map(|stored| &stored.cut);
    let left = RecoveryInput {
        sinks: &sinks,
        snapshot,
        cuts: cuts.cuts_after(snapshot.map(|cut| cut.cycle))?,
        cuts_end: cuts.end(),
        streams: &reaches,
    };
    let plan = left.plan().map_err(|cause| with_remedy(cause, &sinks, &reaches, journal, cuts))?;
    forget_repair(journal, &sinks)?;
    keep_away(journal, &sinks, plan.last)?;
    forget_behind(plan.last, journal, cuts)?;
    let retention = retention(journal, snapshot, &plan.replay)?;
    let events = |(stream, start): (&Arc<StreamProgress>, &u64)| stream.end().saturating_sub(*start);
    let recovered = Recovered {
        snapshot: snapshot.map(|cut| cut.cycle),
        cycles: plan.replay.len() as u64,
        events: streams.iter().zip(&plan.positions).map(events).sum(),
        cuts_forgotten: plan.cuts_forgotten,
        skips: Skips::new(),
    };
    info!(
        snapshot = recovered.snapshot,
        cycles = recovered.cycles,
        events = recovered.events,
        cuts_forgotten = recovered.cuts_forgotten,
        "the journal is open; cycles after the snapshot are recomputed"
    );
    let (after, state) = stored.map(|StoredSnapshot { cut, state, .. }| (cut, state)).unzip();
    let resume = Resume { after, replay: plan.replay, sinks: plan.first_new };
    Ok(Recovery { resume, last: plan.last, state, sinks, retention, recovered })
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

/// The first state with which a run can begin; `None`: it can begin at the beginning.
fn earliest(
    journal: &Journal,
    cuts_start: u64,
    streams: &[JournaledRange],
) -> Result<Option<StoredSnapshot>, Cause> {
    match RecoveryInput::can_begin_at(None, cuts_start, streams) {
        true => Ok(None),
        false => {
            journal.snapshots().oldest(|cut| RecoveryInput::can_begin_at(Some(cut), cuts_start, streams))
        }
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
