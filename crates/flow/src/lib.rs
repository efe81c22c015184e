//! Turns a plan into a running dataflow that works in cycles. The only crate that names Timely.
//!
//! A query may run over several processes of one machine ([`WorkerProcesses`]); the first process has the gateways and sinks.
//!
//! Threads: the caller's own threads push into [`Gateway`]s; `workers` worker threads split, compute and exchange; each
//! sink has one thread, which may block. Worker 0 also closes the cycles ([`intake::cutter`]). A cycle's number is its
//! Timely timestamp: a frontier that has passed a number means that the cycle is complete. Credits bound all queues:
//! cycles in flight, and bytes of results not yet committed.

mod error;
mod intake;
mod members;
mod panics;
mod placement;
mod run;
mod run_state;
mod snapshots;
mod split_optimizer;
mod split_status;
mod stages;
mod status;
mod threads;
mod topology;
mod transport;
mod window_tuner;
mod workers;

pub use error::{Failure, FlowError};
pub use intake::gateway::{Chunk, Gateway, Interrupt, Stopped};
pub use intake::given::{Given, GivenCycle, GivenCycles, Waker};
pub use intake::held_back::HeldBack;
pub use intake::pool_entry::{PoolEntry, SourceMembership};
pub use intake::resume::{Replay, Resume, SinkProgress};
pub use members::{WorkerProcess, WorkerProcesses, own_program};
pub use panics::guard;
pub use placement::placements::PartitionMove;
pub use placement::rebalancing::Rebalancing;
pub use run::{Running, Settings, start};
pub use run_state::costs::CostMeasurement;
pub use run_state::cycle_costs::{CostExceeded, CycleCosts, SizeCosts};
pub use run_state::misses::DeadlineMiss;
pub use run_state::splits::Replan;
pub use run_state::work::Work;
pub use snapshots::Snapshots;
pub use split_status::SplitStatus;
pub use status::{Observer, SinkStatus, Status, Summary};
