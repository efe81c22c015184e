//! What the writer of an epoch sends and acknowledges.

use std::collections::{BTreeMap, BTreeSet};

use super::{Epoch, OpenEpoch, Position, Positions, ReplicaId};

/// The writer of one epoch.
///
/// ```
/// use std::collections::BTreeSet;
/// use tidemill_cluster::log::{EpochWriter, LogRecord, ReplicaId};
/// use tidemill_cluster::members::NodeId;
///
/// let replica = |node| ReplicaId { node: NodeId(node), disk: 1 };
/// let log = LogRecord::new(2, NodeId(1), BTreeSet::from([replica(1), replica(2), replica(3)])).unwrap();
/// let mut writer = EpochWriter::new(&log.open, log.durable);
/// writer.append(5);
/// assert_eq!(writer.next_for(replica(1), 100), Some(0..5));
/// writer.synced(replica(1), 5);
/// assert_eq!(writer.confirmed(), 0);
/// writer.synced(replica(3), 4);
/// assert_eq!(writer.confirmed(), 4);
/// ```
#[derive(Clone, Debug)]
pub struct EpochWriter {
    epoch: Epoch,
    start: Position,
    end: Position,
    confirmed: Position,
    durable: usize,
    replicas: BTreeMap<ReplicaId, Progress>,
    is_deposed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Progress {
    sent: Position,
    synced: Position,
}

impl EpochWriter {
    /// Begins an epoch. Only the node whose compare-and-set has opened it may, and only once: after a restart it opens
    /// another one.
    pub fn new(open: &OpenEpoch, durable: usize) -> EpochWriter {
        let begin = Progress { sent: open.start, synced: open.start };
        let replicas = open.replicas.iter().map(|replica| (*replica, begin)).collect();
        let OpenEpoch { epoch, start, .. } = *open;
        EpochWriter { epoch, start, end: start, confirmed: start, durable, replicas, is_deposed: false }
    }

    /// Returns the epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the position of the first record.
    pub fn start(&self) -> Position {
        self.start
    }

    /// Takes records; returns their positions. A deposed writer takes none.
    pub fn append(&mut self, records: u64) -> Positions {
        let from = self.end;
        if !self.is_deposed {
            self.end += records;
        }
        from..self.end
    }

    /// Returns what to send to a replica next, at most `records_max` records; `None` if there is nothing. They count as sent.
    pub fn next_for(&mut self, replica: ReplicaId, records_max: u64) -> Option<Positions> {
        let progress = self.replicas.get_mut(&replica).filter(|_| !self.is_deposed)?;
        let end = self.end.min(progress.sent.saturating_add(records_max));
        let next = progress.sent..end;
        progress.sent = end;
        (!next.is_empty()).then_some(next)
    }

    /// Notes that what was sent to a replica may be lost, because its connection is or an answer is overdue: it is sent again from
    /// where the replica is known to be. So a replica that was away catches up.
    pub fn resend(&mut self, replica: ReplicaId) {
        if let Some(progress) = self.replicas.get_mut(&replica) {
            progress.sent = progress.synced;
        }
    }

    /// Reports that a replica has synced the records before `end`.
    pub fn synced(&mut self, replica: ReplicaId, end: Position) {
        let Some(progress) = self.replicas.get_mut(&replica) else { return };
        progress.synced = progress.synced.max(end.min(self.end));
        progress.sent = progress.sent.max(progress.synced);
        let mut synced: Vec<Position> = self.replicas.values().map(|progress| progress.synced).collect();
        synced.sort_unstable_by(|a, b| b.cmp(a));
        if let Some(position) = self.durable.checked_sub(1).and_then(|last| synced.get(last)) {
            self.confirmed = self.confirmed.max(*position);
        }
    }

    /// Reports that a replica has refused this epoch: somebody has sealed it. Nothing more is taken.
    pub fn refused(&mut self) {
        self.is_deposed = true;
    }

    /// Returns whether the epoch is over.
    pub fn is_deposed(&self) -> bool {
        self.is_deposed
    }

    /// Returns up to where records are on `durable` disks, and so may be acknowledged.
    pub fn confirmed(&self) -> Position {
        self.confirmed
    }

    /// Returns the position behind the last record.
    pub fn end(&self) -> Position {
        self.end
    }

    /// Returns the replicas that lack records, with how many.
    pub fn lag(&self) -> BTreeMap<ReplicaId, u64> {
        let lags = self.replicas.iter().map(|(replica, progress)| (*replica, self.end - progress.synced));
        lags.filter(|(_, lag)| *lag > 0).collect()
    }

    /// Returns the replicas.
    pub fn replicas(&self) -> BTreeSet<ReplicaId> {
        self.replicas.keys().copied().collect()
    }
}
