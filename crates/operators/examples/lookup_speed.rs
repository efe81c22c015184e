//! How many rows per second one core looks up: ad -> campaign over 1000 ads, as in the Yahoo benchmark.
//!
//! `cargo run --release -p tidemill-operators --example lookup_speed`. One batch is looked up again and
//! again, so it stays in the processor's cache: this is the cost of the join by itself, without that of
//! reading rows from memory. It prints the ratio to a plain copy of the key column, also in the cache, the
//! least that a join must read and write.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use tidemill_core::arrow::array::types::Int32Type;
use tidemill_core::arrow::array::{
    Array, ArrayRef, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray,
};
use tidemill_core::error::Cause;
use tidemill_core::{Cut, MemoryBudget, Transform};
use tidemill_operators::lookup::{Dimension, Lookup, LookupColumn, LookupKind, LookupSpec};

const ADS: i64 = 1000;
const BATCH_ROWS: i64 = 8192;
const BATCHES: usize = 20_000;

fn main() -> Result<(), Cause> {
    // Squares modulo the number of ads: the keys jump about in the table; they repeat after that many rows.
    let ads = || (0..BATCH_ROWS).map(|row| row * row * 7_919 % ADS);
    let numbers =
        |offset: i64, factor: i64| Arc::new(ads().map(|ad| offset + ad * factor).collect::<Int64Array>());
    let table =
        |offset: i64, factor: i64| Arc::new((0..ADS).map(|ad| offset + ad * factor).collect::<Int64Array>());
    let names = Arc::new((0..ADS).map(|ad| Some(format!("ad-{ad:033}"))).collect::<StringArray>());
    let places = ads().map(|ad| ad as i32).collect::<Int32Array>();
    let of_dictionary = DictionaryArray::<Int32Type>::new(places, names.clone());
    let strings = ads().map(|ad| Some(format!("ad-{ad:033}"))).collect::<StringArray>();

    let copied = copy_speed(&numbers(0, 1));
    println!("copying an i64 column: {copied:.0} M rows/s");
    report("i64, dense", numbers(0, 1), table(0, 1), ADS, copied)?;
    report("i64, dense, half of them match", numbers(0, 1), table(0, 1), ADS / 2, copied)?;
    report("i64, hashed", numbers(5, 1 << 40), table(5, 1 << 40), ADS, copied)?;
    report("dictionary of strings", Arc::new(of_dictionary), names.clone(), ADS, copied)?;
    report("strings", Arc::new(strings), names, ADS, copied)
}

/// Looks batches of keys up in the first `ads` rows of the table, and prints the speed.
fn report(name: &str, keys: ArrayRef, table: ArrayRef, ads: i64, copied: f64) -> Result<(), Cause> {
    let campaigns = Arc::new((0..ads).map(|ad| ad / 10).collect::<Int64Array>()) as ArrayRef;
    let times = Arc::new((0..BATCH_ROWS).collect::<Int64Array>()) as ArrayRef;
    let rows = |columns: [(&str, ArrayRef); 2]| {
        RecordBatch::try_from_iter(columns).map_err(|error| Cause::bug(error.to_string()))
    };
    let stream = rows([("ad", keys), ("event_time", times)])?;
    let table = rows([("ad", table.slice(0, ads as usize)), ("campaign", campaigns)])?;
    let mut lookup = Lookup::new(LookupSpec {
        memory: MemoryBudget::unlimited(),
        stream: stream.schema(),
        dimension: Arc::new(Dimension::new(table, vec![0])?),
        keys: vec![0],
        kind: LookupKind::Inner,
        residual: None,
        output: vec![LookupColumn::Stream(1), LookupColumn::Dimension(1)],
    })?;
    let start = Instant::now();
    for _ in 0..BATCHES {
        black_box(lookup.apply(black_box(&stream), &Cut::first())?);
    }
    let speed = (BATCH_ROWS as usize * BATCHES) as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!("{name}: {speed:.0} M rows/s on one core, {:.2} of copying", speed / copied);
    Ok(())
}

fn copy_speed(column: &Int64Array) -> f64 {
    let start = Instant::now();
    for _ in 0..BATCHES {
        black_box(black_box(column).values().to_vec());
    }
    (column.len() * BATCHES) as f64 / start.elapsed().as_secs_f64() / 1e6
}
