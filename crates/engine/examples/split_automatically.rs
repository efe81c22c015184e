//! A query whose input the engine splits as it sees fit: reports go to the partition of their expressway, balance
//! queries to all. Shows what the model says before the query runs, and what was measured when it has.
//!
//!     cargo run --release --example split_automatically

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidemill_engine::arrow::array::{BooleanArray, RecordBatch, UInt32Array};
use tidemill_engine::arrow::array::{cast::AsArray, types::UInt32Type};
use tidemill_engine::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidemill_engine::{
    AutoSplit, Batch, Cause, Chunk, Cut, CycleOutput, Engine, FlowError, Operator, OperatorPlan, Output,
    Plan, Route, Rows, Running, Sink, SnapshotReader, SnapshotWriter, SplitPlan, choose, profile,
    route_by_value, route_or_broadcast,
};

const EXPRESSWAYS: u32 = 64;
const ROWS: u32 = 8192;
const BATCHES: u32 = 200;

fn schema() -> SchemaRef {
    let names = ["type", "vid", "xway"];
    Arc::new(Schema::new(names.map(|name| Field::new(name, DataType::UInt32, false)).to_vec()))
}

/// Reports are of type 0; one row in 200 is a balance query, of type 2.
fn batch() -> Batch {
    let column = |value: fn(u32) -> u32| Arc::new(UInt32Array::from_iter_values((0..ROWS).map(value))) as _;
    let columns = vec![
        column(|row| if row % 200 == 0 { 2 } else { 0 }),
        column(|row| row.wrapping_mul(2_654_435_761) >> 12),
        column(|row| row.wrapping_mul(40_503) % EXPRESSWAYS),
    ];
    let rows = RecordBatch::try_new(schema(), columns).expect("the columns fit the schema");
    Batch::from_source(rows, (0..ROWS).collect())
}

/// Reports by expressway, balance queries to all.
fn route() -> Arc<Route> {
    let is_query = |rows: &RecordBatch| -> BooleanArray {
        let types = rows.column(0).as_primitive::<UInt32Type>().values();
        types.iter().map(|kind| Some(*kind == 2)).collect()
    };
    route_or_broadcast(route_by_value::<UInt32Type>(2), is_query).into()
}

/// Counts the rows of its expressway.
struct Count {
    expressway: u32,
    rows: u32,
}

impl Operator for Count {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, _output: &mut Output) -> Result<(), Cause> {
        self.rows += rows.len() as u32;
        Ok(())
    }
    fn end_of_cycle(&mut self, _cut: &Cut, output: &mut Output) -> Result<(), Cause> {
        let position = output.end_position();
        output.port(0).push(position, (self.expressway, self.rows));
        Ok(())
    }
    fn snapshot(&self, writer: &mut SnapshotWriter) {
        writer.u8(1);
        writer.u32(self.rows);
    }
    fn restore(&mut self, reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        reader.version(1)?;
        self.rows = reader.u32()?;
        Ok(())
    }
}

/// The last count of each expressway.
#[derive(Clone)]
struct Counts(Arc<Mutex<Vec<u32>>>);

impl Sink for Counts {
    fn prepare(&mut self, output: CycleOutput) -> Result<(), Cause> {
        let mut counts = self.0.lock();
        for batch in output.streams.into_iter().flatten() {
            let column = |index| batch.rows.column(index).as_primitive::<UInt32Type>().values();
            column(0).iter().zip(column(1)).for_each(|(xway, rows)| counts[*xway as usize] = *rows);
        }
        Ok(())
    }
    fn commit(&mut self, _cycles: RangeInclusive<u64>) -> Result<(), Cause> {
        Ok(())
    }
}

/// Runs the query on all batches; `watch` is called when half of them were pushed.
fn run(
    split: Option<SplitPlan>,
    auto: Option<AutoSplit>,
    watch: impl Fn(&Running),
) -> Result<(Vec<u32>, String), FlowError> {
    let mut plan = Plan::new("counts");
    let input = plan.source("input", [schema()]);
    let output = ["xway", "rows"].map(|name| Field::new(name, DataType::UInt32, false)).to_vec();
    let count = |expressway| Box::new(Count { expressway, rows: 0 }) as Box<dyn Operator>;
    let mut operator = OperatorPlan::new("count", EXPRESSWAYS, count)
        .input(input[0], &["vid", "xway"], route())
        .output(Arc::new(Schema::new(output)));
    operator.inputs[0].split = split;
    operator.inputs[0].auto_split = auto;
    let counts = plan.operator(operator);
    plan.sink("counts", counts);

    let counts = Counts(Arc::new(Mutex::new(vec![0; EXPRESSWAYS as usize])));
    let mut running = Engine::new().workers(2).run(plan, vec![Box::new(counts.clone())])?;
    let gateway = running.gateway(0).expect("the plan has a source");
    let batch = batch();
    for number in 0..BATCHES {
        let streams = vec![Some(batch.clone())];
        let chunk = Chunk { streams, events: ROWS, watermark: 0, arrived_ns: None, idle: false };
        if gateway.push(chunk).is_err() {
            break;
        }
        if number == BATCHES / 2 {
            watch(&running);
        }
    }
    drop(gateway);
    let summary = running.join()?;
    let counts = counts.0.lock().clone();
    Ok((counts, summary.splits[0].to_string()))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Before anything runs: what splitting costs here, and what follows from it.
    let start = Instant::now();
    let clock = || start.elapsed().as_nanos() as u64;
    let profile = profile(&[batch()], &route(), EXPRESSWAYS, &[1, 2], 2, &clock)?;
    println!("{}\n", choose(&profile, EXPRESSWAYS, f64::INFINITY, 2));

    // The same while it runs, with measured costs; the query begins with a plan that is not the best.
    let auto = AutoSplit { every: Some(Duration::from_millis(10)), ..AutoSplit::default() };
    let until_chosen = |running: &Running| {
        while running.status().splits[0].choice.is_none() && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let (counts, split) = run(Some(SplitPlan::exptree(EXPRESSWAYS)), Some(auto), until_chosen)?;
    println!("{split}\n");

    let (fixed, _) = run(Some(SplitPlan::fsplit(EXPRESSWAYS)), None, |_| {})?;
    assert_eq!(counts, fixed, "the results do not depend on the split");
    let queries = BATCHES * ROWS.div_ceil(200);
    assert!(counts.iter().all(|rows| *rows >= queries));
    println!("all {EXPRESSWAYS} partitions got each of {queries} queries, with either plan");
    Ok(())
}
