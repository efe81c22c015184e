//! Commits: what they wait for, and what follows from them.

use std::collections::BTreeMap;

use tidemill_core::Cut;
use tidemill_core::error::Cause;

/// What a commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AwaitedSync {
    /// A stream must be synced up to a position.
    Rows { stream: usize, position: u64 },
    /// The cuts must be synced.
    Cuts,
}

/// The inputs of a cycle must be as durable as promised before its results are committed. Otherwise a crash could take
/// the inputs and leave the results.
pub(crate) struct SyncTargets {
    /// For each stream, whether a commit waits for its sync.
    waits: Vec<bool>,
}

impl SyncTargets {
    pub fn new(waits: Vec<bool>) -> Self {
        SyncTargets { waits }
    }

    /// What a commit of the cycles up to this cut still waits for. `synced` says up to where a stream is synced,
    /// `cuts_synced` which cut is the last synced one.
    pub fn missing(
        &self,
        cut: &Cut,
        synced: impl Fn(usize) -> u64,
        cuts_synced: Option<u64>,
    ) -> Option<AwaitedSync> {
        let mut waiting = (0..self.waits.len()).filter(|stream| self.waits[*stream]);
        if let Some(stream) = waiting.clone().find(|stream| synced(*stream) < cut.positions[*stream]) {
            return Some(AwaitedSync::Rows { stream, position: cut.positions[stream] });
        }
        (waiting.next().is_some() && cuts_synced < Some(cut.cycle)).then_some(AwaitedSync::Cuts)
    }
}

/// How far a sink is.
#[derive(Clone, Debug)]
pub(crate) struct SinkCommit {
    pub name: String,
    /// Whether the sink itself knows how far it is. If not, we record it.
    pub remembers: bool,
    /// Whether it counts as further than it knows itself, because a repair has advanced it. We record that as long as
    /// it is so.
    pub is_brought: bool,
    /// The last cycle that a run that began now would find committed. It is less than what is committed, if that is not
    /// recorded yet.
    pub committed: Option<u64>,
    /// Whether its target is away, so that it cannot say how far it is. `committed` is then the least that it has.
    pub is_away: bool,
    /// The first cycle that the journal did not have when a run began while the target was away; `None`: the sink was heard
    /// of since. Cycles from this one on were closed without asking the sink, so it cannot have them.
    pub unheard_from: Option<u64>,
}

impl SinkCommit {
    /// Fails if the sink has cycles that the journal, whose last cycle is `last`, never had or has lost.
    pub fn check_ahead(&self, last: Option<u64>) -> Result<(), Cause> {
        let last = match self.unheard_from {
            Some(first) => last.min(first.checked_sub(1)),
            None => last,
        };
        let Some(committed) = self.committed.filter(|cycle| Some(*cycle) > last) else { return Ok(()) };
        let known = last.map_or("no cycle at all".into(), |last| format!("cycles up to {last} only"));
        Err(Cause::operation(format!(
            "sink '{}' has committed cycle {committed}, but the journal contains {known}: it is an older \
             backup or another folder, or its end is lost (the machine crashed with sync = 'never'). Restore \
             the journal that belongs to the sink, or restore the sink from a backup that is not newer than \
             the journal. Alternatively, move away what the sink has written (a file together with its \
             manifest): the next start writes it again as far back as the journal reaches, and reports if that \
             needs `tidemill journal repair` first",
            self.name
        )))
    }
}

/// For each sink that is away, the first cycle that the journal, whose last cycle is `last`, does not have; if it was away
/// before, then as of that time.
pub(crate) fn unheard_from(sinks: &[SinkCommit], last: Option<u64>) -> BTreeMap<String, u64> {
    let next = last.map_or(0, |last| last + 1);
    let away = sinks.iter().filter(|place| place.is_away);
    away.map(|place| (place.name.clone(), place.unheard_from.map_or(next, |first| first.min(next)))).collect()
}

/// How far the sinks are, in the plan's order.
pub(crate) struct Commits {
    sinks: Vec<SinkCommit>,
    /// The cycle with whose state the run began; `None`: it began at the beginning.
    after: Option<u64>,
    /// The last cycle that the journal had when the run began.
    last: Option<u64>,
    /// For each sink the last cycle that this run has passed. What a run replays it needs itself, also if all sinks have it:
    /// it may have begun far before them, for one that was away.
    passed: Vec<Option<u64>>,
}

impl Commits {
    /// For a run that began with the state at the end of the cycle `after` and a journal up to `last`.
    pub fn new(sinks: Vec<SinkCommit>, after: Option<u64>, last: Option<u64>) -> Self {
        let passed = vec![after; sinks.len()];
        Commits { sinks, after, last, passed }
    }

    /// Reports that a sink has the cycles up to this one, and this run has passed them.
    pub fn passed(&mut self, sink: usize, cycle: u64) {
        self.passed[sink] = self.passed[sink].max(Some(cycle));
    }

    /// Reports that the target of a sink is there, which has the cycles up to `known` by its own account. Returns how far
    /// the sink is, and which sinks are still away.
    ///
    /// # Errors
    /// If the run cannot give the sink what it lacks, or the sink is ahead of the journal.
    pub fn arriving(
        &self,
        sink: usize,
        known: Option<u64>,
    ) -> Result<(SinkCommit, BTreeMap<String, u64>), Cause> {
        let mut place = self.sinks[sink].clone();
        (place.is_brought, place.committed) =
            (place.remembers && place.committed > known, place.committed.max(known));
        place.check_ahead(self.last)?;
        if place.committed < self.after {
            let has =
                place.committed.map_or("no cycle".into(), |cycle| format!("the cycles up to {cycle} only"));
            let after = self.after.unwrap_or(0);
            return Err(Cause::operation(format!(
                "sink '{}' was away when the query started, and has {has}, but the query has continued after cycle \
                 {after}: start it again, now that the sink is there",
                place.name
            )));
        }
        (place.is_away, place.unheard_from) = (false, None);
        let others = self.sinks.iter().enumerate().filter(|(index, _)| *index != sink);
        let others: Vec<SinkCommit> = others.map(|(_, place)| place.clone()).collect();
        Ok((place, unheard_from(&others, self.last)))
    }

    /// The sink counts as that far from now on.
    pub fn arrived(&mut self, sink: usize, place: SinkCommit) {
        self.sinks[sink] = place;
    }

    /// Reports that a sink has committed the cycles up to this one. Returns what to record in place of the previous
    /// record; `None`: the sink knows it itself.
    pub fn to_note(&self, sink: usize, cycle: u64) -> Option<BTreeMap<String, u64>> {
        if self.sinks[sink].remembers {
            return None;
        }
        let is_noted = |place: &SinkCommit| !place.remembers || place.is_brought;
        let noted = self.sinks.iter().enumerate().filter(|(_, place)| is_noted(place));
        let last = |(index, place): (usize, &SinkCommit)| {
            let cycle = if index == sink { Some(cycle) } else { place.committed };
            Some((place.name.clone(), cycle?))
        };
        Some(noted.filter_map(last).collect())
    }

    /// Reports that a run that began now would find the sink's cycles up to this one committed: the sink has recorded
    /// it, or our record of it is on disk.
    pub fn recorded(&mut self, sink: usize, cycle: Option<u64>) {
        let place = &mut self.sinks[sink];
        place.committed = place.committed.max(cycle);
    }

    /// The last cycle that a run that began now would find committed by all sinks, and that this one has passed.
    pub fn by_all(&self) -> Option<u64> {
        by_all(&self.sinks).min(self.passed.iter().min().copied().flatten())
    }
}

/// The last cycle that all of these sinks have.
pub(super) fn by_all(sinks: &[SinkCommit]) -> Option<u64> {
    // `None` is less than any cycle.
    sinks.iter().map(|place| place.committed).min().flatten()
}
