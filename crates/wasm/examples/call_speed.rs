//! What a call costs, per row: `cargo run --release -p tidemill-wasm --example call_speed [MODULE.wasm FUNCTION]`.
//!
//! Processor time, so that other work on the machine does not count. A module from outside has to export a function of two
//! numbers (f64).

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Float64Array, Int64Array, StringArray};
use arrow_schema::DataType::{self, Float64, Int64, Utf8};
use tidemill_wasm::{Aggregate, Function, Limits, Module, RowOperator};

const ROWS: usize = 8192;
const TIME: Duration = Duration::from_millis(1000);

/// The same computation in both ways.
const ROW: &str = r#"(module (func (export "f") (param f64 f64) (result f64)
    (f64.add (f64.mul (local.get 0) (f64.const 0.6215)) (local.get 1))))"#;
const BATCH: &str = r#"(module (memory (export "memory") 16)
    (func $allocate (export "tidemill_allocate") (param i32) (result i32) (i32.const 1024))
    (func (export "f") (param $rows i32) (param $arguments i32) (param $result i32)
        (local $a i32) (local $b i32) (local $to i32) (local $end i32)
        (local.set $a (i32.load offset=4 (local.get $arguments)))
        (local.set $b (i32.load offset=16 (local.get $arguments)))
        (local.set $to (i32.const 524288))
        (i32.store offset=4 (local.get $result) (local.get $to))
        (local.set $end (i32.add (local.get $to) (i32.shl (local.get $rows) (i32.const 3))))
        (loop $next
            (f64.store (local.get $to)
                (f64.add (f64.mul (f64.load (local.get $a)) (f64.const 0.6215)) (f64.load (local.get $b))))
            (local.set $a (i32.add (local.get $a) (i32.const 8)))
            (local.set $b (i32.add (local.get $b) (i32.const 8)))
            (local.set $to (i32.add (local.get $to) (i32.const 8)))
            (br_if $next (i32.lt_u (local.get $to) (local.get $end))))))"#;

fn measure(
    what: &str,
    module: &[u8],
    symbol: &str,
    arguments: &[DataType],
    result: &DataType,
    columns: &[ArrayRef],
) {
    let module = Module::new(module).expect("a module");
    let started = Instant::now();
    let function = Function::new(&module, symbol, arguments, result, Limits::default()).expect("a function");
    let defined = started.elapsed();
    for rows in [1, 64, ROWS] {
        let columns: Vec<ArrayRef> = columns.iter().map(|column| column.slice(0, rows)).collect();
        let (started, used, mut calls) = (Instant::now(), used_ns(), 0_u32);
        while started.elapsed() < TIME {
            function.call(&columns, rows).expect("values");
            calls += 1;
        }
        let per_row = (used_ns() - used) / f64::from(calls) / rows as f64;
        println!("{what:<40} {rows:>5} rows at a time {per_row:>10.1} ns per row");
    }
    println!("{what:<40} defined in {:.1} ms", defined.as_secs_f64() * 1e3);
}

/// The mean of numbers, and the rises of whole numbers, for this many groups.
fn measure_states(groups: u32) {
    let of_rows: Vec<u32> = (0..ROWS as u32).map(|row| row % groups).collect();
    let numbers: ArrayRef = Arc::new((0..ROWS).map(|row| Some(row as f64)).collect::<Float64Array>());
    let module = Module::new(include_bytes!("../tests/integration/mean.wat")).expect("a module");
    let mean = Aggregate::new(&module, "mean", &[Float64], &[Int64, Float64], &Float64, Limits::default());
    let mean = mean.expect("an aggregate");
    let mut states = mean.states();
    states.resize(groups as usize);
    let per_row = per_row(|| mean.update(&mut states, &of_rows, &[Arc::clone(&numbers)]).expect("states"));
    println!("{:<40} {groups:>5} groups         {per_row:>10.1} ns per row", "mean (an aggregate)");

    let whole: ArrayRef =
        Arc::new((0..ROWS as i64).map(|row| Some(row * 7919 % 1000)).collect::<Int64Array>());
    let types = [Int64, Int64];
    let module = Module::new(include_bytes!("../tests/integration/rises.wat")).expect("a module");
    let rises = RowOperator::new(&module, "rises", &types, &types, &types, Limits::default());
    let rises = rises.expect("an operator");
    let mut states = rises.states();
    states.resize(groups as usize);
    let columns = [Arc::clone(&whole), whole];
    let per_row = self::per_row(|| drop(rises.call(&mut states, &of_rows, &columns).expect("rows")));
    println!("{:<40} {groups:>5} keys           {per_row:>10.1} ns per row", "rises (a function of rows)");
}

/// The processor time of calls with whole batches.
fn per_row(mut call: impl FnMut()) -> f64 {
    let (started, used, mut calls) = (Instant::now(), used_ns(), 0_u32);
    while started.elapsed() < TIME {
        call();
        calls += 1;
    }
    (used_ns() - used) / f64::from(calls) / ROWS as f64
}

/// The processor time of this thread, as Linux counts it.
fn used_ns() -> f64 {
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    counted.split_whitespace().next().and_then(|used| used.parse().ok()).expect("a number")
}

fn main() {
    let numbers = |factor: f64| -> ArrayRef {
        Arc::new((0..ROWS).map(|row| Some(row as f64 * factor % 40.0 - 20.0)).collect::<Float64Array>())
    };
    let columns = [numbers(0.7), numbers(1.3)];
    let types = [Float64, Float64];
    measure("a * 0.6215 + b, by row", ROW.as_bytes(), "f", &types, &Float64, &columns);
    measure("a * 0.6215 + b, by batch", BATCH.as_bytes(), "f", &types, &Float64, &columns);
    let shout = include_str!("../tests/integration/shout.wat");
    let texts: ArrayRef =
        Arc::new((0..ROWS).map(|row| Some(format!("sensor {row}"))).collect::<StringArray>());
    measure("capitals of 11 letters, by batch", shout.as_bytes(), "f", &[Utf8], &Utf8, &[texts]);
    [1, 100, ROWS as u32].into_iter().for_each(measure_states);
    let mut arguments = std::env::args().skip(1);
    if let (Some(path), Some(symbol)) = (arguments.next(), arguments.next()) {
        let module = std::fs::read(&path).expect("a file");
        measure(&symbol, &module, &symbol, &types, &Float64, &columns);
    }
}
