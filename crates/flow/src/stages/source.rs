//! A worker's part of the sources: it splits its share of each cycle and sends the parcels on their way.

use std::sync::Arc;

use tidemill_core::Batch;
use tidemill_core::counters::Counter;
use tidemill_plan::Producer;
use timely::container::NoopBuilder;
use timely::dataflow::{InputHandle, Scope};

use super::EdgeStreams;
use super::edge_writer::EdgeWriter;
use crate::board::{Board, Posted};
use crate::cycle::Cycle;
use crate::parcel::Parcels;
use crate::shared::{Failure, Shared};
use crate::topology::Topology;

/// Below this many rows, splitting them on one worker is cheaper than on all.
const ROWS_TO_SHARE: usize = 1024;

struct SourceEdge {
    source: usize,
    stream: usize,
    input: InputHandle<u64, NoopBuilder<Parcels>>,
    writer: EdgeWriter,
}

pub(crate) struct Source {
    worker: usize,
    workers: usize,
    edges: Vec<SourceEdge>,
    board: Board,
    shared: Arc<Shared>,
}

impl Source {
    pub fn new<'scope>(
        worker: usize,
        topology: &Topology,
        board: Board,
        shared: Arc<Shared>,
        scope: Scope<'scope, u64>,
        streams: &mut EdgeStreams<'scope>,
    ) -> Self {
        let mut edges = Vec::new();
        for source in 0..topology.plan.sources.len() {
            for (index, edge) in topology.edges_from(Producer::Source(source)) {
                let mut input = InputHandle::new_with_builder();
                streams[index] = Some(input.to_stream(scope));
                edges.push(SourceEdge {
                    source,
                    stream: edge.stream.port,
                    input,
                    writer: EdgeWriter::new(edge),
                });
            }
        }
        Source { worker, workers: topology.workers as usize, edges, board, shared }
    }

    /// Splits this worker's share of a cycle and moves on to the next.
    pub fn introduce(&mut self, cycle: &Cycle) -> Result<(), Failure> {
        let start_ns = self.shared.clock.now_ns();
        let posted = Posted { cut: Arc::clone(&cycle.cut), arrivals: Arc::clone(&cycle.arrivals) };
        self.board.post(posted, self.shared.committed_cycles());
        for edge in &mut self.edges {
            let batches = &cycle.streams[edge.source][edge.stream];
            for (row, base, batch) in share(batches, self.worker, self.workers, cycle.cut.cycle) {
                let mut parcels = edge.writer.parcels(&batch, base, row as u32, cycle.cut.cycle)?;
                edge.input.send_batch(&mut parcels);
            }
            edge.input.advance_to(cycle.cut.cycle + 1);
        }
        if cycle.cut.last {
            self.edges.clear();
        }
        self.shared.counters.add(Counter::SplitTime, self.shared.clock.now_ns() - start_ns);
        Ok(())
    }
}

/// A worker's share of a stream's rows in a cycle, as (first row, base of positions, batch): one range of
/// consecutive rows, so that the order of first rows is the order of positions.
fn share(batches: &[(u32, Batch)], worker: usize, workers: usize, cycle: u64) -> Vec<(usize, u32, Batch)> {
    let rows: usize = batches.iter().map(|(_, batch)| batch.len()).sum();
    let (start, end) = match rows < ROWS_TO_SHARE {
        true if cycle % workers as u64 == worker as u64 => (0, rows),
        true => (0, 0),
        false => (rows * worker / workers, rows * (worker + 1) / workers),
    };
    let mut shares = Vec::new();
    let mut first_row = 0;
    for (base, batch) in batches {
        let from = start.clamp(first_row, first_row + batch.len());
        let to = end.clamp(first_row, first_row + batch.len());
        if from < to {
            shares.push((from, *base, batch.slice(from - first_row, to - first_row)));
        }
        first_row += batch.len();
    }
    shares
}
