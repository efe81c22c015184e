//! From a plan to a running dataflow, in cycles. The only crate that names Timely.
//!
//! A query may run over several processes of one machine ([`Processes`]); the first one has gateways and sinks.
//!
//! Threads: the caller's own threads push into [`Gateway`]s; `workers` worker threads, which split, compute
//! and exchange; one thread per sink, which may block. Worker 0 also closes the cycles ([`cutter`]).
//! A cycle's number is its Timely timestamp; a frontier that has passed a number means that the cycle is
//! complete. All queues are bounded by credits: cycles in flight, and bytes of results not yet committed.

mod board;
mod chooser;
mod committer;
mod cutter;
mod cycle;
mod distribute;
mod gateway;
mod lanes;
mod launch;
mod panics;
mod parcel;
mod partition_table;
mod processes;
mod regroup;
mod resume;
mod running;
mod shared;
mod snapshot_desk;
mod split_desk;
mod split_status;
mod stages;
mod status;
mod topology;
mod wire;
mod work;
mod worker;

pub use gateway::{Chunk, Gateway, Stopped};
pub use processes::{Member, Processes};
pub use resume::{Replay, Resume, SinkProgress};
pub use running::{FlowError, Running, Settings, Snapshots, start};
pub use shared::Failure;
pub use split_desk::Replan;
pub use split_status::SplitStatus;
pub use status::{Status, Summary};
pub use work::Work;
