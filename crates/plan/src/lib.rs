//! What to run: the sources, operators and sinks of a query, and the settings of its cycles.
//!
//! A plan is data in its shape: names, schemas, streams, columns, numbers of partitions, splits, limits and cycles can be read
//! and compared. What operators do is code: the factory that makes an operator for a partition, and the route that gives a
//! row its partition. So a plan is built by a program in each process, and is not sent from one to another.
//!
//! ```
//! use std::sync::Arc;
//! use tidemill_core::arrow::schema::{DataType, Field, Schema};
//! use tidemill_plan::{OperatorPlan, Plan};
//! # use tidemill_core::{error::Cause, Operator, Output, Rows, SnapshotReader, SnapshotWriter};
//! # struct Copy;
//! # impl Operator for Copy {
//! #     fn rows(&mut self, _: usize, _: Rows<'_>, _: &mut Output) -> Result<(), Cause> { Ok(()) }
//! #     fn snapshot(&self, _: &mut SnapshotWriter) {}
//! #     fn restore(&mut self, _: &mut SnapshotReader<'_>) -> Result<(), Cause> { Ok(()) }
//! # }
//! let schema = Arc::new(Schema::new(vec![Field::new("vid", DataType::UInt32, false)]));
//! let mut plan = Plan::new("copy");
//! let input = plan.source("input", [Arc::clone(&schema)]);
//! let copy = plan.operator(
//!     OperatorPlan::new("copy", 8, |_partition| Box::new(Copy))
//!         .input(input[0], &["vid"], tidemill_split::route_by_key::<arrow_array::types::UInt32Type>(0, 8))
//!         .output(schema),
//! );
//! plan.sink("output", copy);
//! plan.validate().unwrap();
//! ```

mod auto_split;
mod contract;
mod error;
mod operator;
mod plan;
mod stream;
mod stream_process;
mod transform;

pub use auto_split::AutoSplit;
pub use contract::{CyclePolicy, Limits};
pub use error::PlanError;
pub use operator::{Factory, InputPlan, OperatorPlan};
pub use plan::{LeftOut, Plan, SinkPlan, SourcePlan};
pub use stream::{Producer, StreamRef};
pub use stream_process::{PlaceChoice, PlaceGroup, PlaceMember, StreamProcessPlan, places_of};
pub use transform::{TransformFactory, TransformPlan};
