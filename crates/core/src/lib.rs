//! Shared by every part of Tidemill: cycles and their cuts, batches, the operator and sink traits, errors, clocks,
//! counters and response times. This crate names neither Timely nor DataFusion, and does no input or output.
//!
//! Everything moves in *cycles* (see [`cut`]). A cycle is a numbered batch of events between two cuts of the input.
//! Within a cycle every event has a *position*, and rows caused by an event carry its position ([`batch`]). So rows
//! have one defined order, with any number of workers.

mod bad_record;
pub mod batch;
pub mod changes;
pub mod clock;
pub mod column;
pub mod concatenate;
pub mod connections;
pub mod counters;
pub mod cut;
mod delegating_sink;
mod delegating_source;
pub mod error;
pub mod expression;
pub mod fault_log;
pub mod fields;
pub mod interruption;
pub mod latency;
pub mod memory;
mod merged_rows;
mod notices;
pub mod operator;
mod outage;
pub mod output;
pub mod partition_function;
pub mod prefetch;
mod refused_row;
pub mod sink;
mod sink_outage;
pub mod snapshot;
pub mod source;
pub mod source_threads;
pub mod state;
pub mod state_rows;
pub mod transform;

pub use bad_record::{BadRecord, BadRecords, RecordContent};
pub use batch::{Batch, PartitionedBatch, Rows, Run, SharedRows};
pub use clock::{Clock, ManualClock, SystemClock, ThreadTime, TimeOfDay};
pub use connections::{Heard, Stretch};
pub use cut::{Cut, CutLog, MemoryCutLog, SplitChange};
pub use delegating_sink::DelegatingSink;
pub use delegating_source::DelegatingSource;
pub use error::{Cause, Fault, OperatorError, SinkError};
pub use expression::Expression;
pub use fault_log::FaultLog;
pub use memory::StateLimit;
pub use memory::{MemoryAccount, MemoryBudget};
pub use merged_rows::{MergedRows, Side};
pub use notices::Notices;
pub use operator::Operator;
pub use outage::{Outage, OutageReport};
pub use output::Output;
pub use partition_function::PartitionFunction;
pub use refused_row::RefusedRow;
pub use sink::{CommitGuard, CycleOutput, Guarantee, Sink};
pub use sink_outage::SinkOutage;
pub use snapshot::{SnapshotReader, SnapshotWriter};
pub use source::{
    Admission, Faults, Polled, Progress, Refused, Request, Source, SourceOffset, SourceOffsets,
};
pub use source_threads::{GroupMembership, SourceThreads, ThreadGroup};
pub use state::State;
pub use state_rows::StateRows;
pub use transform::{Transform, Transformed};

/// The Arrow crates whose types appear in this interface, so that users need not match versions themselves.
pub mod arrow {
    pub use arrow_array as array;
    pub use arrow_buffer as buffer;
    pub use arrow_schema as schema;
}
