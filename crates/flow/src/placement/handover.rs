//! Partitions on their way from the worker that held them to the one that shall hold them, in one process.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use parking_lot::Mutex;
use tidemill_core::Operator;
use timely::scheduling::SyncActivator;

use crate::panics::guard;
use crate::placement::timers::Timers;

/// A partition on its way: its instance, with what is known of it.
pub(crate) struct MovedPartition {
    pub instance: Box<dyn Operator>,
    pub timers: Timers,
    /// The bytes that its state took when it was last asked, and those of the rows since.
    pub state_bytes: u64,
    pub given_bytes: u64,
}

/// The number of the operator, the number of the partition, and the first cycle on the new worker: a partition may be on its way
/// twice.
type Key = (usize, u32, u64);

pub(crate) struct Handover {
    on_their_way: Mutex<BTreeMap<Key, MovedPartition>>,
    /// By operator and worker, what lets the stage run again.
    stages: Vec<Vec<OnceLock<SyncActivator>>>,
}

impl Handover {
    /// Between this many workers.
    pub fn new(operators: usize, workers: u32) -> Handover {
        let of_workers = || (0..workers).map(|_| OnceLock::new()).collect();
        Handover { on_their_way: Mutex::default(), stages: (0..operators).map(|_| of_workers()).collect() }
    }

    /// The stage of an operator on a worker is there. Call it before the stage asks for partitions.
    pub fn register(&self, operator: usize, worker: u32, activator: SyncActivator) {
        // A stage is built once.
        let _ = self.stages[operator][worker as usize].set(activator);
    }

    /// Gives away a partition, which another worker has from this cycle on.
    pub fn give(
        &self,
        (operator, partition): (usize, u32),
        (first_cycle, worker): (u64, u32),
        moved: MovedPartition,
    ) {
        self.on_their_way.lock().insert((operator, partition, first_cycle), moved);
        // A stage that is not there yet will look for itself.
        if let Some(activator) = self.stages[operator][worker as usize].get() {
            // If the worker is gone, the query has stopped.
            let _ = activator.activate();
        }
    }

    /// A partition, if it has arrived.
    pub fn take(&self, operator: usize, partition: u32, first_cycle: u64) -> Option<MovedPartition> {
        self.on_their_way.lock().remove(&(operator, partition, first_cycle))
    }

    /// The query has ended: frees what is on its way.
    pub fn clear(&self) {
        let left = std::mem::take(&mut *self.on_their_way.lock());
        // Freeing it runs code of the operators.
        let _ = guard(|| {
            drop(left);
            Ok(())
        });
    }
}
