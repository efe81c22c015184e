//! Resuming where an earlier run stopped: from a state, through logged cuts, to new cuts.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use tidemill_core::Cut;

/// How a query resumes where an earlier run of it stopped. Its gateways receive the events from the positions of
/// `after` on.
///
/// ```
/// use tidemill_core::Cut;
/// let resume = tidemill_flow::Resume { after: Some(Cut::first()), replay: vec![], sinks: vec![1] };
/// assert_eq!(resume.first_cycle(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Resume {
    /// The cut at whose end the state was taken; `None`: the query starts from the beginning.
    pub after: Option<Cut>,
    /// The cuts that were logged after it, ascending. They are replayed exactly as they were, except for snapshots,
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

    /// Why a plan with this many sources and sinks cannot resume from it, if it cannot.
    pub fn fault(&self, gateways: usize, sinks: usize) -> Option<String> {
        if self.sinks.len() != sinks {
            let given = self.sinks.len();
            return Some(format!("a run resumes with {given} sinks, but the plan has {sinks}"));
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

/// The cuts that are still to be replayed.
///
/// ```
/// use tidemill_core::Cut;
/// use tidemill_flow::{Replay, Resume};
/// let mut replay = Replay::new(Resume { after: None, replay: vec![Cut::first()], sinks: vec![] });
/// assert_eq!(replay.next(), Some(Cut::first()));
/// replay.advance();
/// assert_eq!(replay.next(), None);
/// ```
pub struct Replay {
    after: Option<Cut>,
    cuts: VecDeque<Cut>,
}

impl Replay {
    /// The cuts of a run that resumes.
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

    /// The event time that a gateway had reached when it ended; `i64::MIN`: it had not at the start.
    pub fn ended_at(&self, gateway: usize) -> i64 {
        let after = self.after.as_ref().and_then(|cut| cut.ended_at.get(gateway).copied());
        after.unwrap_or(i64::MIN)
    }

    /// The next cut to replay; `None`: all are replayed.
    pub fn next(&self) -> Option<Cut> {
        self.cuts.front().cloned()
    }

    /// The next cut was replayed.
    pub fn advance(&mut self) {
        self.cuts.pop_front();
    }
}

/// How far a sink is: it receives each cycle that it does not have, in order, and commits ranges of them.
///
/// ```
/// // A run begins with cycle 3; the sink has the cycles up to 4 from an earlier run.
/// use tidemill_core::Cut;
/// let cut = |cycle| Cut { cycle, snapshot: cycle == 6, ..Cut::first() };
/// let mut progress = tidemill_flow::SinkProgress::new(3, 5);
/// assert!(!progress.takes(&cut(4)) && progress.takes(&cut(5)));
/// assert_eq!(progress.due(4), None);
/// assert!(progress.takes(&cut(6)) && progress.takes(&cut(7)));
/// assert_eq!(progress.due(7), Some(5..=7));
/// assert!(progress.must_record());
/// progress.done(7);
/// assert!(!progress.must_record());
/// assert_eq!(progress.due(8), Some(8..=8));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SinkProgress {
    /// The first cycle that is not done.
    next: u64,
    /// The first cycle that the sink does not have from an earlier run.
    first_new: u64,
    /// Whether a snapshot is taken at the end of a cycle that the sink has received and that is not done.
    has_snapshot: bool,
}

impl SinkProgress {
    /// For a run that begins with cycle `first`; the sink has the cycles before `first_new`.
    pub fn new(first: u64, first_new: u64) -> Self {
        SinkProgress { next: first, first_new, has_snapshot: false }
    }

    /// The first cycle that is not done.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether the sink receives the cycle of this cut; otherwise it has it already.
    pub fn takes(&mut self, cut: &Cut) -> bool {
        let takes = cut.cycle >= self.first_new;
        self.has_snapshot |= takes && cut.snapshot;
        takes
    }

    /// Whether the sink must record its commits after committing these cycles: the snapshot among them replaces an
    /// older one only if no run needs that any more. Without the record, the older snapshot and all rows since would
    /// stay until something else comes, and with a full journal nothing comes.
    pub fn must_record(&self) -> bool {
        self.has_snapshot
    }

    /// What the sink must commit after it has received the cycles up to `last`; `None`: it has them all.
    pub fn due(&self, last: u64) -> Option<RangeInclusive<u64>> {
        let first = self.next.max(self.first_new);
        (first <= last).then_some(first..=last)
    }

    /// The cycles up to this one are done.
    pub fn done(&mut self, last: u64) {
        (self.next, self.has_snapshot) = (last + 1, false);
    }
}
