//! How many rows per second the aggregates take on one core: counts per key and window, with and without
//! combining, and statistics over many keys.
//!
//! ```console
//! $ cargo run --release -p tidemill-operators --example aggregate_speed
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use tidemill_core::{Batch, Cause, Cut, Operator, Output, Transform};
use tidemill_operators::aggregate::{Aggregate, Average, Count, Extreme, Spread, Variance};
use tidemill_operators::{
    AggregateCall, AggregateSpec, Combine, TableAggregate, WindowAggregate, WindowSpec,
};

const BATCH_ROWS: usize = 4096;
const BATCHES: usize = 256;
const CYCLE_BATCHES: usize = 16;
const ROUNDS: usize = 8;
const WINDOW: WindowSpec =
    WindowSpec { time: 0, size_ns: 10_000_000_000, slide_ns: 10_000_000_000, offset_ns: 0 };

fn main() -> Result<(), Box<dyn Error>> {
    let few = batches(100, 1_000_000);
    report("count per (i64 key of 100, 10 s window)", |lap| window(&few, lap, None))?;
    report("the same, combined before", |lap| combined_window(&few, lap))?;
    let text = few.iter().map(with_text_key).collect::<Result<Vec<_>, _>>()?;
    report("count per (string key of 100, 10 s window)", |lap| window(&text, lap, None))?;
    let unordered = batches(100, 1_000_000).iter().map(shuffled).collect::<Result<Vec<_>, _>>()?;
    report("count per (i64 key of 100, 1 ms window), times over 4 windows", |lap| {
        window(&unordered, lap, Some(1_000_000))
    })?;
    let many = batches(100_000, 1_000);
    report("count, min, max, avg, var_samp over 100,000 i64 keys", |lap| table(&many, lap))?;
    let scattered = many.iter().map(with_scattered_keys).collect::<Result<Vec<_>, _>>()?;
    report("the same, keys anywhere in 64 bits", |lap| table(&scattered, lap))?;
    Ok(())
}

/// Prints the best of several rounds.
fn report(name: &str, mut run: impl FnMut(usize) -> Result<usize, Cause>) -> Result<(), Cause> {
    let mut best = 0.0_f64;
    for lap in 0..ROUNDS {
        let start = Instant::now();
        let rows = run(lap)?;
        best = best.max(rows as f64 / start.elapsed().as_secs_f64() / 1e6);
    }
    println!("{best:8.1} M rows/s  {name}");
    Ok(())
}

/// Batches with time, key and value; a batch lasts 4096 steps.
fn batches(keys: u64, step_ns: i64) -> Vec<RecordBatch> {
    let mut random = fastrand::Rng::with_seed(1);
    let batch = |index: usize| {
        let first = (index * BATCH_ROWS) as i64;
        let times = (0..BATCH_ROWS as i64).map(|row| (first + row) * step_ns / 1000);
        let times = Arc::new(TimestampNanosecondArray::from_iter_values(times)) as ArrayRef;
        let (ids, values): (Vec<_>, Vec<_>) =
            (0..BATCH_ROWS).map(|_| (random.u64(..keys) as i64, f64::from(random.u32(..)) / 1e3)).unzip();
        let (ids, values) = (Arc::new(Int64Array::from(ids)) as _, Arc::new(Float64Array::from(values)) as _);
        RecordBatch::try_from_iter([("time", times), ("key", ids), ("value", values)]).expect("equal lengths")
    };
    (0..BATCHES).map(batch).collect()
}

fn replaced(
    batch: &RecordBatch,
    index: usize,
    name: &str,
    column: ArrayRef,
) -> Result<RecordBatch, Box<dyn Error>> {
    let mut columns = batch.columns().to_vec();
    columns[index] = column;
    let schema = batch.schema();
    let names = schema.fields().iter().map(|field| field.name().as_str()).enumerate();
    let names = names.map(|(other, old)| if other == index { name } else { old });
    Ok(RecordBatch::try_from_iter(names.zip(columns))?)
}

fn keys_of(batch: &RecordBatch) -> &[i64] {
    use arrow_array::cast::AsArray;
    batch.column(1).as_primitive::<arrow_array::types::Int64Type>().values()
}

fn with_text_key(batch: &RecordBatch) -> Result<RecordBatch, Box<dyn Error>> {
    let keys = keys_of(batch).iter().map(|key| format!("campaign-{key:036}"));
    replaced(batch, 1, "key", Arc::new(StringArray::from_iter_values(keys)))
}

fn with_scattered_keys(batch: &RecordBatch) -> Result<RecordBatch, Box<dyn Error>> {
    let keys = keys_of(batch).iter().map(|key| key.wrapping_mul(0x1234_5678_9abc_def1));
    replaced(batch, 1, "key", Arc::new(Int64Array::from_iter_values(keys)))
}

fn shuffled(batch: &RecordBatch) -> Result<RecordBatch, Box<dyn Error>> {
    let times = (0..BATCH_ROWS as i64).map(|row| (row * 997 % BATCH_ROWS as i64) * 1000);
    replaced(batch, 0, "time", Arc::new(TimestampNanosecondArray::from_iter_values(times)))
}

fn spec(batches: &[RecordBatch], calls: Vec<AggregateCall>, is_windowed: bool) -> AggregateSpec {
    let columns = 1 + calls.len() + if is_windowed { 2 } else { 0 };
    AggregateSpec {
        keys: vec![1],
        calls,
        names: (0..columns).map(|column| format!("column_{column}")).collect(),
        input: batches[0].schema(),
        partial_input: false,
        groups_max: 10_000_000,
    }
}

fn call(function: impl Aggregate + 'static, arguments: Vec<usize>) -> AggregateCall {
    AggregateCall { function: Arc::new(function), arguments, filter: None }
}

fn positions() -> arrow_buffer::ScalarBuffer<u32> {
    (0..BATCH_ROWS as u32).collect::<Vec<_>>().into()
}

fn cut(watermark: i64) -> Cut {
    Cut { watermarks: vec![watermark], ..Cut::first() }
}

fn window(batches: &[RecordBatch], _lap: usize, size_ns: Option<i64>) -> Result<usize, Cause> {
    let size_ns = size_ns.unwrap_or(WINDOW.size_ns);
    let window = WindowSpec { size_ns, slide_ns: size_ns, ..WINDOW };
    let spec = spec(batches, vec![call(Count::rows(), vec![])], true);
    let mut output = Output::new(&[WindowAggregate::output_schema(&spec, &window)?]);
    let mut operator = WindowAggregate::new(&spec, &window, vec![0], Arc::default())?;
    let positions = positions();
    for (index, rows) in batches.iter().enumerate() {
        let batch = Batch::from_source(rows.clone(), positions.clone());
        operator.rows(0, batch.as_rows(), &mut output)?;
        if index % CYCLE_BATCHES == CYCLE_BATCHES - 1 {
            operator.end_of_cycle(&cut(i64::MIN), &mut output)?;
        }
    }
    operator.end_of_cycle(&cut(i64::MAX), &mut output)?;
    Ok(batches.len() * BATCH_ROWS)
}

fn combined_window(batches: &[RecordBatch], _lap: usize) -> Result<usize, Cause> {
    let spec = spec(batches, vec![call(Count::rows(), vec![])], true);
    let mut combine = Combine::new(&spec, Some(&WINDOW))?;
    let spec = AggregateSpec { partial_input: true, ..spec };
    let mut output = Output::new(&[WindowAggregate::output_schema(&spec, &WINDOW)?]);
    let mut operator = WindowAggregate::new(&spec, &WINDOW, vec![0], Arc::default())?;
    for rows in batches {
        let combined = combine.apply(rows, &Cut::first())?;
        let batch = Batch::from_source(combined.rows, combined.causes.unwrap_or_default().into());
        operator.rows(0, batch.as_rows(), &mut output)?;
    }
    operator.end_of_cycle(&cut(i64::MAX), &mut output)?;
    Ok(batches.len() * BATCH_ROWS)
}

fn table(batches: &[RecordBatch], _lap: usize) -> Result<usize, Cause> {
    let float = arrow_schema::DataType::Float64;
    let calls = vec![
        call(Count::rows(), vec![]),
        call(Extreme::minimum(&float)?, vec![2]),
        call(Extreme::maximum(&float)?, vec![2]),
        call(Average::new(&float)?, vec![2]),
        call(Variance::new(Spread::SampleVariance, &float)?, vec![2]),
    ];
    let spec = spec(batches, calls, false);
    let mut output = Output::new(&[TableAggregate::output_schema(&spec)?]);
    let mut operator = TableAggregate::new(&spec)?;
    let positions = positions();
    for rows in batches {
        let batch = Batch::from_source(rows.clone(), positions.clone());
        operator.rows(0, batch.as_rows(), &mut output)?;
    }
    // The flush every million events is part of it.
    operator.end_of_cycle(&cut(i64::MIN), &mut output)?;
    Ok(batches.len() * BATCH_ROWS)
}
