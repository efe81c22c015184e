//! A replicated log: a sequence of records of which each counts once `durable` nodes have it on disk.
//!
//! The log is cut into **epochs**. An epoch has one writer and a fixed set of replicas, which the coordinator records
//! ([`LogRecord`]). When its writer is lost or must change:
//!
//! 1. Somebody **seals** the epoch at enough of its replicas ([`Seal`]): from then on the writer finds fewer than `durable`
//!    replicas that take records, so it can acknowledge nothing more, whether it knows it or not.
//! 2. From their answers follows an end behind everything that was ever acknowledged.
//! 3. The records that may not be on `durable` disks yet, usually the last few, are copied until they are.
//! 4. One compare-and-set closes the epoch at that end and opens the next one ([`LogRecord::close`]). If several nodes seal at
//!    once, it decides who writes, and with which end.
//!
//! | part | is told | says |
//! |---|---|---|
//! | [`EpochWriter`] | records, answers of replicas | what to send to whom, what is acknowledged |
//! | [`Replica`] | appends, seals, copies, ends of epochs | what to write or remove, and what to answer once it is synced |
//! | [`Seal`] | answers of replicas and copies | whom to ask, where the epoch ends, what to copy, when it may be closed |
//! | [`LogRecord`] | a seal that is complete | the record to propose to the coordinator |
//!
//! Positions count records from the beginning of the log and have no gaps.

mod record;
mod replica;
mod seal;
mod writer;

use std::ops::Range;

pub use record::{ClosedEpoch, LogRecord, OpenEpoch, Tail};
pub use replica::{AppendDecision, EpochCopy, Refusal, Replica};
pub use seal::{Seal, SealAnswer};
pub use writer::EpochWriter;

use crate::members::NodeId;

/// The index of a record in its log.
pub type Position = u64;

/// Consecutive records, by their positions.
pub type Positions = Range<Position>;

/// The number of an epoch; the first is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// A disk of a node. A node whose disk was lost comes back with another one, so nobody takes it for the replica that it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId {
    /// The node.
    pub node: NodeId,
    /// The identity that its folder got when it was created.
    pub disk: u64,
}
