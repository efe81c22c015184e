//! Where a query stands that does not run: what its journal has, how far its sinks are, and from which states a run could
//! resume.

use tidemill_core::Sink;
use tidemill_core::error::Cause;
use tidemill_journal::{CutJournal, Journal, StreamWriter};
use tidemill_plan::Plan;

use super::description::Description;
use super::protocol::{JournaledRange, RecoveryInput, RecoveryPlan, SinkCommit};
use super::reach::{check_there, places, reach};
use super::{Durability, DurableSource};

/// See the module.
pub(super) struct StoppedQuery<'a> {
    pub journal: &'a Journal,
    pub cuts: CutJournal,
    /// In the plan's order, with their names.
    pub streams: Vec<(String, StreamWriter)>,
    pub reaches: Vec<JournaledRange>,
    pub sinks: Vec<SinkCommit>,
}

impl<'a> StoppedQuery<'a> {
    /// Of a plan with these sinks and sources, which must be the one that the journal is of.
    pub fn of(
        plan: &Plan,
        sinks: &mut [Box<dyn Sink>],
        sources: &[DurableSource],
        journal: &'a Journal,
        durability: &Durability,
    ) -> Result<StoppedQuery<'a>, Cause> {
        check_there(sinks)?;
        let mut streams = Vec::new();
        for (source, planned) in sources.iter().zip(&plan.sources) {
            let (writer, _) = journal.stream(&planned.name, source.source.schema(), &source.stream)?;
            streams.push((planned.name.clone(), writer));
        }
        let reaches = streams.iter().map(|(_, writer)| reach(&writer.progress())).collect();
        let description = Description::new(plan, sources, durability);
        if let Some(known) = journal.query()? {
            description.check(&known)?;
        }
        let names: Vec<String> = plan.sinks.iter().map(|sink| sink.name.clone()).collect();
        let sinks = places(journal, &names, sinks)?;
        Ok(StoppedQuery { journal, cuts: journal.cuts()?, streams, reaches, sinks })
    }

    /// The cycle of the state that a run would resume from; `None`: it would begin at the beginning.
    pub fn usable(&self) -> Result<Option<u64>, Cause> {
        match RecoveryInput::snapshot_max(&self.sinks) {
            Some(cycle) => Ok(self.journal.snapshots().newest(Some(cycle))?.map(|stored| stored.cut.cycle)),
            None => Ok(None),
        }
    }

    /// How a run would resume from the state after a cycle, or from the beginning.
    pub fn plan_from(&self, snapshot: Option<u64>) -> Result<RecoveryPlan, Cause> {
        plan_from(snapshot, &self.sinks, &self.reaches, self.journal, &self.cuts)
    }
}

/// How a run would resume from the state after a cycle, or from the beginning, if its sinks were at these places.
pub(super) fn plan_from(
    snapshot: Option<u64>,
    sinks: &[SinkCommit],
    streams: &[JournaledRange],
    journal: &Journal,
    cuts: &CutJournal,
) -> Result<RecoveryPlan, Cause> {
    let stored = snapshot.map(|cycle| journal.snapshots().read(cycle)).transpose()?;
    let snapshot = stored.as_ref().map(|stored| &stored.cut);
    let after = cuts.cuts_after(snapshot.map(|cut| cut.cycle))?;
    RecoveryInput { sinks, snapshot, cuts: after, cuts_end: cuts.end(), streams }.plan()
}
