//! The stage of an operator: collects a cycle's rows, calls the partitions, sends their output.

use std::sync::Arc;

use tidemill_core::counters::Counter;
use tidemill_core::error::Cause;
use tidemill_core::snapshot::StateSource;
use tidemill_core::{Batch, Clock, OperatorError, Output, PartitionedBatch, ThreadTime};
use tidemill_plan::Producer;
use tidemill_split::order::Sorter;
use timely::container::NoopBuilder;
use timely::dataflow::Scope;
use timely::dataflow::operators::generic::OutputBuilder;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;

use super::batch_context::BatchContext;
use super::cycle_inputs::{CycleInputs, complete_below};
use super::outlets::{Outlets, nothing_sent};
use super::{EdgeStreams, StageContext, splitter_stage};
use crate::error::Failure;
use crate::panics::guard_size;
use crate::run_state::RunState;
use crate::run_state::work::Part;
use crate::stages::cycles_in_flight::CycleInFlight;
use crate::stages::partition_moves::PartitionMoves;
use crate::stages::partition_table::PartitionTable;
use crate::stages::regroup::regroup;
use crate::stages::state_meter::StateMeter;
use crate::topology::Consumer;
use crate::topology::InputOrder;
use crate::transport::distribute::by_target;
use crate::transport::parcels::Parcels;

struct OperatorStage {
    name: String,
    run_state: Arc<RunState>,
    table: PartitionTable,
    moves: PartitionMoves,
    output: Output,
    ports: usize,
    outlets: Outlets,
    operator: usize,
    orders: Vec<InputOrder>,
    edges: Vec<usize>,
    inputs: CycleInputs,
    sorter: Sorter,
    worker: u32,
}

/// Adds the stage of an operator to a worker's dataflow.
pub(crate) fn build<'scope>(
    scope: Scope<'scope, u64>,
    context: &StageContext<'_>,
    operator: usize,
    state: Option<&dyn StateSource>,
    streams: &mut EdgeStreams<'scope>,
) -> Result<(), Failure> {
    let StageContext { topology, worker, run_state, .. } = context;
    let plan = &topology.plan.operators[operator];
    // Before the builder is made: Timely panics if one is dropped, which would hide the error.
    let partitions = topology.placements[operator].partitions_of(*worker as u32);
    let sources = topology.plan.sources_of_operator(operator);
    let meter = StateMeter::new(run_state, operator, partitions.len());
    let table = PartitionTable::new(plan, partitions, sources, state, meter)?;
    run_state.set_clock_timer(operator, *worker as u32, table.next_clock_timer());
    let outlets =
        Outlets::new(topology, Producer::Operator(operator), plan.outputs.len(), *worker, run_state)?;
    let mut builder = OperatorBuilder::new(plan.name.clone(), scope);
    let (mut orders, mut edges) = (Vec::new(), Vec::new());
    let mut inputs = Vec::new();
    for input in 0..plan.inputs.len() {
        let edge = topology.edge_to(Consumer::Operator { operator, input }).expect("every input has an edge");
        orders.push(topology.order_of(edge));
        edges.push(edge);
        let stream = streams[edge].take().expect("producers are built before their consumers");
        let stream = splitter_stage::build(context, edge, stream);
        inputs.push(builder.new_input(stream, by_target(topology.layout, run_state, context.bulk)));
    }
    let mut outputs = Vec::new();
    for edge in outlets.edges() {
        let (output, stream) = builder.new_output::<Parcels>();
        streams[*edge] = Some(stream);
        outputs.push(OutputBuilder::<u64, NoopBuilder<Parcels>>::from(output));
    }
    let activator = scope.worker().sync_activator_for(builder.operator_info().address.to_vec());
    run_state.handover.register(operator, *worker as u32, activator);
    let mut stage = OperatorStage {
        name: plan.name.clone(),
        run_state: Arc::clone(run_state),
        table,
        moves: PartitionMoves::new(run_state, operator, *worker as u32),
        output: Output::new(&plan.outputs),
        ports: plan.outputs.len(),
        outlets,
        operator,
        orders,
        edges,
        inputs: CycleInputs::new(plan.inputs.len(), context),
        sorter: Sorter::default(),
        worker: *worker as u32,
    };
    builder.build(move |mut capabilities| {
        let first_cycle = stage.inputs.next_cycle();
        capabilities.iter_mut().for_each(|capability| capability.downgrade(&first_cycle));
        move |frontiers| {
            for (index, input) in inputs.iter_mut().enumerate() {
                input.for_each(|time, parcels| {
                    stage.inputs.receive(index, *time.time(), std::mem::take(parcels));
                });
            }
            let complete = complete_below(frontiers);
            while let Some(in_flight) = stage.inputs.next_complete(complete) {
                match stage.moves.settle(&in_flight, &mut stage.table) {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(failure) => return stage.run_state.fail(failure),
                }
                let sent = match stage.run_cycle(&in_flight) {
                    Ok(sent) => sent,
                    Err(failure) => return stage.run_state.fail(failure),
                };
                for ((output, capability), mut parcels) in outputs.iter_mut().zip(&mut capabilities).zip(sent)
                {
                    if !parcels.0.is_empty() {
                        // Numbers may have been left out.
                        capability.downgrade(&in_flight.cut.cycle);
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
    /// Runs the next cycle; returns the output for each edge.
    fn run_cycle(&mut self, in_flight: &CycleInFlight) -> Result<Vec<Parcels>, Failure> {
        let (start_ns, begun) = (self.run_state.clock.now_ns(), self.run_state.costs.begin());
        self.run_state.work.begin(self.operator, self.worker, start_ns);
        let begun_ns = self.measures_window().then(|| ThreadTime.now_ns());
        let parcels = self.inputs.take();
        let held_bytes = parcels.iter().flatten().map(|parcel| parcel.held_bytes).sum();
        let positions_end = in_flight.arrivals.events + 1;
        let mut inputs = Vec::with_capacity(parcels.len());
        for (parcels, order) in parcels.into_iter().zip(&self.orders) {
            let regrouped = guard_size(|| regroup(parcels, *order, positions_end, &mut self.sorter));
            inputs.push(regrouped.map_err(|cause| self.too_large("input", cause))?);
        }
        self.output.begin_cycle(in_flight.arrivals.events);
        let memory = &self.run_state.memory;
        self.output.limit_bytes(memory.left(), memory.limit());
        let costs = (&self.run_state.placements.costs, self.operator);
        self.table.run_cycle(&in_flight.cut, &inputs, &mut self.output, costs)?;
        self.run_state.set_clock_timer(self.operator, self.worker, self.table.next_clock_timer());
        self.run_state.credit.release(held_bytes);
        if in_flight.cut.snapshot {
            let states = self.table.snapshot(in_flight.cut.cycle)?;
            let watermark = self.table.watermark();
            self.run_state.contribute(in_flight.cut.cycle, &self.name, watermark, states);
        }
        let rows_in = inputs.iter().flatten().map(PartitionedBatch::rows_given).sum();
        let batches = guard_size(|| (0..self.ports).map(|port| self.output.finish(port)).collect::<Vec<_>>());
        let batches = batches.map_err(|cause| self.too_large("output", cause))?;
        let rows_out = batches.iter().flatten().map(|batch| batch.len() as u64).sum();
        let time_ns = self.run_state.clock.now_ns() - start_ns;
        self.run_state.costs.add(Part::Operator(self.operator), begun);
        self.add_window_costs(in_flight.cut.cycle, begun_ns);
        self.run_state.work.end(self.operator, self.worker, time_ns, (rows_in, rows_out));
        let sent = self.write(in_flight, &batches);
        self.inputs.advance();
        self.run_state.counters.add(Counter::OperatorTime, self.run_state.clock.now_ns() - start_ns);
        sent
    }

    /// Whether a window is being searched for one of the inputs.
    fn measures_window(&self) -> bool {
        self.edges.iter().any(|edge| self.run_state.window_costs.is_measured(*edge))
    }

    /// Merging the parts of windows is work of the operator, and depends on their size.
    fn add_window_costs(&self, cycle: u64, begun_ns: Option<u64>) {
        let Some(begun_ns) = begun_ns else { return };
        let time_ns = ThreadTime.now_ns() - begun_ns;
        for edge in &self.edges {
            self.run_state.window_costs.add_time(*edge, self.worker as usize, cycle, time_ns);
        }
    }

    /// Rows of one cycle that cannot form one batch: more than 2 GiB of strings, or too many dictionary entries.
    fn too_large(&self, what: &str, cause: Cause) -> Failure {
        let part = format!("{what} of operator '{}', cycle {}", self.name, self.inputs.next_cycle());
        Failure::Engine { part, cause }
    }

    /// Sends output that has readers.
    fn write(
        &mut self,
        in_flight: &CycleInFlight,
        batches: &[Option<Batch>],
    ) -> Result<Vec<Parcels>, Failure> {
        let mut sent = nothing_sent(self.outlets.edges().len());
        let context = BatchContext {
            cut: &in_flight.cut,
            splits: &in_flight.splits,
            placements: &in_flight.placements,
            base: 0,
            chunk: self.worker,
        };
        for (port, batch) in batches.iter().enumerate() {
            let Some(batch) = batch else { continue };
            self.check_positions(batch)?;
            self.outlets.write(port, batch, &context, &self.run_state, &mut sent)?;
        }
        Ok(sent)
    }

    /// Rows beyond the end of the cycle have no position in the order of the merge, and would be lost there.
    fn check_positions(&self, batch: &Batch) -> Result<(), OperatorError> {
        let last = self.output.end_position();
        if batch.positions.iter().fold(0, |most, position| most.max(*position)) <= last {
            return Ok(());
        }
        let row = batch.positions.iter().position(|position| *position > last).unwrap_or(0);
        let cause = Cause::bug(format!(
            "the operator wrote a row at position {}, but the last position of the cycle is {last}",
            batch.positions[row]
        ));
        let partition = batch.origins.get(row).copied().unwrap_or(0);
        let (operator, cycle) = (self.name.clone(), self.inputs.next_cycle());
        Err(OperatorError { operator, partition, cycle, events: Vec::new(), cause })
    }
}
