//! What it costs to number the keys of rows, for 10, 10^4 and 10^6 keys, in the index of aggregates and in that of joins:
//! `cargo run --release -p tidemill-operators --example key_speed`. Prints nanoseconds of processor time for each row,
//! the least of several passes.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use tidemill_core::{Batch, Clock, Cut, Operator, Output, ThreadTime};
use tidemill_operators::Groups;
use tidemill_operators::join::JoinKind;
use tidemill_operators::table_join::{TableJoin, TableJoinSpec, output_schema};

const BATCH_ROWS: u64 = 8192;
const BATCHES: u64 = 256;
const PASSES: usize = 5;

/// Numbers below `keys`, in an order that no cache knows.
fn numbers(batch: u64, keys: u64) -> impl Iterator<Item = u64> {
    let first = batch * BATCH_ROWS;
    (first..first + BATCH_ROWS).map(move |row| (row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) % keys)
}

fn texts(batch: u64, keys: u64) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(numbers(batch, keys).map(|number| format!("campaign-{number}"))))
}

fn integers(batch: u64, keys: u64) -> ArrayRef {
    Arc::new(numbers(batch, keys).map(|number| Some(number as i64)).collect::<Int64Array>())
}

/// The least time of a row.
fn least(mut pass: impl FnMut()) -> f64 {
    let times = (0..PASSES).map(|_| {
        let before_ns = ThreadTime.now_ns();
        pass();
        (ThreadTime.now_ns() - before_ns) as f64
    });
    times.fold(f64::INFINITY, f64::min) / (BATCHES * BATCH_ROWS) as f64
}

fn grouped(batches: &[Vec<ArrayRef>]) -> f64 {
    let types: Vec<_> = batches[0].iter().map(|column| column.data_type().clone()).collect();
    let mut ids = Vec::new();
    least(|| {
        let mut groups = Groups::new(&types, usize::MAX).expect("keys");
        batches.iter().for_each(|keys| groups.intern(keys, keys[0].len(), &mut ids).expect("groups"));
    })
}

/// Upserts of a table of a join: interned keys in the index of joins and running functions.
fn upserted(batches: &[Vec<ArrayRef>]) -> f64 {
    let rows =
        |keys: &Vec<ArrayRef>| RecordBatch::try_from_iter([("a", keys[0].clone()), ("b", keys[1].clone())]);
    let batches: Vec<RecordBatch> = batches.iter().map(|keys| rows(keys).expect("rows")).collect();
    let spec = TableJoinSpec {
        stream: batches[0].schema(),
        table: batches[0].schema(),
        stream_keys: vec![0, 1],
        table_keys: vec![0, 1],
        kind: JoinKind::Inner,
        residual: None,
        rows_max: usize::MAX,
    };
    let positions: Vec<u32> = (0..BATCH_ROWS as u32).collect();
    least(|| {
        let mut join = TableJoin::new(spec.clone()).expect("a join");
        let mut output = Output::new(&[output_schema(&spec)]);
        for rows in &batches {
            let batch = Batch::from_source(rows.clone(), positions.clone().into());
            join.rows(0, batch.as_rows(), &mut output).expect("upserts");
            join.end_of_cycle(&Cut::first(), &mut output).expect("a cycle");
        }
    })
}

fn main() {
    for keys in [10, 10_000, 1_000_000] {
        let of = |columns: fn(u64, u64) -> Vec<ArrayRef>| -> Vec<Vec<ArrayRef>> {
            (0..BATCHES).map(|batch| columns(batch, keys)).collect()
        };
        let text = of(|batch, keys| vec![texts(batch, keys)]);
        let both = of(|batch, keys| vec![texts(batch, keys), integers(batch, keys)]);
        println!(
            "{keys:>8} keys: text {:6.1} ns, text and number {:6.1} ns, table of a join {:6.1} ns",
            grouped(&text),
            grouped(&both),
            upserted(&both)
        );
    }
}
