//! Keeps account of the memory that the state of an operator takes on one worker.

use std::sync::Arc;

use tidemill_core::error::Cause;
use tidemill_core::{MemoryAccount, Operator, PartitionedBatch};

use crate::run_state::RunState;

/// An instance is asked again when it was given rows of about this many bytes: a state seldom grows by much more than its
/// input. With a small limit it is asked sooner.
const READ_BYTES_MAX: u64 = 256 << 10;
const READ_BYTES_MIN: u64 = 1 << 10;
/// A row counts as this many bytes more than its values, because small rows may have large state.
const ROW_BYTES: u64 = 64;
/// All instances are asked when this many cycles have passed, so that the figures follow small and shrinking state.
const CYCLES: u32 = 256;

pub(crate) struct StateMeter {
    run_state: Arc<RunState>,
    operator: usize,
    account: MemoryAccount,
    instances: Vec<Instance>,
    /// The average size of a row, by input and batch of the cycle.
    row_bytes: Vec<Vec<u64>>,
    cycles: u32,
    read_bytes: u64,
}

/// What one instance held when it was asked, and the bytes that it was given since.
#[derive(Clone, Default)]
struct Instance {
    state: u64,
    given: u64,
}

impl StateMeter {
    /// For this many instances of an operator.
    pub fn new(run_state: &Arc<RunState>, operator: usize, instances: usize) -> StateMeter {
        StateMeter {
            run_state: Arc::clone(run_state),
            operator,
            account: run_state.memory.account(),
            instances: vec![Instance::default(); instances],
            row_bytes: Vec::new(),
            cycles: 0,
            read_bytes: (run_state.memory.limit() / 1024).clamp(READ_BYTES_MIN, READ_BYTES_MAX),
        }
    }

    /// Asks all instances.
    pub fn read_all(&mut self, instances: &[Box<dyn Operator>]) {
        self.cycles = 0;
        for (known, instance) in self.instances.iter_mut().zip(instances) {
            *known = Instance { state: instance.state_bytes() as u64, given: 0 };
        }
        self.account_for(self.instances.iter().map(|instance| instance.state).sum());
    }

    /// An instance leaves this worker. Returns the bytes that it held when it was asked, and those that it was given since.
    pub fn release(&mut self, index: usize) -> (u64, u64) {
        let Instance { state, given } = self.instances.remove(index);
        self.account_for(self.account.bytes().saturating_sub(state));
        (state, given)
    }

    /// An instance comes to this worker, and is the one with this index from now on.
    pub fn accept(&mut self, index: usize, (state, given): (u64, u64)) {
        self.instances.insert(index, Instance { state, given });
        self.account_for(self.account.bytes() + state);
    }

    /// A cycle begins, with these rows.
    pub fn begin_cycle(&mut self, inputs: &[Vec<PartitionedBatch>], instances: &[Box<dyn Operator>]) {
        self.row_bytes.resize_with(inputs.len(), Vec::new);
        for (row_bytes, batches) in self.row_bytes.iter_mut().zip(inputs) {
            let bytes_of_row = |batch: &PartitionedBatch| {
                let rows = &batch.shared.as_ref().map_or(&batch.batch, |shared| &shared.batch).rows;
                (rows.get_array_memory_size() / rows.num_rows().max(1)) as u64
            };
            row_bytes.clear();
            row_bytes.extend(batches.iter().map(bytes_of_row));
        }
        self.cycles += 1;
        if self.cycles >= CYCLES {
            self.read_all(instances);
        }
    }

    /// An instance was given rows of a batch.
    pub fn given(&mut self, instance: usize, input: u32, batch: u32, rows: u32) {
        let row_bytes = self.row_bytes[input as usize][batch as usize] + ROW_BYTES;
        self.instances[instance].given += row_bytes * u64::from(rows);
    }

    /// Asks an instance if it was given enough since the last time.
    ///
    /// # Errors
    /// [`Cause::resource`] if the query holds more memory than it may.
    pub fn read_if_due(&mut self, index: usize, instance: &dyn Operator) -> Result<(), Cause> {
        let known = &mut self.instances[index];
        if known.given < self.read_bytes {
            return Ok(());
        }
        let state = instance.state_bytes() as u64;
        let all = (self.account.bytes() + state).saturating_sub(known.state);
        *known = Instance { state, given: 0 };
        let of_workers = self.account_for(all);
        self.account.check_all("its state", of_workers)
    }

    /// Accounts for this many bytes; returns those of all workers of this process.
    fn account_for(&mut self, bytes: u64) -> u64 {
        let before = self.account.bytes();
        self.account.set(bytes);
        self.run_state.work.change_state(self.operator, before, bytes)
    }
}
