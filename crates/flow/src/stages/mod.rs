//! The Timely operators that a plan becomes: a source, a stage per operator, a stage per sink.

pub(crate) mod edge_writer;
pub(crate) mod operator_stage;
pub(crate) mod sink_stage;
pub(crate) mod source;

use timely::dataflow::Stream;

use crate::parcel::Parcels;

/// The stream of each edge, until its consumer takes it.
pub(crate) type EdgeStreams<'scope> = Vec<Option<Stream<'scope, u64, Parcels>>>;
