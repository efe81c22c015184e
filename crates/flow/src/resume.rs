//! Going on where an earlier run stopped: from a state, over cuts that were logged, to cuts of one's own.

use std::collections::VecDeque;

use tidemill_core::Cut;

/// How a query goes on where an earlier run of it stopped. Its gateways are given the events from the positions of
/// `after` on.
///
/// ```
/// use tidemill_core::Cut;
/// let resume = tidemill_flow::Resume { after: Some(Cut::first()), replay: vec![], sinks: vec![1] };
/// assert_eq!(resume.first_cycle(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Resume {
    /// The cut at whose end the state was taken; `None`: the query begins at its beginning.
    pub after: Option<Cut>,
    /// The cuts that were logged after it, ascending. They are made again exactly as they were, but for snapshots,
    /// before any new one.
    pub replay: Vec<Cut>,
    /// For each sink, in the plan's order, the first cycle that it does not have.
    pub sinks: Vec<u64>,
}

impl Resume {
    /// The first cycle of the run.
    pub fn first_cycle(&self) -> u64 {
        self.after.as_ref().map_or(0, |cut| cut.cycle + 1)
    }

    /// What cannot be gone on with, if anything.
    pub(crate) fn fault(&self, gateways: usize, sinks: usize) -> Option<String> {
        if self.sinks.len() != sinks {
            let given = self.sinks.len();
            return Some(format!("a run goes on with {given} sinks, but the plan has {sinks}"));
        }
        let mut positions = self.after.as_ref().map_or(vec![0; gateways], |cut| cut.positions.clone());
        for (next_cycle, cut) in (self.first_cycle()..).zip(&self.replay) {
            let grows = cut.positions.iter().zip(&positions).all(|(next, before)| next >= before);
            let fits = cut.positions.len() == gateways && cut.watermarks.len() == gateways;
            if cut.cycle != next_cycle || !grows || !fits || positions.len() != gateways {
                return Some(format!(
                    "the logged cut of cycle {} at {:?} does not follow cycle {next_cycle} at {positions:?} of \
                     {gateways} gateways",
                    cut.cycle, cut.positions
                ));
            }
            positions.clone_from(&cut.positions);
        }
        None
    }
}

/// The cuts that are still to be made again.
pub(crate) struct Replay {
    after: Option<Cut>,
    cuts: VecDeque<Cut>,
}

impl Replay {
    pub fn new(resume: Resume) -> Self {
        Replay { after: resume.after, cuts: resume.replay.into() }
    }

    /// Position, watermark and idleness of a gateway at the start.
    pub fn start_of(&self, gateway: usize) -> (u64, i64, bool) {
        match &self.after {
            Some(cut) => {
                let is_idle = cut.idle.get(gateway).copied().unwrap_or(false);
                (cut.positions[gateway], cut.watermarks[gateway], is_idle)
            }
            None => (0, i64::MIN, false),
        }
    }

    pub fn next(&self) -> Option<Cut> {
        self.cuts.front().cloned()
    }

    /// The next cut was made.
    pub fn advance(&mut self) {
        self.cuts.pop_front();
    }
}
