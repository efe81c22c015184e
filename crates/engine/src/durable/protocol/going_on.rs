//! Going on: what a crash left, and what follows from it.

use tidemill_core::Cut;
use tidemill_core::error::Cause;

use super::commits::{SinkPlace, by_all};

/// The positions that a stream's journal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The first one.
    pub first: u64,
    /// One past the last.
    pub end: u64,
}

/// What an earlier run left on the disk and in the sinks.
pub(crate) struct Left<'a> {
    pub sinks: &'a [SinkPlace],
    /// The cut of the newest snapshot up to [`Left::snapshot_max`].
    pub snapshot: Option<&'a Cut>,
    /// The logged cuts after it.
    pub cuts: Vec<Cut>,
    /// One past the last cycle whose cut is logged.
    pub cuts_end: u64,
    pub streams: &'a [Reach],
}

/// How to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// The cuts to be made again, after the snapshot.
    pub replay: Vec<Cut>,
    /// The last cycle that is known. Cuts and snapshots behind it are of cycles whose events are lost: they must be gone
    /// before their numbers are used again.
    pub last: Option<u64>,
    /// How many logged cuts are behind it.
    pub cuts_forgotten: u64,
    /// For each sink the first cycle that it does not have.
    pub first_new: Vec<u64>,
    /// For each stream the position to go on from.
    pub positions: Vec<u64>,
}

impl Left<'_> {
    /// The newest snapshot to go on from: no sink may lack the results of a cycle before it. `None`: from the beginning.
    pub fn snapshot_max(sinks: &[SinkPlace]) -> Option<u64> {
        by_all(sinks)
    }

    /// How to go on.
    ///
    /// # Errors
    /// If what is needed is lost.
    pub fn way(self) -> Result<Way, Cause> {
        // A crash of the machine may leave cuts on the disk whose events are not. No sink has committed them, for a commit
        // waits for both; they are forgotten, and the cycles are cut anew.
        let is_there = |cut: &&Cut| {
            cut.positions.iter().zip(self.streams).all(|(position, stream)| *position <= stream.end)
        };
        let good = self.cuts.iter().take_while(is_there).count();
        let last = self.cuts[..good].last().or(self.snapshot).map(|cut| cut.cycle);
        self.check_commits(last)?;
        self.check_cuts()?;
        let positions = self.snapshot.map_or(vec![0; self.streams.len()], |cut| cut.positions.clone());
        check_streams(self.streams, &positions)?;
        let first_new = |place: &SinkPlace| place.committed.map_or(0, |cycle| cycle + 1);
        let first_new = self.sinks.iter().map(first_new).collect();
        let cuts_forgotten = (self.cuts.len() - good) as u64;
        let replay = self.cuts.into_iter().take(good).collect();
        Ok(Way { replay, last, cuts_forgotten, first_new, positions })
    }

    fn check_commits(&self, last: Option<u64>) -> Result<(), Cause> {
        let Some(place) = self.sinks.iter().find(|place| place.committed > last) else { return Ok(()) };
        let committed = place.committed.unwrap_or(0);
        let known = last.map_or("no cycle at all".into(), |last| format!("cycles up to {last} only"));
        Err(Cause::Operation(format!(
            "sink '{}' has committed cycle {committed}, but the journal knows {known}: its end is lost (a crash of \
             the machine with sync = 'never', or another journal's folder). Restore the journal, or give the sink \
             another name to start anew",
            place.name
        )))
    }

    /// Whether the log of cuts follows the snapshot without a gap.
    fn check_cuts(&self) -> Result<(), Cause> {
        let start = self.snapshot.map_or(0, |cut| cut.cycle + 1);
        let found = match self.cuts.first() {
            Some(first) if first.cycle != start => format!("begins with cycle {}", first.cycle),
            None if self.cuts_end < start => format!("ends before cycle {}", self.cuts_end),
            _ => return Ok(()),
        };
        Err(Cause::Operation(format!(
            "the log of cuts {found}, but cycle {start} is needed to go on; restore the journal's folder, or start \
             anew in another one"
        )))
    }
}

/// Whether the journals have what comes after these positions.
fn check_streams(streams: &[Reach], positions: &[u64]) -> Result<(), Cause> {
    for (index, (Reach { first, end }, needed)) in streams.iter().zip(positions).enumerate() {
        if first > needed || end < needed {
            return Err(Cause::Operation(format!(
                "the journal of source {index} has positions {first} to {end}, but {needed} is needed to go on; \
                 restore the journal's folder, or start anew in another one"
            )));
        }
    }
    Ok(())
}
