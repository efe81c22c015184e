//! Resuming: what a crash left, and what follows from it.

use tidemill_core::Cut;
use tidemill_core::error::Cause;

use super::commits::{SinkCommit, by_all};

/// The positions that a stream's journal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JournaledRange {
    /// The first position.
    pub first: u64,
    /// One past the last position.
    pub end: u64,
}

/// What an earlier run left on the disk and in the sinks.
pub(crate) struct RecoveryInput<'a> {
    pub sinks: &'a [SinkCommit],
    /// The cut of the newest snapshot up to [`RecoveryInput::snapshot_max`].
    pub snapshot: Option<&'a Cut>,
    /// The logged cuts after it.
    pub cuts: Vec<Cut>,
    /// One past the last cycle whose cut is logged.
    pub cuts_end: u64,
    pub streams: &'a [JournaledRange],
}

/// How to resume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecoveryPlan {
    /// The cuts to replay after the snapshot.
    pub replay: Vec<Cut>,
    /// The last known cycle. Cuts and snapshots behind it belong to cycles whose events are lost. They must be removed
    /// before their numbers are used again.
    pub last: Option<u64>,
    /// How many logged cuts are behind it.
    pub cuts_forgotten: u64,
    /// For each sink the first cycle that it does not have.
    pub first_new: Vec<u64>,
    /// For each stream, the position to continue from.
    pub positions: Vec<u64>,
}

impl RecoveryInput<'_> {
    /// The newest snapshot to resume from: no sink may lack the results of a cycle before it. `None`: from the
    /// beginning.
    pub fn snapshot_max(sinks: &[SinkCommit]) -> Option<u64> {
        by_all(sinks)
    }

    /// Whether a run can begin at a cut (`None`: at the beginning), with cuts from `cuts_start` on. If a sink cannot say how
    /// far it is, a run begins at the first such cut that has a state: what a sink lacks is never removed, so it is
    /// behind that one.
    pub fn can_begin_at(cut: Option<&Cut>, cuts_start: u64, streams: &[JournaledRange]) -> bool {
        let next = cut.map_or(0, |cut| cut.cycle + 1);
        let position = |stream: usize| cut.map_or(0, |cut| cut.positions[stream]);
        cuts_start <= next && streams.iter().enumerate().all(|(at, stream)| stream.first <= position(at))
    }

    /// How to resume.
    ///
    /// # Errors
    /// If something that is needed is lost.
    pub fn plan(self) -> Result<RecoveryPlan, Cause> {
        // A crash of the machine may leave cuts on disk whose events are missing. No sink has committed them, because
        // a commit waits for both. They are discarded, and new cuts are made for the cycles.
        let is_there = |cut: &&Cut| {
            cut.positions.iter().zip(self.streams).all(|(position, stream)| *position <= stream.end)
        };
        let good = self.cuts.iter().take_while(is_there).count();
        let last = self.cuts[..good].last().or(self.snapshot).map(|cut| cut.cycle);
        self.check_commits(last)?;
        self.check_cuts()?;
        let positions = self.snapshot.map_or(vec![0; self.streams.len()], |cut| cut.positions.clone());
        check_streams(self.streams, &positions)?;
        let first_new = |place: &SinkCommit| place.committed.map_or(0, |cycle| cycle + 1);
        let first_new = self.sinks.iter().map(first_new).collect();
        let cuts_forgotten = (self.cuts.len() - good) as u64;
        let replay = self.cuts.into_iter().take(good).collect();
        Ok(RecoveryPlan { replay, last, cuts_forgotten, first_new, positions })
    }

    fn check_commits(&self, last: Option<u64>) -> Result<(), Cause> {
        self.sinks.iter().try_for_each(|place| place.check_ahead(last))
    }

    /// Whether the log of cuts follows the snapshot without a gap.
    fn check_cuts(&self) -> Result<(), Cause> {
        let start = self.snapshot.map_or(0, |cut| cut.cycle + 1);
        let found = match self.cuts.first() {
            Some(first) if first.cycle != start => format!("begins with cycle {}", first.cycle),
            None if self.cuts_end < start => format!("ends before cycle {}", self.cuts_end),
            _ => return Ok(()),
        };
        Err(Cause::operation(format!(
            "the cut log {found}, but resuming needs cycle {start}; restore the journal's folder, or start \
             from scratch in another one"
        )))
    }
}

/// Whether the journals have everything after these positions.
fn check_streams(streams: &[JournaledRange], positions: &[u64]) -> Result<(), Cause> {
    for (index, (JournaledRange { first, end }, needed)) in streams.iter().zip(positions).enumerate() {
        if first > needed || end < needed {
            return Err(Cause::operation(format!(
                "the journal of source {index} has positions {first} to {end}, but resuming needs {needed}; \
                 restore the journal's folder, or start from scratch in another one"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(cycle: u64, position: u64) -> Cut {
        Cut { cycle, positions: vec![position], watermarks: vec![0], ..Cut::first() }
    }

    fn sink(committed: Option<u64>) -> SinkCommit {
        SinkCommit {
            name: "output".into(),
            remembers: true,
            is_brought: false,
            committed,
            is_away: false,
            unheard_from: None,
        }
    }

    /// How to resume with cuts 3 to 5 at 30 to 50 after a snapshot of cycle 2, and with these positions.
    fn plan(committed: u64, first: u64, end: u64) -> Result<RecoveryPlan, String> {
        let left = RecoveryInput {
            sinks: &[sink(Some(committed))],
            snapshot: Some(&cut(2, 20)),
            cuts: vec![cut(3, 30), cut(4, 40), cut(5, 50)],
            cuts_end: 6,
            streams: &[JournaledRange { first, end }],
        };
        left.plan().map_err(|cause| cause.to_string())
    }

    #[test]
    fn cuts_are_made_again_as_far_as_their_events_are_there() {
        let found = plan(3, 10, 45).unwrap();
        let replay: Vec<u64> = found.replay.iter().map(|cut| cut.cycle).collect();
        assert_eq!((replay, found.last, found.cuts_forgotten), (vec![3, 4], Some(4), 1));
        assert_eq!((found.first_new, found.positions), (vec![4], vec![20]));
        assert_eq!(plan(3, 20, 20).unwrap_err(), plan(3, 0, 29).unwrap_err(), "no cut is left of those");
    }

    #[test]
    fn the_snapshot_alone_is_enough() {
        let found = plan(2, 20, 20).unwrap();
        assert_eq!((found.replay, found.last, found.cuts_forgotten), (vec![], Some(2), 3));
    }

    #[test]
    fn what_is_lost_is_said() {
        let reason = plan(5, 10, 45).unwrap_err();
        assert!(
            reason.contains("sink 'output' has committed cycle 5") && reason.contains("cycles up to 4 only")
        );
        let reason = plan(3, 21, 50).unwrap_err();
        assert!(reason.contains("source 0 has positions 21 to 50, but resuming needs 20"), "{reason}");
        let left = |snapshot, cuts: Vec<Cut>, cuts_end| RecoveryInput {
            sinks: &[],
            snapshot,
            cuts,
            cuts_end,
            streams: &[JournaledRange { first: 0, end: 90 }],
        };
        let reason = left(None, vec![cut(1, 10)], 2).plan().unwrap_err().to_string();
        assert!(reason.contains("begins with cycle 1, but resuming needs cycle 0"), "{reason}");
        let snapshot = cut(7, 70);
        let reason = left(Some(&snapshot), vec![], 4).plan().unwrap_err().to_string();
        assert!(reason.contains("ends before cycle 4, but resuming needs cycle 8"), "{reason}");
    }

    #[test]
    fn it_begins_where_the_slowest_sink_is() {
        assert_eq!(RecoveryInput::snapshot_max(&[sink(Some(4)), sink(Some(2))]), Some(2));
        assert_eq!(RecoveryInput::snapshot_max(&[sink(Some(4)), sink(None)]), None);
    }
}
