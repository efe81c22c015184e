//! The stage of a sink: passes whole cycles, in order, to the sink or to its thread.

use std::sync::Arc;

use crossbeam_channel::Sender;
use tidemill_core::Batch;
use tidemill_core::error::Cause;
use timely::dataflow::Scope;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;

use super::cycle_inputs::{CycleInputs, complete_below};
use super::{EdgeStreams, StageContext};
use crate::error::Failure;
use crate::run_state::RunState;
use crate::stages::committer::{Committer, CycleResults};
use crate::stages::cycles_in_flight::CycleInFlight;
use crate::transport::distribute::by_target;
use crate::transport::parcel::Parcel;

struct SinkStage {
    sink: usize,
    inputs: CycleInputs,
    run_state: Arc<RunState>,
    /// Only on one worker.
    handover: Option<SinkHandover>,
}

/// How a sink receives its results.
pub(crate) enum SinkHandover {
    /// Through its thread.
    Thread(Sender<CycleResults>),
    /// Directly, because it never blocks.
    Direct(Box<Committer>),
}

/// Adds the stage of a sink to a worker's dataflow.
pub(crate) fn build<'scope>(
    scope: Scope<'scope, u64>,
    context: &StageContext<'_>,
    sink: usize,
    handover: Option<SinkHandover>,
    streams: &mut EdgeStreams<'scope>,
) {
    let StageContext { topology, run_state, .. } = context;
    let plan = &topology.plan.sinks[sink];
    let mut builder = OperatorBuilder::new(plan.name.clone(), scope);
    let mut inputs = Vec::new();
    for edge in topology.edges_to_sink(sink) {
        let stream = streams[edge].take().expect("producers are built before their consumers");
        inputs.push(builder.new_input(stream, by_target(topology.layout, run_state, context.bulk)));
    }
    let mut stage = SinkStage {
        sink,
        inputs: CycleInputs::new(plan.inputs.len(), context),
        run_state: Arc::clone(run_state),
        handover,
    };
    builder.build(move |_capabilities| {
        move |frontiers| {
            for (index, input) in inputs.iter_mut().enumerate() {
                input.for_each(|time, parcels| {
                    stage.inputs.receive(index, *time.time(), std::mem::take(parcels));
                });
            }
            let complete = complete_below(frontiers);
            while let Some(in_flight) = stage.inputs.next_complete(complete) {
                stage.hand_over(in_flight);
            }
        }
    });
}

impl SinkStage {
    fn hand_over(&mut self, in_flight: CycleInFlight) {
        let cycle = in_flight.cut.cycle;
        let parcels = self.inputs.take();
        self.inputs.advance();
        let Some(handover) = &mut self.handover else { return };
        let held_bytes = parcels.iter().flatten().map(|parcel| parcel.held_bytes).sum();
        let streams: Vec<Vec<Batch>> = parcels.into_iter().map(in_order).collect();
        let bytes = streams.iter().flatten().map(|batch| batch.bytes() as u64).sum();
        self.run_state.results_wait(bytes);
        self.run_state.credit.release(held_bytes);
        let results = CycleResults { cut: in_flight.cut, arrivals: in_flight.arrivals, streams, bytes };
        match handover {
            SinkHandover::Direct(committer) => committer.take_one(results),
            // Credits bound the cycles that wait there.
            SinkHandover::Thread(thread) => {
                if thread.send(results).is_err() && !self.run_state.is_stopped() {
                    let part = format!("sink {}", self.sink);
                    let cause = Cause::bug("its thread accepts no results");
                    self.run_state.fail(Failure::Engine { part, cause });
                }
            }
        }
        self.run_state.cycle_handed(self.sink, cycle);
    }
}

fn in_order(mut parcels: Vec<Parcel>) -> Vec<Batch> {
    parcels.sort_by_key(|parcel| parcel.chunk);
    parcels.into_iter().map(|parcel| parcel.rows.batch).collect()
}
