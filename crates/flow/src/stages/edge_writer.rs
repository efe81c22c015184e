//! The sending end of an edge.

use std::sync::Arc;

use tidemill_core::error::Cause;
use tidemill_core::{Batch, PartitionedBatch, Run};
use tidemill_split::{Placement, RouteError, Share, SplitPlan, Splitter};

use super::batch_context::BatchContext;
use crate::error::Failure;
use crate::panics::guard;
use crate::run_state::RunState;
use crate::run_state::work::Part;
use crate::topology::{Edge, EdgeKind, SplitEdge};
use crate::transport::parcel::Parcel;
use crate::transport::parcels::Parcels;

/// Turns batches into parcels for an edge's consumer.
pub(crate) enum EdgeWriter {
    Split(Box<SplitWriter>),
    Whole { worker: u32 },
    Empty,
}

impl EdgeWriter {
    pub fn new(index: usize, edge: &Edge, worker: usize, workers: u32) -> Self {
        match &edge.kind {
            EdgeKind::Empty => EdgeWriter::Empty,
            EdgeKind::Whole { worker } => EdgeWriter::Whole { worker: *worker },
            EdgeKind::Split(split) => {
                let (split, worker) = (split.clone(), worker as u64);
                EdgeWriter::Split(Box::new(SplitWriter {
                    edge: index,
                    split,
                    worker,
                    workers,
                    routing: None,
                }))
            }
        }
    }

    /// The parcels of a batch of a cycle.
    pub fn parcels(
        &mut self,
        batch: &Batch,
        context: &BatchContext<'_>,
        run_state: &RunState,
    ) -> Result<Parcels, Failure> {
        match self {
            EdgeWriter::Empty => Ok(Parcels::default()),
            EdgeWriter::Whole { worker } => {
                let rows = PartitionedBatch::new(batch.moved(context.base), Vec::new());
                Ok(Parcels::new(vec![Parcel::new(*worker, context.chunk, rows)]))
            }
            EdgeWriter::Split(writer) => writer.parcels(batch, context, run_state),
        }
    }
}

/// Writes an edge to an operator, by the split plan that is in force in the cycle.
pub(crate) struct SplitWriter {
    edge: usize,
    split: Box<SplitEdge>,
    worker: u64,
    workers: u32,
    /// The route of the last batch, and the plan and the placement that determined it.
    routing: Option<(Arc<SplitPlan>, Arc<Placement>, EdgeRouting)>,
}

enum EdgeRouting {
    /// Directly to the partitions.
    ToPartitions(Box<Splitter>),
    /// To splitters.
    ToSplitters(WindowRouter),
}

impl SplitWriter {
    fn parcels(
        &mut self,
        batch: &Batch,
        context: &BatchContext<'_>,
        run_state: &RunState,
    ) -> Result<Parcels, Failure> {
        let clock = self.split.cost_clock(&*run_state.clock);
        let start_ns = clock.now_ns();
        run_state.splits.offer_sample(self.edge, batch);
        let plan = context.splits[self.edge].as_ref().expect("an edge to an operator has a plan");
        let placement = &context.placements[self.split.operator];
        let routing = match self.routing.take() {
            Some((known, places, routing))
                if Arc::ptr_eq(&known, plan) && Arc::ptr_eq(&places, placement) =>
            {
                routing
            }
            _ => self.routing_of(plan, placement),
        };
        let (.., routing) = self.routing.insert((Arc::clone(plan), Arc::clone(placement), routing));
        let parcels = match routing {
            EdgeRouting::ToSplitters(router) => {
                router.route(&batch.moved(context.base), context, plan, placement)
            }
            EdgeRouting::ToPartitions(splitter) => {
                let split = || splitter.split(batch, context.base);
                let shares = split_guarded(&self.split.name, context.cut.cycle, split)?;
                let parcel =
                    |share: Share| Parcel::new(share.worker, context.chunk, share.rows).by(plan, placement);
                Parcels::new(shares.into_iter().map(parcel).collect())
            }
        };
        let (rows_in, time_ns) = (batch.len() as u64, clock.now_ns() - start_ns);
        let parcels = parcels.hold_copies(rows_in, &run_state.credit);
        run_state.work.add(Part::Split { edge: self.edge, stage: 0 }, time_ns, rows_in, parcels.rows());
        let (worker, cycle) = (self.worker as usize, context.cut.cycle);
        run_state.window_costs.add_batch(self.edge, worker, cycle, time_ns, rows_in);
        Ok(parcels)
    }

    fn routing_of(&self, plan: &SplitPlan, placement: &Arc<Placement>) -> EdgeRouting {
        if plan.needs_splitters(self.workers) {
            let (first_worker, workers) = (self.split.first_worker, self.workers);
            return EdgeRouting::ToSplitters(WindowRouter {
                workers,
                first_worker,
                worker: self.worker,
                cycle: 0,
                routed: 0,
            });
        }
        let (route, placement) = (Arc::clone(&self.split.route), Arc::clone(placement));
        EdgeRouting::ToPartitions(Box::new(Splitter::new(route, placement, self.split.columns.clone())))
    }
}

/// Runs a split, in which a user's routing function may fail in any way.
pub(crate) fn split_guarded(
    operator: &str,
    cycle: u64,
    split: impl FnOnce() -> Result<Vec<Share>, RouteError>,
) -> Result<Vec<Share>, Failure> {
    let split = guard(|| split().map_err(|error| Cause::user(error.to_string()).with_source(error)));
    let part = || format!("input of operator '{operator}', cycle {cycle}");
    split.map_err(|cause| Failure::Engine { part: part(), cause })
}

/// The window router: passes whole windows to splitters without examining them.
struct WindowRouter {
    workers: u32,
    first_worker: u32,
    worker: u64,
    cycle: u64,
    routed: u64,
}

impl WindowRouter {
    /// One splitter after the other, starting with a different one in each cycle and on each worker. In a tree of window
    /// routers, the window goes to the router that leads to that splitter, with the splitter's number.
    fn route(
        &mut self,
        batch: &Batch,
        context: &BatchContext<'_>,
        plan: &Arc<SplitPlan>,
        placement: &Arc<Placement>,
    ) -> Parcels {
        let cycle = context.cut.cycle;
        if cycle != self.cycle {
            (self.cycle, self.routed) = (cycle, 0);
        }
        let (splitters, rows) = (u64::from(plan.splitters()), plan.window_rows as usize);
        let window = |(number, start): (usize, usize)| {
            let batch = batch.slice(start, (start + rows).min(batch.len()));
            let splitter = ((cycle + self.worker + self.routed) % splitters) as u32;
            self.routed += 1;
            let (process, partition) = match plan.levels_of_routers() {
                0 => (splitter, 0),
                // The next router reads whose turn it is.
                _ => (plan.router_of_splitter(splitter), splitter),
            };
            let target = (self.first_worker + plan.worker_of(1, process, self.workers)) % self.workers;
            let runs = vec![Run { partition, start: 0, end: batch.len() as u32 }];
            let parcel = Parcel::new(target, context.chunk, PartitionedBatch::new(batch, runs));
            Parcel { window: number as u32, ..parcel.by(plan, placement) }
        };
        Parcels::new((0..batch.len()).step_by(rows).enumerate().map(window).collect())
    }
}
