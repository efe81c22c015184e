//! Stop a query in the middle, continue from its snapshot with another number of workers, and get the same results.
//!
//! `cargo run --example snapshot_and_restore`

use std::collections::BTreeMap;
use std::error::Error;
use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;
use tidemill_engine::arrow::array::types::{UInt32Type, UInt64Type};
use tidemill_engine::arrow::array::{RecordBatch, UInt32Array};
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_engine::{
    Batch, Cause, Chunk, CycleOutput, Engine, Operator, OperatorPlan, Output, Plan, Rows, Sink, Snapshot,
    SnapshotReader, SnapshotWriter, route_by_key,
};

const EVENTS: u32 = 20_000;
const STOP_AT: u32 = 7_777;
const PARTITIONS: u32 = 16;
const SNAPSHOT_VERSION: u8 = 1;

/// One partition: the sum of the values of each key so far, reported after every event.
#[derive(Default)]
struct RunningSum {
    sums: BTreeMap<u32, u64>,
}

impl Operator for RunningSum {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let (keys, values) = (rows.column::<UInt32Type>(0), rows.column::<UInt32Type>(1));
        let mut results = output.port(0).writer::<(u32, u64)>();
        for (row, position) in rows.positions().iter().enumerate() {
            let sum = self.sums.entry(keys[row]).or_default();
            *sum += u64::from(values[row]);
            results.push(*position, (keys[row], *sum));
        }
        Ok(())
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(SNAPSHOT_VERSION);
        writer.u32(self.sums.len() as u32);
        for (key, sum) in &self.sums {
            writer.u32(*key);
            writer.u64(*sum);
        }
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(SNAPSHOT_VERSION)?;
        for _ in 0..reader.u32()? {
            let key = reader.u32()?;
            self.sums.insert(key, reader.u64()?);
        }
        Ok(())
    }
}

/// Keys, each with its sum.
type Results = Vec<(u32, u64)>;

/// Results in memory, in the order in which they were committed.
#[derive(Clone, Default)]
struct Collected {
    prepared: Results,
    committed: Arc<Mutex<Results>>,
}

impl Sink for Collected {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        for batch in output.streams.iter().flatten() {
            let rows = batch.as_rows();
            let (keys, sums) = (rows.column::<UInt32Type>(0), rows.column::<UInt64Type>(1));
            self.prepared.extend(keys.iter().copied().zip(sums.iter().copied()));
        }
        Ok(())
    }

    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        let mut committed = self.committed.lock();
        committed.append(&mut self.prepared);
        Ok(())
    }
}

fn schema(fields: &[(&str, DataType)]) -> SchemaRef {
    let field = |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), false);
    Arc::new(Schema::new(fields.iter().map(field).collect::<Vec<_>>()))
}

fn input_schema() -> SchemaRef {
    schema(&[("key", DataType::UInt32), ("value", DataType::UInt32)])
}

fn plan() -> Plan {
    let mut plan = Plan::new("sums");
    let input = plan.source("input", [input_schema()]);
    let sums = plan.operator(
        OperatorPlan::new("running sum", PARTITIONS, |_partition| Box::new(RunningSum::default()))
            .input(input[0], &["key", "value"], route_by_key::<UInt32Type>(0, PARTITIONS))
            .output(schema(&[("key", DataType::UInt32), ("sum", DataType::UInt64)])),
    );
    plan.sink("collected", sums);
    plan
}

/// Runs the events `first..end`; returns the results, and the state after them.
fn run(
    workers: usize,
    first: u32,
    end: u32,
    state: Option<Snapshot>,
) -> Result<(Results, Snapshot), Box<dyn Error>> {
    let mut engine = Engine::new().workers(workers);
    if let Some(state) = state {
        engine = engine.state(Arc::new(state));
    }
    let collected = Collected::default();
    let mut running = engine.run(plan(), vec![Box::new(collected.clone())])?;
    let gateway = running.gateway(0).ok_or("the plan has a source")?;
    let mut next = first;
    while next < end {
        let events = 100.min(end - next);
        gateway.push(chunk(next, events)?)?;
        next += events;
    }
    // While the query runs: when it has ended, its state is gone.
    let snapshot = running.snapshot()?;
    drop(gateway);
    running.join()?;
    let results = std::mem::take(&mut *collected.committed.lock());
    Ok((results, snapshot))
}

/// The events from number `first` on.
fn chunk(first: u32, events: u32) -> Result<Chunk, Box<dyn Error>> {
    let numbers = first..first + events;
    let keys = UInt32Array::from_iter_values(numbers.clone().map(|number| number.wrapping_mul(7919) % 1000));
    let values = UInt32Array::from_iter_values(numbers);
    let rows = RecordBatch::try_new(input_schema(), vec![Arc::new(keys), Arc::new(values)])?;
    let batch = Batch::from_source(rows, (0..events).collect());
    Ok(Chunk { streams: vec![Some(batch)], events, watermark: 0, arrived_ns: None, idle: false })
}

fn main() -> Result<(), Box<dyn Error>> {
    let (whole, last_state) = run(1, 0, EVENTS, None)?;
    println!("without a break, 1 worker:  {} results", whole.len());

    let (mut parts, state) = run(2, 0, STOP_AT, None)?;
    let bytes: usize =
        state.operators.values().flat_map(|partitions| partitions.values()).map(Vec::len).sum();
    println!("stopped, 2 workers:         {} results, snapshot of {bytes} bytes", parts.len());

    let (rest, state) = run(5, STOP_AT, EVENTS, Some(state))?;
    println!("restored, 5 workers:        {} results", rest.len());

    parts.extend(rest);
    if parts != whole || state.operators != last_state.operators {
        return Err("the results differ".into());
    }
    println!("the same results in the same order, and the same state");
    Ok(())
}
