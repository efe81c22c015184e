//! The Timely operators that a plan turns into: a source, a stage per operator, a stage per sink.

pub(crate) mod batch_context;
pub(crate) mod committer;
pub(crate) mod cycle_inputs;
pub(crate) mod cycles_in_flight;
pub(crate) mod edge_writer;
pub(crate) mod made_pieces;
pub(crate) mod operator_stage;
pub(crate) mod outlets;
pub(crate) mod partition_moves;
pub(crate) mod partition_table;
pub(crate) mod regroup;
pub(crate) mod sink_stage;
pub(crate) mod source;
pub(crate) mod splitter_stage;
pub(crate) mod state_meter;

use std::sync::Arc;

use timely::dataflow::Stream;

use crate::run_state::RunState;
use crate::stages::cycles_in_flight::CyclesInFlight;
use crate::topology::Topology;
use crate::transport::bulk_channels::BulkChannels;
use crate::transport::parcels::Parcels;

/// The context in which a stage is built: the plan, and what the worker and the query share.
pub(crate) struct StageContext<'a> {
    pub topology: &'a Topology,
    pub worker: usize,
    pub cycles: CyclesInFlight,
    pub run_state: &'a Arc<RunState>,
    pub bulk: &'a Arc<BulkChannels>,
}

/// The stream of each edge, until its consumer takes it.
pub(crate) type EdgeStreams<'scope> = Vec<Option<Stream<'scope, u64, Parcels>>>;
