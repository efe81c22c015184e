//! The sending end of an edge.

use tidemill_core::error::Cause;
use tidemill_core::{Batch, PartitionedBatch};
use tidemill_split::Splitter;

use crate::panics::guard;
use crate::parcel::{Parcel, Parcels};
use crate::shared::Failure;
use crate::topology::{Edge, EdgeKind};

/// Turns batches into parcels for an edge's consumer.
pub(crate) enum EdgeWriter {
    Split { splitter: Splitter, name: String },
    Whole { worker: u32 },
    Empty,
}

impl EdgeWriter {
    pub fn new(edge: &Edge) -> Self {
        match &edge.kind {
            EdgeKind::Empty => EdgeWriter::Empty,
            EdgeKind::Whole { worker } => EdgeWriter::Whole { worker: *worker },
            EdgeKind::Split { route, placement, columns, name } => EdgeWriter::Split {
                splitter: Splitter::new(route.clone(), placement.clone(), columns.clone()),
                name: name.clone(),
            },
        }
    }

    /// The parcels of a batch of a cycle; positions get `base` added.
    pub fn parcels(&mut self, batch: &Batch, base: u32, chunk: u32, cycle: u64) -> Result<Parcels, Failure> {
        match self {
            EdgeWriter::Empty => Ok(Parcels::default()),
            EdgeWriter::Whole { worker } => {
                let mut batch = batch.clone();
                if base > 0 {
                    batch.positions = batch.positions.iter().map(|position| position + base).collect();
                }
                let rows = PartitionedBatch { batch, runs: Vec::new() };
                Ok(Parcels(vec![Parcel { target: *worker, chunk, rows }]))
            }
            EdgeWriter::Split { splitter, name } => {
                let split = || splitter.split(batch, base).map_err(|error| Cause::User(error.to_string()));
                let shares = guard(split).map_err(|cause| Failure::Engine {
                    part: format!("input of operator '{name}', cycle {cycle}"),
                    cause,
                })?;
                let parcel =
                    |share: tidemill_split::Share| Parcel { target: share.worker, chunk, rows: share.rows };
                Ok(Parcels(shares.into_iter().map(parcel).collect()))
            }
        }
    }
}
