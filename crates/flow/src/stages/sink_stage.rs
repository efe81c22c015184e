//! The stage of a sink: passes whole cycles, in order, to the sink or to its thread.

use std::sync::Arc;

use crossbeam_channel::Sender;
use tidemill_core::Batch;
use tidemill_core::counters::Counter;
use tidemill_core::error::Cause;
use timely::dataflow::Scope;
use timely::dataflow::operators::generic::builder_rc::OperatorBuilder;

use super::cycle_inputs::{CycleInputs, complete_below};
use super::{EdgeStreams, Site};
use crate::error::Failure;
use crate::run_state::RunState;
use crate::stages::board::Posted;
use crate::stages::committer::{Committer, CycleResults};
use crate::transport::distribute::by_target;
use crate::transport::parcel::Parcel;

struct SinkStage {
    sink: usize,
    inputs: CycleInputs,
    run_state: Arc<RunState>,
    /// Only on one worker.
    way: Option<SinkWay>,
}

/// How a sink receives its results.
pub(crate) enum SinkWay {
    /// Through its thread.
    Thread(Sender<CycleResults>),
    /// Directly, because it never blocks.
    Direct(Box<Committer>),
}

/// Adds the stage of a sink to a worker's dataflow.
pub(crate) fn build<'scope>(
    scope: Scope<'scope, u64>,
    site: &Site<'_>,
    sink: usize,
    way: Option<SinkWay>,
    streams: &mut EdgeStreams<'scope>,
) {
    let Site { topology, run_state, .. } = site;
    let plan = &topology.plan.sinks[sink];
    let mut builder = OperatorBuilder::new(plan.name.clone(), scope);
    let mut inputs = Vec::new();
    for edge in topology.edges_to_sink(sink) {
        let stream = streams[edge].take().expect("producers are built before their consumers");
        inputs.push(builder.new_input(stream, by_target(topology.layout, run_state, site.lanes)));
    }
    let mut stage = SinkStage {
        sink,
        inputs: CycleInputs::new(plan.inputs.len(), site),
        run_state: Arc::clone(run_state),
        way,
    };
    builder.build(move |_capabilities| {
        move |frontiers| {
            for (index, input) in inputs.iter_mut().enumerate() {
                input.for_each(|time, parcels| {
                    stage.inputs.receive(index, *time.time(), std::mem::take(parcels));
                });
            }
            let complete = complete_below(frontiers);
            while let Some(posted) = stage.inputs.next_complete(complete) {
                stage.hand_over(posted);
            }
        }
    });
}

impl SinkStage {
    fn hand_over(&mut self, posted: Posted) {
        let cycle = posted.cut.cycle;
        let parcels = self.inputs.take();
        self.inputs.advance();
        let Some(way) = &mut self.way else { return };
        let held_bytes = parcels.iter().flatten().map(|parcel| parcel.held_bytes).sum();
        let streams: Vec<Vec<Batch>> = parcels.into_iter().map(in_order).collect();
        let bytes = streams.iter().flatten().map(|batch| batch.bytes() as u64).sum();
        self.run_state.counters.add(Counter::UncommittedBytes, bytes);
        self.run_state.credit.release(held_bytes);
        let results = CycleResults { cut: posted.cut, arrivals: posted.arrivals, streams, bytes };
        match way {
            SinkWay::Direct(committer) => committer.take_one(results),
            // Credits bound the cycles on their way, so there is room unless the thread is gone.
            SinkWay::Thread(thread) => {
                if thread.try_send(results).is_err() && !self.run_state.is_stopped() {
                    let part = format!("sink {}", self.sink);
                    let cause = Cause::Bug("its thread takes no results".into());
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
