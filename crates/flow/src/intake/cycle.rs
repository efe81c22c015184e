//! A closed cycle.

use std::sync::Arc;

use tidemill_core::sink::Arrivals;
use tidemill_core::{Batch, Cut};

use crate::intake::gateway::Chunk;
use crate::placement::placements::CyclePlacements;
use crate::run_state::RunState;
use crate::run_state::splits::CycleSplitPlans;

/// For each stream of a source: batches with the position of their chunk in the cycle, ascending.
pub(crate) type SourceBatches = Vec<Vec<(u32, Batch)>>;

/// A closed cycle on its way to the workers.
pub(crate) struct Cycle {
    pub cut: Arc<Cut>,
    pub arrivals: Arc<Arrivals>,
    /// How each edge is split.
    pub splits: CycleSplitPlans,
    /// Where the partitions of each operator are.
    pub placements: CyclePlacements,
    /// The streams of each source.
    pub streams: Vec<SourceBatches>,
}

/// Adds the rows of a chunk to a cycle, behind those that it has.
pub(crate) fn add_chunk(chunk: Chunk, streams: &mut SourceBatches, arrivals: &mut Arrivals) {
    arrivals.chunks.push((arrivals.events, chunk.arrived_ns.unwrap_or(0)));
    for (stream, batch) in streams.iter_mut().zip(chunk.streams) {
        stream.extend(batch.filter(|batch| !batch.is_empty()).map(|batch| (arrivals.events, batch)));
    }
    arrivals.events += chunk.events;
}

impl Cycle {
    /// The cycle of a cut, which is logged: from here on it is in flight.
    pub fn begin(cut: Cut, arrivals: Arrivals, streams: Vec<SourceBatches>, run_state: &RunState) -> Cycle {
        run_state.snapshots.announce(&cut);
        let splits = run_state.splits_at_cut(&cut);
        let placements = run_state.placements_at_cut(&cut);
        let (cut, arrivals) = (Arc::new(cut), Arc::new(arrivals));
        let cycle = Cycle { cut, arrivals, splits, placements, streams };
        run_state.progress.closed(&cycle.cut, &cycle.arrivals);
        cycle
    }
}
