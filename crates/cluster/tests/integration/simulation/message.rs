//! What travels between nodes, the coordinator and the sink.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_cluster::log::{Epoch, LogRecord, Position, Positions, ReplicaId, SealAnswer};

/// Whom a message is for. Nodes are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    Node(u32),
    Coordinator,
    Sink,
}

/// A row of the log. Each is written once.
pub type Row = u64;

/// A record of the coordinator with its revision, and who wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub revision: u64,
    pub stamp: u64,
    pub log: Arc<LogRecord>,
}

#[derive(Clone, Debug)]
pub enum Message {
    Heartbeat { incarnation: u64, disk: u64, revision: u64 },
    Append { epoch: Epoch, start: Position, from: Position, rows: Vec<Row>, confirmed: Position, disk: u64 },
    Appended { epoch: Epoch, replica: ReplicaId, end: Position },
    Gap { epoch: Epoch, replica: ReplicaId },
    Refused { epoch: Epoch },
    Seal { epoch: Epoch, start: Position, disk: u64 },
    Sealed { epoch: Epoch, replica: ReplicaId, answer: SealAnswer },
    Fetch { epoch: Epoch, positions: Positions, disk: u64 },
    Fetched { epoch: Epoch, rows: BTreeMap<Position, Row> },
    Copy { epoch: Epoch, from: Position, rows: Vec<Row>, disk: u64 },
    Copied { epoch: Epoch, replica: ReplicaId, end: Position },
    Read,
    Change { expected: u64, stamp: u64, log: Arc<LogRecord> },
    Current(Stored),
    TakeOver { generation: u64 },
    Stage { generation: u64, from: u64, rows: Vec<Row> },
    Commit { generation: u64, life: (u32, u64), end: u64 },
    SinkState { generation: u64, staged: u64, committed: u64 },
}
