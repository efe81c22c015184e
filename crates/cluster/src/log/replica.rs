//! What a replica takes, refuses and answers.

use std::collections::BTreeMap;

use thiserror::Error;

use super::{Epoch, Position, Positions, SealAnswer};

/// Why a replica does not take records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("epoch {} is not taken any more, because epoch {} is sealed: its writer must stop", .epoch.0, .sealed.0)]
pub struct Refusal {
    /// The epoch that was to be written.
    pub epoch: Epoch,
    /// The last one that is sealed here.
    pub sealed: Epoch,
}

/// What to do with records that were sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendDecision {
    /// Write these, sync, and answer with [`Replica::synced`]. It may be none: all are here already.
    Write(Positions),
    /// There would be a gap: answer where the copy ends.
    Gap(Position),
    /// The epoch is over for its writer.
    Refuse(Refusal),
}

/// The records of an epoch that a replica has: consecutive ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochCopy {
    /// Which ones.
    pub positions: Positions,
    /// Those before it are known to be acknowledged.
    pub confirmed: Position,
}

/// The state of a replica, all of which belongs on its disk. An answer may be sent only after what it says is synced.
///
/// What was not synced may be gone after a crash; so the state after a crash is an earlier state of the same disk, from which
/// nothing was answered that it does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replica {
    /// Epochs up to this one take no appends. 0: none is sealed.
    sealed: u64,
    copies: BTreeMap<Epoch, EpochCopy>,
}

impl Replica {
    /// Decides about records of an epoch, which began at `start`, from its writer, who knows those before `confirmed` to be
    /// acknowledged. Counts what is to be written as written.
    pub fn append(
        &mut self,
        epoch: Epoch,
        start: Position,
        sent: Positions,
        confirmed: Position,
    ) -> AppendDecision {
        if epoch.0 <= self.sealed {
            return AppendDecision::Refuse(Refusal { epoch, sealed: Epoch(self.sealed) });
        }
        // There is a writer of this epoch, so those before it are closed.
        self.sealed = self.sealed.max(epoch.0 - 1);
        self.write(epoch, start, sent, confirmed)
    }

    /// Decides about records of a sealed epoch, which are copied here so that enough disks have them. If the replica has
    /// nothing of the epoch, its copy begins where they begin; a copy that begins later is extended to the front.
    pub fn copy(&mut self, epoch: Epoch, sent: Positions) -> AppendDecision {
        self.sealed = self.sealed.max(epoch.0);
        match self.copies.get_mut(&epoch) {
            Some(copy) if !copy.positions.is_empty() && sent.start < copy.positions.start => {
                if sent.end < copy.positions.start {
                    return AppendDecision::Gap(copy.positions.start);
                }
                copy.positions = sent.start..copy.positions.end.max(sent.end);
                AppendDecision::Write(sent)
            }
            Some(copy) if copy.positions.is_empty() && sent.start < copy.positions.start => {
                copy.positions = sent.clone();
                AppendDecision::Write(sent)
            }
            _ => self.write(epoch, sent.start, sent.clone(), sent.start),
        }
    }

    fn write(
        &mut self,
        epoch: Epoch,
        start: Position,
        sent: Positions,
        confirmed: Position,
    ) -> AppendDecision {
        let copy = self.copies.entry(epoch);
        let copy = copy.or_insert(EpochCopy { positions: start..start, confirmed: start });
        let end = copy.positions.end;
        if sent.start > end {
            return AppendDecision::Gap(end);
        }
        copy.positions.end = end.max(sent.end);
        copy.confirmed = copy.confirmed.max(confirmed);
        AppendDecision::Write(end..copy.positions.end)
    }

    /// Returns up to where the copy of an epoch reaches. To be sent once it is synced.
    pub fn synced(&self, epoch: Epoch) -> Option<Position> {
        self.copies.get(&epoch).map(|copy| copy.positions.end)
    }

    /// Seals an epoch, which began at `start`: its writer's records are refused from now on. To be answered once it is synced,
    /// together with the records that came before.
    pub fn seal(&mut self, epoch: Epoch, start: Position) -> SealAnswer {
        self.sealed = self.sealed.max(epoch.0);
        self.answer(epoch, start)
    }

    fn answer(&self, epoch: Epoch, start: Position) -> SealAnswer {
        match self.copies.get(&epoch) {
            Some(copy) => SealAnswer { end: copy.positions.end, confirmed: copy.confirmed },
            None => SealAnswer { end: start, confirmed: start },
        }
    }

    /// Notes that an epoch was closed at `end`; returns the records behind it, which are to be removed. Nobody acknowledged
    /// them.
    pub fn closed(&mut self, epoch: Epoch, end: Position) -> Positions {
        self.sealed = self.sealed.max(epoch.0);
        let Some(copy) = self.copies.get_mut(&epoch) else { return end..end };
        let behind = end.max(copy.positions.start)..copy.positions.end.max(end);
        copy.positions.end = copy.positions.end.min(end).max(copy.positions.start);
        behind
    }

    /// Returns what there is of an epoch.
    pub fn copy_of(&self, epoch: Epoch) -> Option<&EpochCopy> {
        self.copies.get(&epoch)
    }

    /// Returns the last epoch that takes no appends any more.
    pub fn last_sealed(&self) -> Epoch {
        Epoch(self.sealed)
    }
}
