//! What the nodes of a cluster agree on, and how.
//!
//! Nothing joins a cluster yet: this crate has the parts that decide, and the store in which decisions are recorded.
//!
//! | part | what it is | has I/O |
//! |---|---|---|
//! | [`coordinator`] | records that are changed by compare-and-set, in a folder, in PostgreSQL or in etcd | yes |
//! | [`members`] | who is alive, judged by heartbeats and the observer's own clock | no |
//! | [`placement`] | which member holds which partition, moving as few as possible | no |
//! | [`generation`] | a fixed set of members, how it ends at a cut, and what the next one is | no |
//! | [`fence`] | what an older generation may no longer do to a sink | no |
//! | [`log`] | a replicated log: epochs with one writer each, copies that count, and the seal between two epochs | no |
//!
//! The parts without I/O are told what has happened and say what may or must happen next. They have no thread, no clock and
//! no disk, so a simulation drives them through thousands of schedules of crashes, cuts and delays
//! (`tests/integration/simulation`). Decisions 0196 and 0197 give the reasons.

pub mod coordinator;
pub mod fence;
pub mod generation;
pub mod log;
pub mod members;
pub mod placement;
