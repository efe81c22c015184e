//! How a process stops in order, and how the query ends.

use tidemill_core::error::Cause;

use super::super::process::Process;
use super::super::steps::{Crash, Step};
use super::Schedule;

/// This many rounds are enough to reach the end without faults.
const ROUNDS_MAX: usize = 5000;

impl Schedule {
    /// Stops a process in order: everything that was taken in is answered, and the final state is kept. Returns whether
    /// that worked: the stop may fail, and the disk may be full.
    pub(super) fn stop(&mut self, process: &mut Process) -> Result<bool, Cause> {
        process.forwarders.iter().flatten().for_each(|forwarder| forwarder.state.stop());
        for _ in 0..ROUNDS_MAX {
            for index in 0..process.writers.len() {
                self.write(process, index)?;
                self.forward(process, index)?;
            }
            let has_all = process.forwarders.iter().all(Option::is_none);
            let flow = &mut process.flow;
            if !flow.replay() && has_all && !flow.has_ended {
                let cut = flow.end(true)?;
                self.ledger.cuts.push(cut);
            }
            process.flow.work();
            (0..process.flow.sinks.len()).try_for_each(|index| self.sink(process, index))?;
            if process.flow.is_done() {
                let Some(state) = process.flow.snapshot.take() else { return Ok(false) };
                let is_kept = process.kept.store(state, std::time::Instant::now())?;
                process.kept.release()?;
                self.ledger.check_kept(process, true);
                self.count("stops with all answered");
                return Ok(is_kept);
            }
        }
        assert!(self.is_full || self.disk.is_halted(), "a stop does not come to its end");
        Ok(false)
    }

    /// Without further faults the query reaches its end, and all results are there.
    pub(super) fn finish(&mut self, process: Process) {
        self.note(|| "* nothing goes wrong any more".into());
        self.has_faults = false;
        let halted = self.disk.is_halted();
        self.disk.mend();
        self.is_full = false;
        let mut process = process;
        if halted || self.ledger.has_lost_while_away() || self.random.is_once_in(2) {
            self.crash(process, Crash::PowerLoss);
            let Some(next) = self.start() else { return };
            process = next;
        }
        self.world().sources.iter_mut().for_each(|source| source.ends = true);
        self.come_to_end(&mut process);
        self.ledger.check_results();
        self.crash(process, Crash::PowerLoss);
        if let Some(process) = self.start() {
            drop(process);
            self.ledger.check_results();
        }
        self.count("schedules that came to their end");
    }

    fn come_to_end(&mut self, process: &mut Process) {
        let steps = self.weights(process);
        for round in 0.. {
            assert!(round < ROUNDS_MAX, "it does not come to its end");
            self.clock.advance_ns(1_000_000);
            for (step, _) in &steps {
                if *step == Step::AskSnapshot && round % 10 != 0 {
                    continue;
                }
                let result = self.step(process, *step);
                result.unwrap_or_else(|cause| panic!("{step:?} fails without a reason: {cause:?}"));
            }
            let feeds_ended = process.forwarders.iter().all(Option::is_none);
            let flow = &mut process.flow;
            if flow.is_done() {
                return;
            }
            if feeds_ended && !flow.has_ended && !flow.replay() {
                let cut = flow.end(false).unwrap();
                self.ledger.cuts.push(cut);
            }
        }
    }
}
