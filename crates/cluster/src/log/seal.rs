//! How an epoch ends.

use std::collections::{BTreeMap, BTreeSet};

use super::{Epoch, LogRecord, Position, Positions, ReplicaId, Tail};

/// What a replica answers when it is asked to seal an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealAnswer {
    /// Up to where it has the epoch on its disk.
    pub end: Position,
    /// Up to where it knows records to be acknowledged; others may be, too.
    pub confirmed: Position,
}

/// Seals the open epoch of a log. It may be given up at any time; another then begins from the start.
#[derive(Clone, Debug)]
pub struct Seal {
    epoch: Epoch,
    start: Position,
    durable: usize,
    replicas: BTreeSet<ReplicaId>,
    answers: BTreeMap<ReplicaId, SealAnswer>,
    tail: Option<Tail>,
}

impl Seal {
    /// Begins to seal the open epoch of this record.
    pub fn new(log: &LogRecord) -> Seal {
        let open = &log.open;
        Seal {
            epoch: open.epoch,
            start: open.start,
            durable: log.durable,
            replicas: open.replicas.clone(),
            answers: BTreeMap::new(),
            tail: None,
        }
    }

    /// Returns the epoch and the position where it began.
    pub fn epoch(&self) -> (Epoch, Position) {
        (self.epoch, self.start)
    }

    /// Returns how many replicas must be sealed: so many that fewer than `durable` are left for the writer, and that at least
    /// one has each acknowledged record.
    pub fn quorum(&self) -> usize {
        (self.replicas.len() + 1).saturating_sub(self.durable).max(1)
    }

    /// Returns the replicas that have not answered yet.
    pub fn unanswered(&self) -> BTreeSet<ReplicaId> {
        self.replicas.iter().copied().filter(|replica| !self.answers.contains_key(replica)).collect()
    }

    /// Takes an answer. The first ones that are enough fix the end; later ones say who else has the tail, or could take it.
    pub fn answered(&mut self, replica: ReplicaId, answer: SealAnswer) {
        if !self.replicas.contains(&replica) {
            return;
        }
        self.answers.insert(replica, answer);
        if self.tail.is_some() {
            self.copied(replica, answer.end);
            return;
        }
        if self.answers.len() < self.quorum() {
            return;
        }
        let answers = self.answers.values();
        let end = answers.clone().map(|answer| answer.end).max().unwrap_or(self.start);
        let confirmed = answers.map(|answer| answer.confirmed).max().unwrap_or(self.start).min(end);
        let has_all = self.answers.iter().filter(|(_, answer)| answer.end >= end);
        let holders = has_all.map(|(replica, _)| *replica).collect();
        self.tail = Some(Tail { positions: confirmed..end, holders });
    }

    /// Returns the tail once the end is known.
    pub fn tail(&self) -> Option<&Tail> {
        self.tail.as_ref()
    }

    /// Returns to whom the tail should be copied, and from which position on: replicas of the epoch that have answered, then
    /// `others`, as many as are still needed.
    pub fn copies(&self, others: &BTreeSet<ReplicaId>) -> BTreeMap<ReplicaId, Positions> {
        let Some(Tail { positions, holders }) = self.tail.as_ref().filter(|tail| !tail.positions.is_empty())
        else {
            return BTreeMap::new();
        };
        // Where a copy ends before the tail begins, what is missing in between is fetched as well.
        let own = self.answers.iter().map(|(replica, answer)| (*replica, answer.end.min(positions.start)));
        let foreign = others.difference(&self.replicas).map(|replica| (*replica, positions.start));
        let lacking = own.chain(foreign).filter(|(replica, _)| !holders.contains(replica));
        let needed = self.durable.saturating_sub(holders.len());
        lacking.take(needed).map(|(replica, from)| (replica, from..positions.end)).collect()
    }

    /// Reports that a disk has the tail up to `end`.
    pub fn copied(&mut self, replica: ReplicaId, end: Position) {
        if let Some(tail) = self.tail.as_mut().filter(|tail| end >= tail.positions.end) {
            tail.holders.insert(replica);
        }
    }

    /// Returns the tail if the epoch may be closed: the tail is on enough disks.
    pub fn complete(&self) -> Option<Tail> {
        let is_copied = |tail: &&Tail| tail.positions.is_empty() || tail.holders.len() >= self.durable;
        self.tail.as_ref().filter(is_copied).cloned()
    }
}
