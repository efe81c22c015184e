//! Running sums over three processes: this program starts itself twice more, and all of them hold partitions.
//!
//! `cargo run --release -p tidemill-engine --example several_processes`

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use parking_lot::Mutex;
use tidemill_engine::arrow::array::types::{UInt32Type, UInt64Type};
use tidemill_engine::arrow::array::{RecordBatch, UInt32Array, UInt64Array, cast::AsArray};
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_engine::{
    Batch, Cause, Chunk, CycleOutput, Engine, Operator, OperatorPlan, Output, Plan, Rows, Sink,
    SnapshotReader, SnapshotWriter, WorkerProcess, WorkerProcesses, route_by_key,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First of all: is this one of the processes that a query has started? Then it makes the same plan and works.
    if let Some(member) = WorkerProcess::from_environment()? {
        return Ok(member.run(plan())?);
    }
    let sums = Sums::default();
    let engine = Engine::new().workers(1).processes(WorkerProcesses::new(3));
    let mut running = engine.run(plan(), vec![Box::new(sums.clone())])?;
    let gateway = running.gateway(0).ok_or("the plan has a source")?;
    for first in (0..100_000).step_by(1000) {
        gateway.push(numbers(first..first + 1000))?;
    }
    drop(gateway);
    let summary = running.join()?;
    let sums = sums.0.lock();
    assert_eq!(sums.values().sum::<u64>(), (0..100_000).sum::<u64>());
    println!("{} rows in, {} keys, the right sums", summary.work[0].rows_in, sums.len());
    Ok(())
}

fn schema() -> SchemaRef {
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    Arc::new(Schema::new(vec![field("key", DataType::UInt32), field("value", DataType::UInt64)]))
}

/// All processes make this plan.
fn plan() -> Plan {
    let mut plan = Plan::new("sums");
    let input = plan.source("numbers", [schema()]);
    let operator = OperatorPlan::new("sum", 16, |_| Box::new(RunningSum::default()))
        .input(input[0], &["key", "value"], route_by_key::<UInt32Type>(0, 16))
        .output(schema());
    let output = plan.operator(operator);
    plan.sink("sums", output);
    plan
}

/// The sum of each key so far, after each row.
#[derive(Default)]
struct RunningSum(BTreeMap<u32, u64>);

impl Operator for RunningSum {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let (keys, values) = (rows.column::<UInt32Type>(0), rows.column::<UInt64Type>(1));
        for row in 0..rows.len() {
            let sum = self.0.entry(keys[row]).or_default();
            *sum += values[row];
            output.port(0).push(rows.positions()[row], (keys[row], *sum));
        }
        Ok(())
    }
    fn snapshot(&self, _writer: &mut SnapshotWriter) {}
    fn restore(&mut self, _reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        Ok(())
    }
}

/// Keeps the last sum of each key.
#[derive(Clone, Default)]
struct Sums(Arc<Mutex<BTreeMap<u32, u64>>>);

impl Sink for Sums {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let mut sums = self.0.lock();
        for batch in output.streams.into_iter().flatten() {
            let keys = batch.rows.column(0).as_primitive::<UInt32Type>().values();
            let values = batch.rows.column(1).as_primitive::<UInt64Type>().values();
            sums.extend(keys.iter().copied().zip(values.iter().copied()));
        }
        Ok(())
    }
    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        Ok(())
    }
}

fn numbers(range: std::ops::Range<u64>) -> Chunk {
    let events = (range.end - range.start) as u32;
    let keys = UInt32Array::from_iter_values(range.clone().map(|number| (number % 100) as u32));
    let columns = vec![Arc::new(keys) as _, Arc::new(UInt64Array::from_iter_values(range)) as _];
    let rows = RecordBatch::try_new(schema(), columns).expect("the columns are those of the schema");
    let batch = Batch::from_source(rows, (0..events).collect());
    Chunk { streams: vec![Some(batch)], events, watermark: 0, arrived_ns: None, idle: false }
}
