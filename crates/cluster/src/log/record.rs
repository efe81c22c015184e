//! What the coordinator records about a log.

use std::collections::BTreeSet;

use super::{Epoch, Position, Positions, ReplicaId};
use crate::members::NodeId;

/// The epochs of a log. The coordinator holds it; it is changed by compare-and-set only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// On how many disks a record must be before it is acknowledged.
    pub durable: usize,
    /// The epochs that are closed, in order. They never change again.
    pub closed: Vec<ClosedEpoch>,
    /// The epoch that is written.
    pub open: OpenEpoch,
}

/// An epoch whose end is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedEpoch {
    /// Its number.
    pub epoch: Epoch,
    /// The position of its first record.
    pub start: Position,
    /// The position behind its last record.
    pub end: Position,
    /// Its replicas. Each record before the tail is on `durable` of them.
    pub replicas: BTreeSet<ReplicaId>,
    /// Its last records, and who has all of them.
    pub tail: Tail,
}

/// The last records of an epoch: those that may not have been on enough disks when it was sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Which ones; it may be none.
    pub positions: Positions,
    /// Who has all of them on disk.
    pub holders: BTreeSet<ReplicaId>,
}

/// The epoch that is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenEpoch {
    /// Its number.
    pub epoch: Epoch,
    /// The position of its first record.
    pub start: Position,
    /// The only node that may write.
    pub writer: NodeId,
    /// Where it writes to.
    pub replicas: BTreeSet<ReplicaId>,
}

impl LogRecord {
    /// Returns a new log, whose first epoch is open; `None` if there are fewer replicas than `durable`, or `durable` is 0.
    pub fn new(durable: usize, writer: NodeId, replicas: BTreeSet<ReplicaId>) -> Option<LogRecord> {
        let open = OpenEpoch { epoch: Epoch(1), start: 0, writer, replicas };
        let is_enough = durable > 0 && open.replicas.len() >= durable;
        is_enough.then_some(LogRecord { durable, closed: Vec::new(), open })
    }

    /// Returns the record in which the open epoch is closed behind this tail, and the next one is open; `None` if there are too
    /// few replicas, or the tail is not on enough disks.
    pub fn close(&self, tail: Tail, writer: NodeId, replicas: BTreeSet<ReplicaId>) -> Option<LogRecord> {
        let OpenEpoch { epoch, start, replicas: before, .. } = self.open.clone();
        let is_copied = tail.positions.is_empty() || tail.holders.len() >= self.durable;
        if replicas.len() < self.durable || !is_copied || tail.positions.end < start {
            return None;
        }
        let end = tail.positions.end;
        let mut closed = self.closed.clone();
        closed.push(ClosedEpoch { epoch, start, end, replicas: before, tail });
        let open = OpenEpoch { epoch: Epoch(epoch.0 + 1), start: end, writer, replicas };
        Some(LogRecord { durable: self.durable, closed, open })
    }

    /// Returns who may have a record of a closed epoch: of these, at least `durable` had it on disk.
    pub fn holders(&self, position: Position) -> Option<(Epoch, BTreeSet<ReplicaId>)> {
        let of = |closed: &&ClosedEpoch| (closed.start..closed.end).contains(&position);
        let closed = self.closed.iter().find(of)?;
        let is_tail = closed.tail.positions.contains(&position);
        let holders = if is_tail { &closed.tail.holders } else { &closed.replicas };
        Some((closed.epoch, holders.clone()))
    }
}
