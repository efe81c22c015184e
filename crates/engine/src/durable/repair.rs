//! Repairs a journal whose sinks are behind every state from which a run could begin: they are brought to the oldest
//! one. That can lose results, so it is done only on request, and it reports what it loses.

use tidemill_core::Sink;
use tidemill_core::error::Cause;
use tidemill_journal::{CutJournal, Journal};
use tidemill_plan::Plan;

use super::protocol::{JournaledRange, SinkCommit};
use super::stopped_query::{StoppedQuery, plan_from};
use super::{Durability, DurableSource};

/// How sinks are brought to a remaining state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The cycle of that state, from which a run resumes.
    pub snapshot: u64,
    /// The sinks that count as having all cycles up to it although they do not, with the last cycle that each has.
    pub behind: Vec<(String, Option<u64>)>,
    /// Why a run could not resume.
    pub reason: String,
}

/// Determines whether a run could resume with a journal and sinks as they are, and if not, whether a repair helps.
/// `None`: it can resume.
///
/// # Errors
/// If it could not resume after a repair either, with the reason.
pub fn find_repair(
    plan: &Plan,
    sinks: &mut [Box<dyn Sink>],
    sources: &[DurableSource],
    journal: &Journal,
    durability: &Durability,
) -> Result<Option<Repair>, Cause> {
    let stopped = StoppedQuery::of(plan, sinks, sources, journal, durability)?;
    let Err(reason) = stopped.plan_from(stopped.usable()?) else { return Ok(None) };
    let StoppedQuery { cuts, reaches, sinks, .. } = &stopped;
    match candidate(sinks, reaches, journal, cuts, &reason.to_string())? {
        Some(repair) => Ok(Some(repair)),
        None => Err(reason),
    }
}

/// The oldest state from which a run could resume if sinks were brought to it. Without that it cannot, for this reason.
pub(super) fn candidate(
    sinks: &[SinkCommit],
    streams: &[JournaledRange],
    journal: &Journal,
    cuts: &CutJournal,
    reason: &str,
) -> Result<Option<Repair>, Cause> {
    for cycle in journal.snapshots().cycles()? {
        let is_behind = |place: &&SinkCommit| place.committed < Some(cycle);
        let behind: Vec<_> =
            sinks.iter().filter(is_behind).map(|place| (place.name.clone(), place.committed)).collect();
        let brought =
            |place: &SinkCommit| SinkCommit { committed: place.committed.max(Some(cycle)), ..place.clone() };
        let brought: Vec<SinkCommit> = sinks.iter().map(brought).collect();
        if !behind.is_empty() && plan_from(Some(cycle), &brought, streams, journal, cuts).is_ok() {
            return Ok(Some(Repair { snapshot: cycle, behind, reason: reason.to_owned() }));
        }
    }
    Ok(None)
}

impl Repair {
    /// Records in the journal that the sinks have the cycles up to the state's. Later runs resume from there.
    ///
    /// # Errors
    /// If the disk is full or fails.
    pub fn carry_out(&self, journal: &Journal) -> Result<(), Cause> {
        let mut noted = journal.commits().read()?;
        noted.extend(self.behind.iter().map(|(name, _)| (name.clone(), self.snapshot)));
        journal.commits().write(&noted)
    }
}
