//! How the stage of an operator gives partitions to other workers and takes them in.

use std::sync::Arc;

use tidemill_core::counters::Counter;
use tidemill_core::error::Cause;
use tidemill_split::Placement;

use crate::error::Failure;
use crate::run_state::RunState;
use crate::stages::cycles_in_flight::CycleInFlight;
use crate::stages::partition_table::PartitionTable;

/// The partitions of an operator that come to a worker and leave it.
pub(crate) struct PartitionMoves {
    run_state: Arc<RunState>,
    operator: usize,
    worker: u32,
    /// Where partitions were in the last cycle.
    placement: Arc<Placement>,
    /// Which ones the next cycle waits for, and since when.
    arriving: Vec<u32>,
    since_ns: u64,
}

impl PartitionMoves {
    /// Call it before the first cycle.
    pub fn new(run_state: &Arc<RunState>, operator: usize, worker: u32) -> PartitionMoves {
        let placement = Arc::clone(&run_state.topology().placements[operator]);
        let run_state = Arc::clone(run_state);
        PartitionMoves { run_state, operator, worker, placement, arriving: Vec::new(), since_ns: 0 }
    }

    /// Makes the table ready for a cycle, before which all others are done. Partitions that leave are handed over at once,
    /// even if others have not arrived: so workers never wait for each other in a circle. `false`: some have not arrived,
    /// and the stage will be activated when they do.
    pub fn settle(&mut self, next: &CycleInFlight, table: &mut PartitionTable) -> Result<bool, Failure> {
        let (placement, cycle) = (&next.placements[self.operator], next.cut.cycle);
        if !Arc::ptr_eq(placement, &self.placement) {
            let before = std::mem::replace(&mut self.placement, Arc::clone(placement));
            self.hand_over(&before, cycle, table)?;
            let is_new = |partition: &u32| before.worker_of(*partition) != self.worker;
            let own = self.placement.partitions_of(self.worker).iter().copied();
            self.arriving = own.filter(is_new).collect();
            self.since_ns = self.run_state.clock.now_ns();
        }
        if self.arriving.is_empty() {
            return Ok(true);
        }
        let handover = &self.run_state.handover;
        self.arriving.retain(|partition| match handover.take(self.operator, *partition, cycle) {
            Some(moved) => {
                table.accept(*partition, moved);
                false
            }
            None => true,
        });
        if self.is_waiting() {
            return Ok(false);
        }
        let waited_ns = self.run_state.clock.now_ns() - self.since_ns;
        self.run_state.counters.add(Counter::HandoverTime, waited_ns);
        Ok(true)
    }

    /// Whether a cycle waits for partitions.
    pub fn is_waiting(&self) -> bool {
        !self.arriving.is_empty()
    }

    fn hand_over(&self, before: &Placement, cycle: u64, table: &mut PartitionTable) -> Result<(), Failure> {
        for partition in before.partitions_of(self.worker).iter().copied() {
            let worker = self.placement.worker_of(partition);
            if worker == self.worker {
                continue;
            }
            let Some(moved) = table.release(partition) else {
                let part = format!("partition {partition} of operator {}, cycle {cycle}", self.operator);
                return Err(Failure::Engine {
                    part,
                    cause: Cause::bug("the worker that should hold it does not"),
                });
            };
            self.run_state.handover.give((self.operator, partition), (cycle, worker), moved);
        }
        Ok(())
    }
}
