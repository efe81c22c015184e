//! The sending end of an edge.

use tidemill_core::error::Cause;
use tidemill_core::{Batch, PartitionedBatch, Run};
use tidemill_split::{RouteError, Share, SplitPlan, Splitter};

use crate::panics::guard;
use crate::parcel::{Parcel, Parcels};
use crate::shared::Failure;
use crate::topology::{Edge, EdgeKind, SplitEdge};

/// Turns batches into parcels for an edge's consumer.
pub(crate) enum EdgeWriter {
    Split { splitter: Box<Splitter>, name: String },
    Deal(Dealer),
    Whole { worker: u32 },
    Empty,
}

impl EdgeWriter {
    pub fn new(edge: &Edge, worker: usize, workers: u32) -> Self {
        match &edge.kind {
            EdgeKind::Empty => EdgeWriter::Empty,
            EdgeKind::Whole { worker } => EdgeWriter::Whole { worker: *worker },
            EdgeKind::Split(edge) => match &edge.plan {
                Some(plan) => EdgeWriter::Deal(Dealer::new(plan, edge, worker, workers)),
                None => {
                    let (route, placement) = (edge.route.clone(), edge.placement.clone());
                    let splitter = Box::new(Splitter::new(route, placement, edge.columns.clone()));
                    EdgeWriter::Split { splitter, name: edge.name.clone() }
                }
            },
        }
    }

    /// The parcels of a batch of a cycle; positions get `base` added.
    pub fn parcels(&mut self, batch: &Batch, base: u32, chunk: u32, cycle: u64) -> Result<Parcels, Failure> {
        match self {
            EdgeWriter::Empty => Ok(Parcels::default()),
            EdgeWriter::Whole { worker } => {
                let rows = PartitionedBatch { batch: based(batch, base), runs: Vec::new() };
                Ok(Parcels(vec![Parcel { target: *worker, chunk, window: 0, rows }]))
            }
            EdgeWriter::Deal(dealer) => Ok(dealer.deal(&based(batch, base), chunk, cycle)),
            EdgeWriter::Split { splitter, name } => {
                let shares = split_guarded(name, cycle, || splitter.split(batch, base))?;
                let parcel =
                    |share: Share| Parcel { target: share.worker, chunk, window: 0, rows: share.rows };
                Ok(Parcels(shares.into_iter().map(parcel).collect()))
            }
        }
    }
}

/// Runs a split, in which a user's routing function may fail in any way.
pub(crate) fn split_guarded(
    operator: &str,
    cycle: u64,
    split: impl FnOnce() -> Result<Vec<Share>, RouteError>,
) -> Result<Vec<Share>, Failure> {
    let split = guard(|| split().map_err(|error| Cause::User(error.to_string())));
    let part = || format!("input of operator '{operator}', cycle {cycle}");
    split.map_err(|cause| Failure::Engine { part: part(), cause })
}

fn based(batch: &Batch, base: u32) -> Batch {
    let mut batch = batch.clone();
    if base > 0 {
        batch.positions = batch.positions.iter().map(|position| position + base).collect();
    }
    batch
}

/// The window router: hands whole windows to splitters without looking into them.
pub(crate) struct Dealer {
    splitters: u64,
    window_rows: usize,
    workers: u32,
    first_worker: u32,
    worker: u64,
    cycle: u64,
    dealt: u64,
}

impl Dealer {
    fn new(plan: &SplitPlan, edge: &SplitEdge, worker: usize, workers: u32) -> Self {
        Dealer {
            splitters: u64::from(plan.splitters()),
            window_rows: plan.window_rows as usize,
            workers,
            first_worker: edge.first_worker,
            worker: worker as u64,
            cycle: 0,
            dealt: 0,
        }
    }

    /// One splitter after the other, beginning with another one in each cycle and on each worker.
    fn deal(&mut self, batch: &Batch, chunk: u32, cycle: u64) -> Parcels {
        if cycle != self.cycle {
            (self.cycle, self.dealt) = (cycle, 0);
        }
        let starts = (0..batch.len()).step_by(self.window_rows);
        let window = |(window, start): (usize, usize)| {
            let batch = batch.slice(start, (start + self.window_rows).min(batch.len()));
            let splitter = (cycle + self.worker + self.dealt) % self.splitters;
            self.dealt += 1;
            let runs = vec![Run { partition: 0, start: 0, end: batch.len() as u32 }];
            let target = (self.first_worker + (splitter % u64::from(self.workers)) as u32) % self.workers;
            Parcel { target, chunk, window: window as u32, rows: PartitionedBatch { batch, runs } }
        };
        Parcels(starts.enumerate().map(window).collect())
    }
}
