//! Rows that are left out between two runs.

use std::collections::BTreeSet;

use tidemill_core::error::{Cause, Fault};
use tidemill_journal::Positions;

use super::super::process::{open_journal, parts};
use super::Schedule;
use crate::durable::{Durability, Skip, find_skip};

impl Schedule {
    /// Lets some rows be left out from now on, at times.
    pub(super) fn skip(&mut self) {
        if !self.has_faults || !self.random.is_once_in(3) || !self.ledger.begin_skip() {
            return;
        }
        let source = self.random.below(self.ledger.skipped.len() as u64) as usize;
        let count = self.ledger.row_count(source);
        // Mostly of the last ones: those before them are in states, or gone.
        let recent = if self.random.is_once_in(3) { count } else { count.min(20) };
        let start = count - self.random.below(recent + 1);
        let end = start + 1 + self.random.below(3);
        if self.random.is_once_in(4) {
            let after = self.random.below(30);
            self.disk.halt(after);
            self.note(|| format!("* the machine halts after {after} changes of the disk"));
        }
        let asked: BTreeSet<u64> = (start..end).collect();
        let result = self.try_skip(source, start, end);
        self.note(|| format!("> leaves out {start}..{end} of source {source}: {result:?}"));
        match result {
            Ok(skip) => {
                assert!(end <= count, "a row is left out that is not there: {skip:?}");
                self.count(if skip.states.is_empty() { "rows left out" } else { "states removed for a row" });
                self.ledger.skipped[source].extend(asked);
            }
            Err(_) if self.disk.is_halted() => {
                self.count("crashes while rows are left out");
                self.ledger.being_skipped = Some((source, asked));
                let power = self.random.is_once_in(2);
                self.lose(power);
            }
            Err(Cause { fault: Fault::Resource, .. }) if self.is_full => self.make_room(),
            Err(Cause { fault: Fault::Bug, message: text, .. }) => panic!("{text}"),
            Err(_) => self.count("rows that cannot be left out"),
        }
        // States that had the rows are gone, so that cycles are replayed.
        self.is_stopped_whole = false;
    }

    fn try_skip(&mut self, source: usize, start: u64, end: u64) -> Result<Skip, Cause> {
        let journal = open_journal(&self.disk, &self.settings)?;
        let (plan, mut sinks, sources) = parts(&self.world, &self.settings, &mut self.random);
        let (name, positions) =
            (format!("source {source}"), Positions::from_iter(std::iter::once(start..end)));
        let durability = Durability::new("simulated");
        let skip = find_skip(&plan, &mut sinks, &sources, &journal, &durability, (&name, &positions))?;
        skip.carry_out(&journal)?;
        Ok(skip)
    }
}
