//! Sinks whose targets are away when a run begins, and come later.

use tidemill_core::CommitGuard;
use tidemill_core::error::Cause;

use super::super::process::Process;
use super::Schedule;

impl Schedule {
    /// Lets the target of a sink come, at times.
    pub(super) fn arrive(&mut self, process: &mut Process, index: usize) -> Result<(), Cause> {
        // What must be refused is seldom: it has to come before the next crash.
        let one_in = if self.ledger.has_lost_while_away() { 1 } else { 6 };
        if !self.random.is_once_in(one_in) {
            return Ok(());
        }
        let known = {
            let sink = &mut self.world().sinks[index];
            sink.is_away = false;
            if sink.remembers { sink.recorded } else { None }
        };
        let arrived = process.kept.guard.arrived(index, known);
        self.note(|| format!("* sink {index} comes, with cycles up to {known:?}: {arrived:?}"));
        if arrived.is_err() && self.ledger.has_lost_while_away() {
            self.count("sinks that came later, and had what is lost");
        }
        let kept = process.flow.arrived(index, arrived?);
        self.ledger.arrived(index);
        self.count("sinks that came later");
        if kept > 0 {
            self.count("sinks that came later, and had some cycles");
        }
        Ok(())
    }
}
