//! A worker's part of the sources: it splits its share of each cycle and sends the parcels.

use std::sync::Arc;

use tidemill_core::Batch;
use tidemill_core::counters::Counter;
use tidemill_plan::Producer;
use timely::container::NoopBuilder;
use timely::dataflow::{InputHandle, Scope};

use super::EdgeStreams;
use super::batch_context::BatchContext;
use super::outlets::{Outlets, nothing_sent};
use crate::error::Failure;
use crate::intake::cycle::Cycle;
use crate::run_state::RunState;
use crate::stages::cycles_in_flight::{CycleInFlight, CyclesInFlight};
use crate::topology::Topology;
use crate::transport::parcels::Parcels;

/// Below this many rows, splitting them on one worker is cheaper than on all.
const ROWS_TO_SHARE: usize = 1024;

/// A source of the plan, with the inputs of its edges into the dataflow.
struct SourceOutlets {
    outlets: Outlets,
    inputs: Vec<InputHandle<u64, NoopBuilder<Parcels>>>,
}

pub(crate) struct Source {
    worker: usize,
    /// Only on process 0, where rows come in.
    workers: usize,
    sources: Vec<SourceOutlets>,
    cycles: CyclesInFlight,
    run_state: Arc<RunState>,
}

impl Source {
    pub fn new<'scope>(
        worker: usize,
        topology: &Topology,
        cycles: CyclesInFlight,
        run_state: Arc<RunState>,
        scope: Scope<'scope, u64>,
        streams: &mut EdgeStreams<'scope>,
    ) -> Result<Self, Failure> {
        let mut sources = Vec::new();
        for (source, plan) in topology.plan.sources.iter().enumerate() {
            let outlets =
                Outlets::new(topology, Producer::Source(source), plan.streams.len(), worker, &run_state)?;
            let mut inputs = Vec::new();
            for edge in outlets.edges() {
                let mut input = InputHandle::new_with_builder();
                streams[*edge] = Some(input.to_stream(scope));
                input.advance_to(run_state.first_cycle);
                inputs.push(input);
            }
            sources.push(SourceOutlets { outlets, inputs });
        }
        Ok(Source { worker, workers: topology.layout.workers as usize, sources, cycles, run_state })
    }

    /// Splits this worker's share of a cycle and advances to the next.
    pub fn introduce(&mut self, cycle: &Cycle) -> Result<(), Failure> {
        let start_ns = self.run_state.clock.now_ns();
        let (cut, arrivals) = (Arc::clone(&cycle.cut), Arc::clone(&cycle.arrivals));
        let (splits, placements) = (Arc::clone(&cycle.splits), Arc::clone(&cycle.placements));
        let in_flight = CycleInFlight { cut, arrivals, splits, placements };
        self.cycles.add(in_flight, self.run_state.progress.committed_cycles());
        for (source, batches) in self.sources.iter_mut().zip(&cycle.streams) {
            // Numbers may have been left out.
            for input in source.inputs.iter_mut().filter(|input| *input.time() < cycle.cut.cycle) {
                input.advance_to(cycle.cut.cycle);
            }
            for (stream, batches) in batches.iter().enumerate() {
                for (row, base, batch) in share(batches, self.worker, self.workers, cycle.cut.cycle) {
                    let context = BatchContext {
                        cut: &cycle.cut,
                        splits: &cycle.splits,
                        placements: &cycle.placements,
                        base,
                        chunk: row as u32,
                    };
                    source.send(stream, &batch, &context, &self.run_state)?;
                }
            }
            for input in &mut source.inputs {
                input.advance_to(cycle.cut.cycle + 1);
            }
        }
        if cycle.cut.last {
            self.sources.clear();
        }
        self.run_state.counters.add(Counter::SplitTime, self.run_state.clock.now_ns() - start_ns);
        Ok(())
    }
}

impl SourceOutlets {
    fn send(
        &mut self,
        stream: usize,
        batch: &Batch,
        context: &BatchContext<'_>,
        run_state: &RunState,
    ) -> Result<(), Failure> {
        let mut sent = nothing_sent(self.inputs.len());
        self.outlets.write(stream, batch, context, run_state, &mut sent)?;
        for (input, mut parcels) in self.inputs.iter_mut().zip(sent) {
            if !parcels.0.is_empty() {
                input.send_batch(&mut parcels);
            }
        }
        Ok(())
    }
}

/// A worker's share of a stream's rows in a cycle, as (first row, base of positions, batch): one range of consecutive
/// rows, so that the order of first rows is the order of positions.
fn share(batches: &[(u32, Batch)], worker: usize, workers: usize, cycle: u64) -> Vec<(usize, u32, Batch)> {
    let rows: usize = batches.iter().map(|(_, batch)| batch.len()).sum();
    let (start, end) = if rows >= ROWS_TO_SHARE {
        (rows * worker / workers, rows * (worker + 1) / workers)
    } else if cycle % workers as u64 == worker as u64 {
        (0, rows)
    } else {
        (0, 0)
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
