//! A worker's partition table of one operator: its instances, and the calls that a cycle makes to them.

use std::collections::{BTreeMap, BTreeSet};

use tidemill_core::error::Cause;
use tidemill_core::snapshot::StateSource;
use tidemill_core::{
    Cut, Operator, OperatorError, Output, PartitionedBatch, Rows, SnapshotReader, SnapshotWriter,
};
use tidemill_plan::OperatorPlan;

use crate::panics::guard;
use crate::placement::handover::MovedPartition;
use crate::placement::partition_costs::{CallTimes, PartitionCosts};
use crate::placement::timers::Timers;
use crate::stages::state_meter::StateMeter;

/// How many calls ahead an operator learns what comes.
const PREFETCH_CALLS: usize = 2;

pub(crate) struct PartitionTable {
    operator: String,
    /// Ascending.
    partitions: Vec<u32>,
    instances: Vec<Box<dyn Operator>>,
    /// The instance of each logical partition on this worker.
    instance_of: Vec<u32>,
    timers: Vec<Timers>,
    /// The sources of the rows, and the largest watermark seen.
    sources: Vec<usize>,
    watermark: i64,
    calls: Vec<Call>,
    meter: StateMeter,
}

/// One run of rows for one instance.
#[derive(Clone, Copy)]
struct Call {
    instance: u32,
    input: u32,
    batch: u32,
    start: u32,
    end: u32,
    /// How many rows the instance receives beside these, because it shares them with others.
    shared_rows: u32,
}

impl Call {
    /// How many rows the instance receives.
    fn rows(&self) -> u32 {
        self.end - self.start + self.shared_rows
    }
}

impl PartitionTable {
    /// Makes the instances of these partitions, with their state if there is one.
    pub fn new(
        plan: &OperatorPlan,
        partitions: &[u32],
        sources: Vec<usize>,
        state: Option<&dyn StateSource>,
        mut meter: StateMeter,
    ) -> Result<Self, OperatorError> {
        let mut instances = Vec::with_capacity(partitions.len());
        let mut timers = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let made = guard(|| make_instance(plan, *partition, state));
            let instance = made.map_err(|cause| error(&plan.name, *partition, 0, cause))?;
            timers.push(Timers::of(instance.as_ref()));
            instances.push(instance);
        }
        meter.read_all(&instances);
        let mut table = PartitionTable {
            operator: plan.name.clone(),
            partitions: partitions.to_vec(),
            instances,
            instance_of: vec![u32::MAX; plan.partitions as usize],
            timers,
            sources,
            watermark: state.and_then(|state| plan.find(|name| state.watermark(name))).unwrap_or(i64::MIN),
            calls: Vec::new(),
            meter,
        };
        table.number_instances();
        Ok(table)
    }

    /// Takes a partition out, which another worker holds from now on. `None`: it is not here.
    pub fn release(&mut self, partition: u32) -> Option<MovedPartition> {
        let index = self.partitions.binary_search(&partition).ok()?;
        self.partitions.remove(index);
        let (instance, timers) = (self.instances.remove(index), self.timers.remove(index));
        let (state_bytes, given_bytes) = self.meter.release(index);
        self.number_instances();
        Some(MovedPartition { instance, timers, state_bytes, given_bytes })
    }

    /// Takes in a partition that another worker has held.
    pub fn accept(&mut self, partition: u32, moved: MovedPartition) {
        let index = self.partitions.partition_point(|own| *own < partition);
        self.partitions.insert(index, partition);
        self.instances.insert(index, moved.instance);
        self.timers.insert(index, moved.timers);
        self.meter.accept(index, (moved.state_bytes, moved.given_bytes));
        self.number_instances();
    }

    fn number_instances(&mut self) {
        self.instance_of.fill(u32::MAX);
        for (index, partition) in self.partitions.iter().enumerate() {
            self.instance_of[*partition as usize] = index as u32;
        }
    }

    /// Passes a cycle's rows to the instances: partition by partition, input by input, batch by batch.
    pub fn run_cycle(
        &mut self,
        cut: &Cut,
        inputs: &[Vec<PartitionedBatch>],
        output: &mut Output,
        costs: (&PartitionCosts, usize),
    ) -> Result<(), OperatorError> {
        self.watermark = self.watermark.max(cut.watermark_of(self.sources.iter().copied()));
        self.list_calls(cut, inputs);
        self.meter.begin_cycle(inputs, &self.instances);
        let mut instance = 0;
        let rows = self.calls.iter().map(|call| u64::from(call.rows())).sum();
        let (costs, operator) = costs;
        let times = costs.begin(operator, cut.cycle, rows, self.calls.len());
        let result = guard(|| self.make_calls((cut, inputs), output, times, &mut instance));
        result.map_err(|cause| OperatorError {
            events: self.events_of(instance as u32, inputs),
            ..error(&self.operator, self.partitions[instance], cut.cycle, cause)
        })
    }

    /// Which events caused the rows that an instance is given in the cycle.
    fn events_of(&self, instance: u32, inputs: &[Vec<PartitionedBatch>]) -> Vec<u32> {
        let calls = self.calls.iter().filter(|call| call.instance == instance);
        let events = calls.flat_map(|call| {
            let batch = inputs.get(call.input as usize).and_then(|batches| batches.get(call.batch as usize));
            let positions = batch.map_or(&[][..], |batch| &batch.batch.positions[..]);
            let own = positions.get(call.start as usize..call.end as usize).unwrap_or_default();
            let shared = batch.filter(|_| call.shared_rows > 0).and_then(|batch| batch.shared.as_ref());
            own.iter().chain(shared.map_or(&[][..], |shared| &shared.batch.positions[..]))
        });
        let events: BTreeSet<u32> = events.copied().collect();
        events.into_iter().take(OperatorError::EVENTS_MAX).collect()
    }

    fn list_calls(&mut self, cut: &Cut, inputs: &[Vec<PartitionedBatch>]) {
        self.calls.clear();
        for (input, batches) in inputs.iter().enumerate() {
            for (index, batch) in batches.iter().enumerate() {
                for run in &batch.runs {
                    self.calls.push(Call {
                        instance: self.instance_of[run.partition as usize],
                        input: input as u32,
                        batch: index as u32,
                        start: run.start,
                        end: run.end,
                        shared_rows: batch.shared_rows() as u32,
                    });
                }
            }
        }
        for (instance, timers) in self.timers.iter().enumerate() {
            if timers.are_due(self.watermark, cut.closed_at_ns) {
                let instance = instance as u32;
                self.calls.push(Call { instance, input: 0, batch: 0, start: 0, end: 0, shared_rows: 0 });
            }
        }
        // Stable, and quick on the ascending runs that it is made of.
        self.calls.sort_by_key(|call| call.instance);
    }

    fn make_calls(
        &mut self,
        (cut, inputs): (&Cut, &[Vec<PartitionedBatch>]),
        output: &mut Output,
        mut times: Option<CallTimes<'_>>,
        current: &mut usize,
    ) -> Result<(), Cause> {
        let batch_of = |call: &Call| &inputs[call.input as usize][call.batch as usize];
        let own_rows = |call: &Call| Rows::new(&batch_of(call).batch, call.start as usize, call.end as usize);
        for (index, call) in self.calls.iter().enumerate() {
            if let Some(ahead) = self.calls.get(index + PREFETCH_CALLS).filter(|call| call.start < call.end) {
                self.instances[ahead.instance as usize].prefetch(ahead.input as usize, own_rows(ahead));
            }
            let instance = call.instance as usize;
            *current = instance;
            if index == 0 || self.calls[index - 1].instance != call.instance {
                output.begin_partition(self.partitions[instance]);
            }
            if call.rows() > 0 {
                let merged = batch_of(call).merged(call.start as usize, call.end as usize);
                let rows = merged.as_ref().map_or_else(|| own_rows(call), Rows::merged);
                self.instances[instance].rows(call.input as usize, rows, output)?;
                self.meter.given(instance, call.input, call.batch, call.rows());
            }
            if self.calls.get(index + 1).is_none_or(|next| next.instance != call.instance) {
                self.instances[instance].end_of_cycle(cut, output)?;
                self.timers[instance] = Timers::of(self.instances[instance].as_ref());
                self.meter.read_if_due(instance, self.instances[instance].as_ref())?;
                times.iter_mut().for_each(|times| times.end(self.partitions[instance]));
            }
        }
        Ok(())
    }

    /// The largest event time with which timers were compared.
    pub fn watermark(&self) -> i64 {
        self.watermark
    }

    /// The closing time from which on one of the instances must be called.
    pub fn next_clock_timer(&self) -> Option<u64> {
        self.timers.iter().filter_map(|timers| timers.clock_ns).min()
    }

    /// The state of all instances at the end of a cycle.
    pub fn snapshot(&self, cycle: u64) -> Result<BTreeMap<u32, Vec<u8>>, OperatorError> {
        let bytes = |(partition, instance): (&u32, &dyn Operator)| {
            let mut writer = SnapshotWriter::default();
            let written = guard(|| {
                instance.snapshot(&mut writer);
                Ok(())
            });
            written.map_err(|cause| error(&self.operator, *partition, cycle, cause))?;
            Ok((*partition, writer.finish()))
        };
        self.partitions.iter().zip(self.instances.iter().map(|instance| &**instance)).map(bytes).collect()
    }
}

/// An instance with its state, if there is one.
fn make_instance(
    plan: &OperatorPlan,
    partition: u32,
    state: Option<&dyn StateSource>,
) -> Result<Box<dyn Operator>, Cause> {
    let mut instance = (plan.factory)(partition);
    if let Some(bytes) = state.and_then(|state| plan.find(|name| state.partition(name, partition))) {
        instance.restore(&mut SnapshotReader::new(&bytes)?)?;
    }
    Ok(instance)
}

fn error(operator: &str, partition: u32, cycle: u64, cause: Cause) -> OperatorError {
    OperatorError { operator: operator.to_string(), partition, cycle, events: Vec::new(), cause }
}
