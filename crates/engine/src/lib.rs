//! The public Rust API of Tidemill. Applications use this crate and no other part of the engine.
//!
//! A query is a [`Plan`] of sources, operators and sinks. [`Engine::run`] starts it. Push events into its gateways;
//! results go to its sinks, one or more whole cycles at a time.
//!
//! ```
//! use std::ops::RangeInclusive;
//! use std::sync::{Arc, Mutex};
//! use tidemill_engine::arrow::array::{RecordBatch, UInt32Array, types::UInt32Type};
//! use tidemill_engine::arrow::schema::{DataType, Field, Schema};
//! use tidemill_engine::{
//!     Batch, Cause, Chunk, CycleOutput, Engine, Operator, OperatorPlan, Output, Plan, Rows, Sink, SnapshotReader,
//!     SnapshotWriter, route_by_key,
//! };
//!
//! /// Sums the values of each key.
//! #[derive(Default)]
//! struct RunningSum(std::collections::BTreeMap<u32, u64>);
//!
//! impl Operator for RunningSum {
//!     fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
//!         let (keys, values) = (rows.column::<UInt32Type>(0), rows.column::<UInt32Type>(1));
//!         for row in 0..rows.len() {
//!             let sum = self.0.entry(keys[row]).or_default();
//!             *sum += u64::from(values[row]);
//!             output.port(0).push(rows.positions()[row], (keys[row], *sum));
//!         }
//!         Ok(())
//!     }
//!     fn snapshot(&self, _writer: &mut SnapshotWriter) {}
//!     fn restore(&mut self, _reader: &mut SnapshotReader<'_>) -> Result<(), Cause> { Ok(()) }
//! }
//!
//! /// Collects rows in memory.
//! #[derive(Clone, Default)]
//! struct Collected(Arc<Mutex<Vec<RecordBatch>>>);
//!
//! impl Sink for Collected {
//!     fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
//!         self.0.lock().unwrap().extend(output.streams.into_iter().flatten().map(|batch| batch.rows));
//!         Ok(())
//!     }
//!     fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> { Ok(()) }
//! }
//!
//! let field = |name: &str, data_type| Field::new(name, data_type, false);
//! let input_schema = Arc::new(Schema::new(vec![field("key", DataType::UInt32), field("value", DataType::UInt32)]));
//! let output_schema = Arc::new(Schema::new(vec![field("key", DataType::UInt32), field("sum", DataType::UInt64)]));
//!
//! let mut plan = Plan::new("sums");
//! let input = plan.source("input", [Arc::clone(&input_schema)]);
//! let sums = plan.operator(
//!     OperatorPlan::new("running sum", 16, |_partition| Box::new(RunningSum::default()))
//!         .input(input[0], &["key", "value"], route_by_key::<UInt32Type>(0, 16))
//!         .output(output_schema),
//! );
//! plan.sink("collected", sums);
//!
//! let collected = Collected::default();
//! let mut running = Engine::new().workers(2).run(plan, vec![Box::new(collected.clone())])?;
//! let gateway = running.gateway(0).unwrap();
//! let columns = vec![Arc::new(UInt32Array::from(vec![1, 2, 1])) as _, Arc::new(UInt32Array::from(vec![10, 20, 30])) as _];
//! let rows = RecordBatch::try_new(input_schema, columns).unwrap();
//! let batch = Batch::from_source(rows, vec![0, 1, 2].into());
//! gateway.push(Chunk { streams: vec![Some(batch)], events: 3, watermark: 0, arrived_ns: None, idle: false }).unwrap();
//! drop(gateway); // the input has ended
//! let summary = running.join()?;
//! assert_eq!(summary.per_event.count(), 3);
//!
//! let rows = collected.0.lock().unwrap();
//! let sums: Vec<u64> = rows.iter().flat_map(|rows| {
//!     use tidemill_engine::arrow::array::{cast::AsArray, types::UInt64Type};
//!     rows.column(1).as_primitive::<UInt64Type>().values().to_vec()
//! }).collect();
//! assert_eq!(sums, [10, 20, 40]);
//! # Ok::<(), tidemill_engine::FlowError>(())
//! ```

mod admission;
mod chunk_builder;
mod clock;
mod connection_times;
mod durable;
mod engine;
mod event_times;
mod feed;
mod feed_entry;
mod feed_settings;
mod feed_state;
mod feeder;
mod in_time;
mod machine_memory;
mod past;
mod source_reader;

#[cfg(test)]
#[path = "../tests/connections/mod.rs"]
mod connection_tests;

pub use chunk_builder::ChunkBuilder;
pub use clock::{
    Beginning, ClockRun, DatabaseClock, DatabaseCut, DurableClockRun, DurableUse, Held, JournalStatus,
    LogStatus, OpenSource, QueryFolder, QueryLag, QueryNeeds, QueryPosition, RING_BYTES_MAX, RetainedRows,
    SnapshotStatus, SourceKey, SourceLogStatus, SourceTransaction, SourceUse,
};
pub use durable::{
    AddedSink, ChangedSinks, Durability, DurableRun, DurableSource, Maintenance, Recovered, Repair,
    ReplaceFrom, Replacement, SinkQuery, Skip, SyncPolicy, Takeover, find_repair, find_replacement,
    find_skip,
};
pub use engine::{Engine, Launch};
pub use feed::Feed;
pub use feed_settings::{AdmissionClock, EventTime, FeedSettings};
pub use feed_state::{FeedObserver, FeedStatus};
pub use machine_memory::machine_memory_bytes;
pub use past::{
    CycleInput, OperatorRows, Past, PastCycle, PastQuery, PastRun, PastSource, PastStart, PastState,
};
pub use tidemill_core::counters::Counter;
pub use tidemill_core::error::{Cause, Fault, OperatorError, SinkError, chain};
pub use tidemill_core::interruption;
pub use tidemill_core::latency::ResponseTimes;
pub use tidemill_core::memory::bytes_of_column;
pub use tidemill_core::memory::{Bytes, bytes_of_rows};
pub use tidemill_core::output::Port;
pub use tidemill_core::sink::Arrivals;
pub use tidemill_core::snapshot::{Snapshot, StateSource};
pub use tidemill_core::{
    Admission, Batch, Clock, CommitGuard, Cut, CutLog, CycleOutput, DelegatingSink, DelegatingSource,
    Expression, FaultLog, Faults, GroupMembership, Guarantee, Heard, ManualClock, MemoryAccount,
    MemoryBudget, MemoryCutLog, Operator, Output, PartitionFunction, Polled, Progress, RecordContent,
    Refused, Request, Rows, Sink, SinkOutage, SnapshotReader, SnapshotWriter, Source, SourceOffset,
    SourceOffsets, SourceThreads, SplitChange, State, StateLimit, StateRows, Stretch, SystemClock,
    ThreadGroup, ThreadTime, TimeOfDay, Transform, Transformed, arrow, changes, fields, prefetch,
};
pub use tidemill_flow::{
    Chunk, CostExceeded, CostMeasurement, CycleCosts, DeadlineMiss, Failure, FlowError, Gateway, HeldBack,
    Interrupt, Observer, PartitionMove, PoolEntry, Rebalancing, Replan, Resume, Running, SinkStatus,
    SizeCosts, Snapshots, SplitStatus, Status, Stopped, Summary, Work, WorkerProcess, WorkerProcesses,
    own_program,
};
pub use tidemill_journal::{
    CatalogJournal, ChunkPlace, Disk, Epoch, Journal, LockGuard, LostRows, Medium, MediumFile, Positions,
    Record, Skips, StoredChunks, StoredRowsFile, StreamSettings, database, inspect, set_aside,
};
pub use tidemill_plan::{
    AutoSplit, CyclePolicy, Limits, OperatorPlan, PlaceChoice, PlaceGroup, PlaceMember, Plan, PlanError,
    Producer, SourcePlan, StreamProcessPlan, StreamRef, TransformPlan, places_of,
};
pub use tidemill_realtime::{
    Affinity, NICENESS_MAX, Policy, Pool, PoolError, PoolObserver, PoolSettings, PoolStatus, Role, TakenIn,
    WhatRan, WhenEmpty, analysis, set_niceness,
};
pub use tidemill_split::choose::{Choice, choose, compare};
pub use tidemill_split::cost::{Proportions, RouterCosts, SplitterCosts};
pub use tidemill_split::predict::{PredictedStage, Prediction, predict};
pub use tidemill_split::profile::{SplitProfile, profile};
pub use tidemill_split::window_search::WindowComparison;
pub use tidemill_split::{
    BROADCAST, LatticeRule, OMIT, Route, Shape, SplitPlan, SplitPlanError, SplittersBy, route_by_hash,
    route_by_key, route_by_value, route_or_broadcast, spatial,
};
