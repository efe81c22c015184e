//! How many rows per second of processor time the operators over changing relations take, beside the operators for streams
//! that only grow where both can do the work.
//!
//! ```console
//! $ cargo run --release -p tidemill-operators --example changes_speed [WORD [KEYS]]
//! ```
//!
//! Only lines with the word are measured, and only with this many keys. In a stream that changes, half of the rows come and the other half go again.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use tidemill_core::{Batch, Cause, Clock, Cut, Operator, Output, ThreadTime};
use tidemill_operators::aggregate::{Aggregate as Function, Average, Count, Extreme, Spread, Sum, Variance};
use tidemill_operators::changes::{
    Aggregate, ChangingAggregateSpec, ChangingJoinKind, ChangingJoinSpec, ChangingTopSpec, Join,
    SetOperation, SetOperationKind, SetOperationSpec, Top, Upserts, UpsertsSpec, WEIGHT, data_schema,
};
use tidemill_operators::join::JoinKind;
use tidemill_operators::table_join::{self, TableJoin, TableJoinSpec};
use tidemill_operators::top::{Numbering, OrderBy};
use tidemill_operators::{AggregateCall, AggregateSpec, TableAggregate};

const CYCLE_ROWS: usize = 8192;
const CYCLES: usize = 64;
const ROUNDS: usize = 3;
/// The number of rows after which a row of a changing stream goes again.
const LIFE_ROWS: usize = 100_000;

/// An operator with the columns of its output.
type Made = Result<(Box<dyn Operator>, SchemaRef), Cause>;

fn main() -> Result<(), Box<dyn Error>> {
    let word = std::env::args().nth(1).unwrap_or_default();
    let only = std::env::args().nth(2).map(|keys| keys.parse()).transpose()?;
    for keys in only.map_or(vec![1_000, 100_000], |keys| vec![keys]) {
        println!("-- {keys} keys, cycles of {CYCLE_ROWS} rows");
        aggregates(keys, &word)?;
        joins(keys, &word)?;
        others(keys, &word)?;
    }
    Ok(())
}

fn aggregates(keys: u64, word: &str) -> Result<(), Cause> {
    let (int, real) = (DataType::Int64, DataType::Float64);
    let (growing, changing) = (stream(keys, false), stream(keys, true));
    let functions = [
        ("count(*)", vec![call(Count::rows(), vec![])]),
        ("sum(int)", vec![call(Sum::new(&int)?, vec![1])]),
        ("avg(real)", vec![call(Average::new(&real)?, vec![2])]),
        (
            "min(int), max(real)",
            vec![call(Extreme::minimum(&int)?, vec![1]), call(Extreme::maximum(&real)?, vec![2])],
        ),
        ("var_samp(real)", vec![call(Variance::new(Spread::SampleVariance, &real)?, vec![2])]),
        ("DISTINCT", vec![]),
    ];
    for (name, calls) in functions {
        if name == "var_samp(real)" && keys < 10_000 {
            continue; // Recomputing groups of a hundred rows takes long.
        }
        let columns = if calls.is_empty() { vec![0, 1] } else { vec![0] };
        let names = (0..columns.len() + calls.len()).map(|column| format!("column_{column}"));
        let spec = AggregateSpec {
            keys: columns,
            calls,
            names: names.collect(),
            input: data_schema(&growing[0].schema()),
            partial_input: false,
            groups_max: 10_000_000,
        };
        let made = || -> Made {
            let schema = TableAggregate::output_schema(&spec)?;
            Ok((Box::new(TableAggregate::new(&spec)?), schema))
        };
        report(word, &format!("{name}: TableAggregate, growing"), &[], &[&growing], made)?;
        for (how, changes, rows) in [("growing", false, &growing), ("changing", true, &changing)] {
            let spec = ChangingAggregateSpec { spec: spec.clone(), changes, rows_max: 10_000_000 };
            let made =
                || -> Made { Ok((Box::new(Aggregate::new(&spec)?), Aggregate::output_schema(&spec)?)) };
            report(word, &format!("{name}: changes::Aggregate, {how}"), &[], &[rows], made)?;
        }
    }
    Ok(())
}

fn joins(keys: u64, word: &str) -> Result<(), Cause> {
    let (growing, changing) = (stream(keys, false), stream(keys, true));
    let data = data_schema(&growing[0].schema());
    let table = vec![table(keys)];
    let spec = TableJoinSpec {
        stream: data.clone(),
        table: table[0].schema(),
        stream_keys: vec![0],
        table_keys: vec![0],
        kind: JoinKind::Inner,
        residual: None,
        rows_max: 10_000_000,
    };
    let made = || -> Made { Ok((Box::new(TableJoin::new(spec.clone())?), table_join::output_schema(&spec))) };
    report(word, "join: TableJoin, a growing stream", &table, &[&[], &growing], made)?;
    use ChangingJoinKind::*;
    for (kind, how, changes, rows) in [
        (Inner, "growing", false, &growing),
        (Inner, "changing", true, &changing),
        (Left, "changing", true, &changing),
        (LeftSemi, "changing", true, &changing),
    ] {
        let spec = ChangingJoinSpec {
            left: table[0].schema(),
            right: data.clone(),
            left_changes: false,
            right_changes: changes,
            left_keys: vec![0],
            right_keys: vec![0],
            null_equals_null: false,
            kind,
            residual: None,
            rows_max: 10_000_000,
        };
        let made = || -> Made { Ok((Box::new(Join::new(spec.clone())?), Join::output_schema(&spec))) };
        report(word, &format!("join: changes::Join {kind:?}, {how}"), &table, &[&[], rows], made)?;
    }
    Ok(())
}

fn others(keys: u64, word: &str) -> Result<(), Cause> {
    let (growing, changing) = (stream(keys, false), stream(keys, true));
    let schema = data_schema(&growing[0].schema());
    let spec = UpsertsSpec { schema: schema.clone(), keys: vec![0], rows_max: 10_000_000 };
    let made = || -> Made { Ok((Box::new(Upserts::new(spec.clone())?), Upserts::output_schema(&spec))) };
    report(word, "upserts: changes::Upserts", &[], &[&growing], made)?;
    for (how, changes, rows) in [("growing", false, &growing), ("changing", true, &changing)] {
        let spec = ChangingTopSpec {
            schema: schema.clone(),
            changes,
            partition: vec![0],
            order: vec![OrderBy { column: 2, descending: true, nulls_first: false }],
            skip: 0,
            fetch: Some(3),
            numbering: Numbering::RowNumber,
            number_column: None,
            rows_max: 10_000_000,
        };
        let made = || -> Made { Ok((Box::new(Top::new(spec.clone())?), Top::output_schema(&spec))) };
        report(word, &format!("top 3 of each key: changes::Top, {how}"), &[], &[rows], made)?;
    }
    let spec = SetOperationSpec {
        schema,
        kind: SetOperationKind::ExceptAll,
        left_changes: true,
        right_changes: false,
        rows_max: 10_000_000,
    };
    let made =
        || -> Made { Ok((Box::new(SetOperation::new(spec.clone())?), SetOperation::output_schema(&spec))) };
    report(word, "EXCEPT ALL: changes::SetOperation, changing", &[], &[&changing], made)
}

/// Prints the best of several rounds: an operator takes one batch of each input per cycle, after a first cycle whose rows are
/// there before, on input 0.
fn report(
    word: &str,
    name: &str,
    before: &[RecordBatch],
    inputs: &[&[RecordBatch]],
    made: impl Fn() -> Made,
) -> Result<(), Cause> {
    if !name.contains(word) {
        return Ok(());
    }
    let (mut best, mut bytes, mut written) = (0.0_f64, 0, 0);
    for _ in 0..ROUNDS {
        let (mut operator, schema) = made()?;
        let mut output = Output::new(&[schema]);
        give(operator.as_mut(), 0, before, &mut output)?;
        operator.end_of_cycle(&Cut::first(), &mut output)?;
        output.finish(0);
        let (start_ns, mut rows) = (ThreadTime.now_ns(), 0);
        written = 0;
        for cycle in 0..CYCLES {
            for (input, batches) in inputs.iter().enumerate() {
                let batch = &batches[cycle.min(batches.len())..(cycle + 1).min(batches.len())];
                rows += batch.iter().map(RecordBatch::num_rows).sum::<usize>();
                give(operator.as_mut(), input, batch, &mut output)?;
            }
            operator.end_of_cycle(&Cut::first(), &mut output)?;
            written += output.finish(0).map_or(0, |batch| batch.len());
        }
        best = best.max(rows as f64 / (ThreadTime.now_ns() - start_ns) as f64 * 1e3);
        bytes = operator.state_bytes();
    }
    println!("{best:8.2} M rows/s {:8.1} MB, {written:8} rows out  {name}", bytes as f64 / 1e6);
    Ok(())
}

fn give(
    operator: &mut dyn Operator,
    input: usize,
    batches: &[RecordBatch],
    output: &mut Output,
) -> Result<(), Cause> {
    for rows in batches {
        let batch = Batch::from_source(rows.clone(), (0..rows.num_rows() as u32).collect());
        operator.rows(input, batch.as_rows(), output)?;
    }
    Ok(())
}

fn call(function: impl Function + 'static, arguments: Vec<usize>) -> AggregateCall {
    AggregateCall { function: Arc::new(function), arguments, filter: None }
}

/// A row for each key.
fn table(keys: u64) -> RecordBatch {
    let ids = Arc::new(Int64Array::from_iter_values(0..keys as i64)) as ArrayRef;
    let names = (0..keys).map(|key| format!("customer {key}")).collect::<Vec<_>>();
    let names = Arc::new(arrow_array::StringArray::from(names)) as ArrayRef;
    RecordBatch::try_from_iter([("id", ids), ("name", names)]).expect("equal lengths")
}

/// Batches of rows with a key, an integer and a real number, with weights if rows go again.
fn stream(keys: u64, changes: bool) -> Vec<RecordBatch> {
    let mut random = 1_u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    let mut live = VecDeque::new();
    let mut row = |number: usize| {
        if changes && number % 2 == 1 && live.len() > LIFE_ROWS / 2 {
            let (key, int, real) = live.pop_front().expect("it is not empty");
            return (key, int, real, -1);
        }
        let (key, int, real) = ((next() % keys) as i64, (next() % 1_000_000) as i64, next() as f64 / 1e3);
        live.push_back((key, int, real));
        (key, int, real, 1)
    };
    let batch = |_| {
        let rows: Vec<(i64, i64, f64, i64)> = (0..CYCLE_ROWS).map(&mut row).collect();
        let ints = |of: fn(&(i64, i64, f64, i64)) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
        };
        let reals = Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.2))) as ArrayRef;
        let mut columns = vec![("key", ints(|row| row.0)), ("int", ints(|row| row.1)), ("real", reals)];
        if changes {
            columns.push((WEIGHT, ints(|row| row.3)));
        }
        RecordBatch::try_from_iter(columns).expect("equal lengths")
    };
    (0..CYCLES).map(batch).collect()
}
