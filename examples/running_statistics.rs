//! A user-defined operator and sink: mean and maximum per key over a generated stream, a table per cycle.
//!
//! `cargo run --example running_statistics [WORKERS]`: what it prints does not depend on the number of workers.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::ops::RangeInclusive;
use std::sync::Arc;

use tidemill_engine::arrow::array::types::{Float64Type, UInt32Type, UInt64Type};
use tidemill_engine::arrow::array::{RecordBatch, UInt32Array};
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_engine::{
    Batch, Cause, Chunk, Cut, CycleOutput, CyclePolicy, Engine, Operator, OperatorPlan, Output, Plan, Rows,
    Sink, SnapshotReader, SnapshotWriter, route_by_key,
};

const KEYS: u32 = 6;
const PARTITIONS: u32 = 4;
const EVENTS_PER_CHUNK: u32 = 500;
const CHUNKS: u32 = 8;
const SNAPSHOT_VERSION: u8 = 1;

/// What is known of a key.
#[derive(Clone, Copy, Default)]
struct Statistics {
    events: u64,
    sum: u64,
    maximum: u32,
    /// Events of this cycle.
    new_events: u64,
}

/// One partition: the statistics of its keys. A sorted map, because the order of a hash map is not defined.
#[derive(Default)]
struct RunningStatistics {
    keys: BTreeMap<u32, Statistics>,
}

impl Operator for RunningStatistics {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        let keys = rows.column::<UInt32Type>(0);
        let values = rows.column::<UInt32Type>(1);
        for (key, value) in keys.iter().zip(values) {
            let statistics = self.keys.entry(*key).or_default();
            statistics.events += 1;
            statistics.new_events += 1;
            statistics.sum += u64::from(*value);
            statistics.maximum = statistics.maximum.max(*value);
        }
        Ok(())
    }

    fn end_of_cycle(&mut self, _cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        let position = output.end_position();
        let mut table = output.port(0).writer::<(u32, u64, f64, u32)>();
        for (key, statistics) in self.keys.iter_mut().filter(|(_, statistics)| statistics.new_events > 0) {
            let mean = statistics.sum as f64 / statistics.events as f64;
            table.push(position, (*key, statistics.new_events, mean, statistics.maximum));
            statistics.new_events = 0;
        }
        Ok(())
    }

    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(SNAPSHOT_VERSION);
        writer.u32(self.keys.len() as u32);
        for (key, statistics) in &self.keys {
            writer.u32(*key);
            writer.u64(statistics.events);
            writer.u64(statistics.sum);
            writer.u32(statistics.maximum);
        }
    }

    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(SNAPSHOT_VERSION)?;
        for _ in 0..reader.u32()? {
            let key = reader.u32()?;
            let (events, sum, maximum) = (reader.u64()?, reader.u64()?, reader.u32()?);
            self.keys.insert(key, Statistics { events, sum, maximum, new_events: 0 });
        }
        Ok(())
    }
}

/// Prints whole cycles: what was prepared becomes visible when it is committed, and not before.
#[derive(Default)]
struct Table {
    prepared: String,
}

impl Sink for Table {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let Some(batch) = &output.streams[0] else { return Ok(()) };
        let rows = batch.as_rows();
        let (keys, events) = (rows.column::<UInt32Type>(0), rows.column::<UInt64Type>(1));
        let (means, maxima) = (rows.column::<Float64Type>(2), rows.column::<UInt32Type>(3));
        self.prepared += &format!("cycle {}\n  key  events     mean  maximum\n", output.cut.cycle);
        for row in 0..rows.len() {
            self.prepared +=
                &format!("{:>5} {:>7} {:>8.2} {:>8}\n", keys[row], events[row], means[row], maxima[row]);
        }
        Ok(())
    }

    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        // An error while writing becomes the query's error.
        std::io::stdout().write_all(self.prepared.as_bytes())?;
        self.prepared.clear();
        Ok(())
    }
}

fn schema(fields: &[(&str, DataType)]) -> SchemaRef {
    let field = |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), false);
    Arc::new(Schema::new(fields.iter().map(field).collect::<Vec<_>>()))
}

fn plan(input_schema: &SchemaRef) -> Plan {
    let output_schema = schema(&[
        ("key", DataType::UInt32),
        ("events", DataType::UInt64),
        ("mean", DataType::Float64),
        ("maximum", DataType::UInt32),
    ]);
    let mut plan = Plan::new("statistics");
    let input = plan.source("input", [Arc::clone(input_schema)]);
    let statistics = plan.operator(
        OperatorPlan::new("statistics", PARTITIONS, |_partition| Box::new(RunningStatistics::default()))
            .input(input[0], &["key", "value"], route_by_key::<UInt32Type>(0, PARTITIONS))
            .output(output_schema),
    );
    plan.sink("table", statistics);
    plan
}

fn main() -> Result<(), Box<dyn Error>> {
    let workers = std::env::args().nth(1).map_or(Ok(2), |text| text.parse())?;
    let input_schema = schema(&[("key", DataType::UInt32), ("value", DataType::UInt32)]);
    // Cycles of a fixed size: the same cuts in every run, and so the same tables.
    let engine = Engine::new().workers(workers).cycles(CyclePolicy::fixed(2 * EVENTS_PER_CHUNK));
    let mut running = engine.run(plan(&input_schema), vec![Box::new(Table::default())])?;

    let gateway = running.gateway(0).ok_or("the plan has a source")?;
    let mut random = 1;
    for _ in 0..CHUNKS {
        gateway.push(chunk(&input_schema, &mut random)?)?;
    }
    drop(gateway); // the input has ended
    let summary = running.join()?;
    eprintln!(
        "{} events, half of them committed within {:?} of their arrival",
        summary.per_event.count(),
        summary.per_event.quantile(0.5)
    );
    Ok(())
}

/// Some events: keys that are not equally frequent, values that grow with the key.
fn chunk(schema: &SchemaRef, random: &mut u64) -> Result<Chunk, Box<dyn Error>> {
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for _ in 0..EVENTS_PER_CHUNK {
        let key = below(random, KEYS).min(below(random, KEYS));
        keys.push(key);
        values.push(100 * key + below(random, 100));
    }
    let columns = vec![Arc::new(UInt32Array::from(keys)) as _, Arc::new(UInt32Array::from(values)) as _];
    let rows = RecordBatch::try_new(Arc::clone(schema), columns)?;
    let batch = Batch::from_source(rows, (0..EVENTS_PER_CHUNK).collect());
    Ok(Chunk {
        streams: vec![Some(batch)],
        events: EVENTS_PER_CHUNK,
        watermark: 0,
        arrived_ns: None,
        idle: false,
    })
}

/// A number from 0 to `end - 1`; a sequence that is the same in every run.
fn below(random: &mut u64, end: u32) -> u32 {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*random >> 33) % u64::from(end)) as u32
}
