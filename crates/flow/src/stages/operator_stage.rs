//! The stage of an operator: collects a cycle's rows, calls the partitions, sends on what they wrote.

use std::sync::Arc;

use tidemill_core::counters::Counter;
use tidemill_core::error::Cause;
use tidemill_core::snapshot::StateSource;
use tidemill_core::{Batch, OperatorError, Output};
use tidemill_plan::Producer;
use tidemill_split::order::Sorter;
use timely::container::NoopBuilder;
use timely::dataflow::Scope;
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;

use super::cycle_inputs::{CycleInputs, complete_below};
use super::edge_writer::EdgeWriter;
use super::{EdgeStreams, Site};
use crate::board::Posted;
use crate::distribute::by_target;
use crate::parcel::Parcels;
use crate::partition_table::PartitionTable;
use crate::regroup::{InputOrder, regroup};
use crate::shared::{Failure, Shared};
use crate::topology::Consumer;

struct OperatorStage {
    name: String,
    shared: Arc<Shared>,
    table: PartitionTable,
    output: Output,
    ports: usize,
    /// For each outgoing edge, the port that it reads, and how it is written.
    writers: Vec<(usize, EdgeWriter)>,
    orders: Vec<InputOrder>,
    inputs: CycleInputs,
    sorter: Sorter,
    worker: u32,
}

/// Adds the stage of an operator to a worker's dataflow.
pub(crate) fn build<'scope>(
    scope: Scope<'scope, u64>,
    site: &Site<'_>,
    operator: usize,
    state: Option<&dyn StateSource>,
    streams: &mut EdgeStreams<'scope>,
) -> Result<(), OperatorError> {
    let Site { topology, worker, board, shared } = site;
    let plan = &topology.plan.operators[operator];
    // Before the builder is made: Timely panics if one is dropped, which would hide the error.
    let partitions = topology.placements[operator].partitions_of(*worker as u32);
    let table = PartitionTable::new(plan, partitions, state)?;
    let error = |cause| OperatorError { operator: plan.name.clone(), partition: 0, cycle: 0, cause };
    let output = Output::new(&plan.outputs).map_err(error)?;
    let mut builder = OperatorBuilder::new(plan.name.clone(), scope);
    let mut orders = Vec::new();
    let mut inputs = Vec::new();
    for input in 0..plan.inputs.len() {
        let edge = topology.edge_to(Consumer::Operator { operator, input }).expect("every input has an edge");
        orders.push(topology.order_of(edge));
        let stream = streams[edge].take().expect("producers are built before their consumers");
        inputs.push(builder.new_input(stream, by_target()));
    }
    let mut writers = Vec::new();
    let mut outputs = Vec::new();
    for (index, edge) in topology.edges_from(Producer::Operator(operator)) {
        let (output, stream) = builder.new_output::<Parcels>();
        streams[index] = Some(stream);
        outputs.push(OutputBuilder::<u64, NoopBuilder<Parcels>>::from(output));
        writers.push((edge.stream.port, EdgeWriter::new(edge)));
    }
    let mut stage = OperatorStage {
        name: plan.name.clone(),
        shared: Arc::clone(shared),
        table,
        output,
        ports: plan.outputs.len(),
        writers,
        orders,
        inputs: CycleInputs::new(plan.inputs.len(), board.clone(), Arc::clone(shared)),
        sorter: Sorter::default(),
        worker: *worker as u32,
    };
    builder.build(move |mut capabilities| {
        move |frontiers| {
            for (index, input) in inputs.iter_mut().enumerate() {
                input.for_each(|time, parcels| {
                    stage.inputs.receive(index, *time.time(), std::mem::take(parcels));
                });
            }
            let complete = complete_below(frontiers);
            while let Some(posted) = stage.inputs.next_complete(complete) {
                let sent = match stage.run_cycle(&posted) {
                    Ok(sent) => sent,
                    Err(failure) => return stage.shared.fail(failure),
                };
                for ((output, capability), mut parcels) in outputs.iter_mut().zip(&mut capabilities).zip(sent)
                {
                    if !parcels.0.is_empty() {
                        output.activate().session_with_builder(capability).give_container(&mut parcels);
                    }
                    capability.downgrade(&stage.inputs.next_cycle());
                }
            }
            if complete.is_none() {
                capabilities.clear();
            }
        }
    });
    Ok(())
}

impl OperatorStage {
    /// Runs the next cycle; returns what goes out on each edge.
    fn run_cycle(&mut self, posted: &Posted) -> Result<Vec<Parcels>, Failure> {
        let start_ns = self.shared.clock.now_ns();
        let parcels = self.inputs.take();
        let positions_end = posted.arrivals.events + 1;
        let mut inputs = Vec::with_capacity(parcels.len());
        for (parcels, order) in parcels.into_iter().zip(&self.orders) {
            inputs.push(regroup(parcels, *order, positions_end, &mut self.sorter));
        }
        self.output.begin_cycle(posted.arrivals.events);
        self.table.run_cycle(&posted.cut, &inputs, &mut self.output)?;
        if posted.cut.snapshot {
            let states = self.table.snapshot(posted.cut.cycle)?;
            self.shared.snapshots.contribute(&self.name, states);
        }
        let sent = self.write();
        self.inputs.advance();
        self.shared.counters.add(Counter::OperatorTime, self.shared.clock.now_ns() - start_ns);
        sent
    }

    /// Takes the rows off all ports, those included that no one reads, and sends on what is read.
    fn write(&mut self) -> Result<Vec<Parcels>, Failure> {
        let batches: Vec<_> = (0..self.ports).map(|port| self.output.finish(port)).collect();
        for batch in batches.iter().flatten() {
            self.check_positions(batch)?;
        }
        let mut sent = Vec::with_capacity(self.writers.len());
        for (port, writer) in &mut self.writers {
            sent.push(match batches.get(*port) {
                Some(Some(batch)) => writer.parcels(batch, 0, self.worker, self.inputs.next_cycle())?,
                _ => Parcels::default(),
            });
        }
        Ok(sent)
    }

    /// Rows beyond the end of the cycle have no place in the order of the merge, and would be lost there.
    fn check_positions(&self, batch: &Batch) -> Result<(), OperatorError> {
        let last = self.output.end_position();
        if batch.positions.iter().fold(0, |most, position| most.max(*position)) <= last {
            return Ok(());
        }
        let row = batch.positions.iter().position(|position| *position > last).unwrap_or(0);
        let cause = Cause::Bug(format!(
            "the operator wrote a row at position {}, but the last position of the cycle is {last}",
            batch.positions[row]
        ));
        let partition = batch.origins.get(row).copied().unwrap_or(0);
        Err(OperatorError { operator: self.name.clone(), partition, cycle: self.inputs.next_cycle(), cause })
    }
}
