//! What the nodes of a cluster agree on, and how.
//!
//! Nothing joins a cluster yet: this crate has the parts that decide, and the store in which decisions are recorded.
//!
//! | part | what it is | has I/O |
//! |---|---|---|
//! | [`coordinator`] | records that are changed by compare-and-set, in a folder, in PostgreSQL or in etcd | yes |
//!
//! Decision 0196 gives the reasons.

pub mod coordinator;
