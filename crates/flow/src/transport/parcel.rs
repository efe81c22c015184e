//! What travels between workers: a gathered batch for one of them.

use std::sync::Arc;

use tidemill_core::PartitionedBatch;
use tidemill_split::{Placement, SplitPlan};

use crate::run_state::credit::Credit;

/// A gathered batch on its way to one worker.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    /// The worker that it is for.
    pub target: u32,
    /// Its rank among all parcels of its edge and cycle.
    pub chunk: u32,
    /// Its rank among the windows of its chunk, if that was divided on the way to splitters.
    pub window: u32,
    /// The plan by which it is split; `None` on the way to a sink.
    pub plan: Option<Arc<SplitPlan>>,
    /// Where the operator's partitions are in its cycle; `None`: where they were at first. It does not travel to other
    /// processes, because in several processes no partition moves.
    pub placement: Option<Arc<Placement>>,
    /// The bytes of copies that are counted as held for it until it is processed.
    pub held_bytes: u64,
    /// The rows; without runs on the way to a sink.
    pub rows: PartitionedBatch,
}

impl Parcel {
    /// Rows of a chunk for a worker.
    pub fn new(target: u32, chunk: u32, rows: PartitionedBatch) -> Self {
        Parcel { target, chunk, window: 0, plan: None, placement: None, held_bytes: 0, rows }
    }

    /// The same, split by this plan to partitions at these places.
    pub fn by(self, plan: &Arc<SplitPlan>, placement: &Arc<Placement>) -> Self {
        Parcel { plan: Some(Arc::clone(plan)), placement: Some(Arc::clone(placement)), ..self }
    }

    /// Counts a parcel that leaves this process as held until it is processed, unless it is counted already.
    pub fn hold(&mut self, credit: &Credit) {
        if self.held_bytes == 0 {
            self.held_bytes = self.rows.bytes() as u64;
            credit.hold(self.held_bytes as i64);
        }
    }
}
