//! Which journaled rows a query may have failed over, as far as the failure tells.

use tidemill_core::error::{Cause, Fault};
use tidemill_core::{RefusedRow, StateLimit};
use tidemill_flow::Failure;
use tidemill_journal::{CutJournal, Positions, Skips, SnapshotFolder};

/// What the cycles of a query consist of.
pub(super) struct Suspects {
    pub cuts: CutJournal,
    pub snapshots: SnapshotFolder,
    /// In the plan's order.
    pub streams: Vec<String>,
}

impl Suspects {
    /// The rows that an operator's partition was given in the cycle that it failed in, or those that a sink refused.
    /// Nothing if the failure is not due to rows, or does not say to which.
    pub fn of(&self, failure: &Failure) -> Skips {
        match failure {
            Failure::Operator(error) if is_due_to_rows(&error.cause) => {
                self.at(error.cycle, error.events.iter().map(|event| u64::from(*event)))
            }
            Failure::Sink(error) if error.cause.fault == Fault::User => match RefusedRow::of(&error.cause) {
                Some(row) => self.caused(row),
                None => self.at(error.cycle, 0..u64::MAX),
            },
            _ => Skips::new(),
        }
    }

    /// The row that caused a refused one; all rows of its cycle if the end of the cycle did.
    fn caused(&self, row: RefusedRow) -> Skips {
        let found = self.at(row.cycle, std::iter::once(u64::from(row.event)));
        if found.is_empty() { self.at(row.cycle, 0..u64::MAX) } else { found }
    }

    /// The rows of a cycle that are these events of it, ascending: those of the first stream come first.
    fn at(&self, cycle: u64, events: impl Iterator<Item = u64>) -> Skips {
        let (Some(starts), Some(ends)) = (self.start_of(cycle), self.end_of(cycle)) else {
            return Skips::new();
        };
        // Behind which event of the cycle each stream's rows begin.
        let mut bases = vec![0];
        bases.extend(starts.iter().zip(&ends).scan(0, |base, (start, end)| {
            *base += end - start;
            Some(*base)
        }));
        let mut found = vec![Positions::default(); starts.len()];
        for event in events.take_while(|event| *event < bases[starts.len()]) {
            let stream = bases.partition_point(|base| *base <= event) - 1;
            let position = starts[stream] + event - bases[stream];
            found[stream].add(position..position + 1);
        }
        let named = self.streams.iter().cloned().zip(found);
        named.filter(|(_, positions)| !positions.is_empty()).collect()
    }

    fn start_of(&self, cycle: u64) -> Option<Vec<u64>> {
        match cycle.checked_sub(1) {
            Some(before) => self.end_of(before),
            None => Some(vec![0; self.streams.len()]),
        }
    }

    fn end_of(&self, cycle: u64) -> Option<Vec<u64>> {
        let logged = self.cuts.cut(cycle).ok().flatten();
        // The cut of the state that a run continues from is no longer needed.
        let cut = logged.or_else(|| self.snapshots.read(cycle).ok().map(|stored| stored.cut));
        cut.map(|cut| cut.positions)
    }
}

fn is_due_to_rows(cause: &Cause) -> bool {
    matches!(cause.fault, Fault::User | Fault::Bug) || StateLimit::of(cause).is_some()
}
