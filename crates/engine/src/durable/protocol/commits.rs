//! Commits: what they wait for, and what follows from them.

use std::collections::BTreeMap;

use tidemill_core::Cut;

/// What a commit waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// A stream must be synced up to a position.
    Rows { stream: usize, position: u64 },
    /// The cuts must be synced.
    Cuts,
}

/// The inputs of a cycle must be as durable as promised before its results are committed. Otherwise a crash could take
/// the inputs and leave the results.
pub(crate) struct Durable {
    /// For each stream, whether a commit waits for its sync.
    waits: Vec<bool>,
}

impl Durable {
    pub fn new(waits: Vec<bool>) -> Self {
        Durable { waits }
    }

    /// What a commit of the cycles up to this cut still waits for. `synced` says up to where a stream is synced,
    /// `cuts_synced` which cut is the last synced one.
    pub fn missing(
        &self,
        cut: &Cut,
        synced: impl Fn(usize) -> u64,
        cuts_synced: Option<u64>,
    ) -> Option<Missing> {
        let mut waiting = (0..self.waits.len()).filter(|stream| self.waits[*stream]);
        if let Some(stream) = waiting.clone().find(|stream| synced(*stream) < cut.positions[*stream]) {
            return Some(Missing::Rows { stream, position: cut.positions[stream] });
        }
        (waiting.next().is_some() && cuts_synced < Some(cut.cycle)).then_some(Missing::Cuts)
    }
}

/// How far a sink is.
#[derive(Clone, Debug)]
pub(crate) struct SinkPlace {
    pub name: String,
    /// Whether the sink itself knows how far it is. If not, we record it.
    pub remembers: bool,
    /// Whether it counts as further than it knows itself, because a repair has advanced it. We record that as long as
    /// it is so.
    pub is_brought: bool,
    /// The last cycle that a run that began now would find committed. It is less than what is committed, if that is not
    /// recorded yet.
    pub committed: Option<u64>,
}

/// How far the sinks are, in the plan's order.
pub(crate) struct Commits {
    sinks: Vec<SinkPlace>,
}

impl Commits {
    pub fn new(sinks: Vec<SinkPlace>) -> Self {
        Commits { sinks }
    }

    /// Reports that a sink has committed the cycles up to this one. Returns what to record in place of the previous
    /// record; `None`: the sink knows it itself.
    pub fn to_note(&self, sink: usize, cycle: u64) -> Option<BTreeMap<String, u64>> {
        if self.sinks[sink].remembers {
            return None;
        }
        let is_noted = |place: &SinkPlace| !place.remembers || place.is_brought;
        let noted = self.sinks.iter().enumerate().filter(|(_, place)| is_noted(place));
        let last = |(index, place): (usize, &SinkPlace)| {
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

    /// The last cycle that a run that began now would find committed by all sinks.
    pub fn by_all(&self) -> Option<u64> {
        by_all(&self.sinks)
    }
}

/// The last cycle that all of these sinks have.
pub(super) fn by_all(sinks: &[SinkPlace]) -> Option<u64> {
    // `None` is less than any cycle.
    sinks.iter().map(|place| place.committed).min().flatten()
}
