//! A query whose busy keys all fall into partitions of one worker: how many events per second it takes while partitions stay,
//! and while they may move. The answers are the same.
//!
//!     cargo run --release --example rebalance
//!     cargo run --release --example rebalance -- 4 20      # four workers, twenty seconds each

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidemill_engine::arrow::array::{RecordBatch, UInt64Array};
use tidemill_engine::arrow::array::{cast::AsArray, types::UInt64Type};
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_engine::{
    Batch, Cause, Chunk, Counter, Cut, CycleOutput, Engine, FlowError, Operator, OperatorPlan, Output, Plan,
    Rebalancing, Rows, Sink, SnapshotReader, SnapshotWriter, Status, route_by_key,
};

const PARTITIONS: u32 = 64;
const ROWS: u64 = 4096;
/// How often a row's hash is hashed again: the work for a row.
const ROUNDS: u32 = 400;

fn schema(names: &[&str]) -> SchemaRef {
    let field = |name: &&str| Field::new(*name, DataType::UInt64, false);
    Arc::new(Schema::new(names.iter().map(field).collect::<Vec<_>>()))
}

/// Of ten rows, nine have keys in partitions that worker 0 holds at first: multiples of the number of workers.
fn batch(workers: u64) -> RecordBatch {
    let key = |row: u64| match row % 10 {
        0 => row,
        _ => row % 16 * workers,
    };
    let keys = UInt64Array::from_iter_values((0..ROWS).map(key));
    let values = UInt64Array::from_iter_values(0..ROWS);
    RecordBatch::try_new(schema(&["key", "value"]), vec![Arc::new(keys), Arc::new(values)])
        .expect("the columns fit the schema")
}

/// A checksum of all rows of a partition, in their order, which takes long to compute.
#[derive(Default)]
struct Checksum(u64);

impl Operator for Checksum {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        for value in rows.column::<UInt64Type>(1) {
            let mut hash = self.0 ^ value;
            for _ in 0..ROUNDS {
                hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ value;
            }
            self.0 = hash;
        }
        Ok(())
    }
    fn end_of_cycle(&mut self, _cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        let position = output.end_position();
        output.port(0).push(position, (self.0,));
        Ok(())
    }
    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(1);
        writer.u64(self.0);
    }
    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(1)?;
        self.0 = reader.u64()?;
        Ok(())
    }
}

/// Each partition's last checksum.
#[derive(Clone)]
struct Last(Arc<Mutex<Vec<u64>>>);

impl Sink for Last {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let mut last = self.0.lock();
        for batch in output.streams.into_iter().flatten() {
            let checksums = batch.rows.column(0).as_primitive::<UInt64Type>().values();
            let of_partitions = batch.origins.iter().zip(checksums);
            of_partitions.for_each(|(partition, checksum)| last[*partition as usize] = *checksum);
        }
        Ok(())
    }
    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        Ok(())
    }
}

/// How long to push, or how many batches.
#[derive(Clone, Copy)]
enum Length {
    Time(Duration),
    Batches(u64),
}

/// Pushes batches as fast as they are taken; returns how many, the last checksums and the status.
fn run(
    workers: usize,
    rebalancing: Rebalancing,
    length: Length,
) -> Result<(u64, Vec<u64>, Status), FlowError> {
    let mut plan = Plan::new("checksums");
    let input = plan.source("input", [schema(&["key", "value"])]);
    let operator = OperatorPlan::new("checksum", PARTITIONS, |_| Box::new(Checksum::default()))
        .input(input[0], &["key", "value"], route_by_key::<UInt64Type>(0, PARTITIONS))
        .output(schema(&["checksum"]));
    let output = plan.operator(operator);
    plan.sink("last", output);
    let last = Last(Arc::new(Mutex::new(vec![0; PARTITIONS as usize])));
    let engine = Engine::new().workers(workers).rebalancing(rebalancing);
    let mut running = engine.run(plan, vec![Box::new(last.clone())])?;
    let gateway = running.gateway(0).expect("the plan has a source");
    let (start, rows) = (Instant::now(), batch(workers as u64));
    let goes_on = |batches: u64| match length {
        Length::Time(time) => start.elapsed() < time,
        Length::Batches(number) => batches < number,
    };
    let mut batches = 0;
    while goes_on(batches) {
        let streams = vec![Some(Batch::from_source(rows.clone(), (0..ROWS as u32).collect()))];
        let chunk = Chunk { streams, events: ROWS as u32, watermark: 0, arrived_ns: None, idle: false };
        if gateway.push(chunk).is_err() {
            break;
        }
        batches += 1;
    }
    drop(gateway);
    let status = running.join()?;
    let last = last.0.lock().clone();
    Ok((batches, last, status))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let workers = arguments.next().map_or(Ok(2), |text| text.parse())?;
    let seconds = arguments.next().map_or(Ok(6), |text| text.parse())?;
    let length = Length::Time(Duration::from_secs(seconds));
    let (batches, moved, status) = run(workers, Rebalancing::default(), length)?;
    tell("partitions may move", batches, &status);
    println!(
        "  {} moved, cycles waited {:.3} ms for them",
        status.get(Counter::PartitionMoves),
        status.get(Counter::HandoverTime) as f64 / 1e6
    );
    let (batches, still, status) = run(workers, Rebalancing::Off, Length::Batches(batches))?;
    tell("partitions stay", batches, &status);
    assert_eq!(moved, still, "the answers do not depend on the place of partitions");
    println!("the answers are the same");
    Ok(())
}

fn tell(what: &str, batches: u64, status: &Status) {
    let seconds = status.elapsed_ns as f64 / 1e9;
    let events = (batches * ROWS) as f64;
    println!("{what}: {:.0} events/s ({events} events in {seconds:.1} s)", events / seconds);
}
