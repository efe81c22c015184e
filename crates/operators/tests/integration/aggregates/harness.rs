//! Rows, specifications, and running an operator over cycles.

use std::sync::Arc;

use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::{option, sample};
use tidemill_core::{Batch, Cut, Operator, Output};
use tidemill_operators::aggregate::{Aggregate, Average, Count, CountDistinct, Extreme, Sum};
use tidemill_operators::{AggregateCall, AggregateSpec};

use crate::restored::{held_lines, restored};

/// A row of the tests' stream.
#[derive(Clone, Debug)]
pub struct Row {
    pub time: Option<i64>,
    pub number: Option<i64>,
    pub text: Option<&'static str>,
    pub value: Option<i64>,
    pub real: Option<f64>,
    pub flag: Option<bool>,
}

/// The columns of a row.
pub const TIME: usize = 0;
pub const NUMBER: usize = 1;
pub const TEXT: usize = 2;
pub const VALUE: usize = 3;
pub const REAL: usize = 4;
pub const FLAG: usize = 5;
pub const CODE: usize = 6;

/// Rows with times in a range, from few values of everything, so that groups have several rows.
pub fn row(times: std::ops::Range<i64>) -> impl Strategy<Value = Row> {
    let texts = option::weighted(0.8, sample::select(vec!["", "a", "b", "longer than a prefix"]));
    let numbers = option::weighted(0.9, prop_oneof![-2..3_i64, Just(i64::MIN), Just(i64::MAX)]);
    let values =
        (option::weighted(0.8, -50..50_i64), option::weighted(0.8, -50..50_i32), option::of(any::<bool>()));
    (option::weighted(0.95, times), numbers, texts, values).prop_map(|(time, number, text, values)| Row {
        time,
        number,
        text,
        value: values.0,
        real: values.1.map(|real| f64::from(real) / 4.0),
        flag: values.2,
    })
}

/// A cycle: calls of rows each, and the watermark at its end.
pub type Cycle = (Vec<Vec<Row>>, i64);

/// Some cycles, their watermarks anywhere in the range of times.
pub fn cycles(times: std::ops::Range<i64>) -> impl Strategy<Value = Vec<Cycle>> {
    let calls = vec(vec(row(times.clone()), 0..30), 0..4);
    vec((calls, times.start - 20..times.end + 20), 1..6)
}

/// The rows as columns.
pub fn batch(rows: &[Row]) -> RecordBatch {
    let mut codes = StringDictionaryBuilder::<Int32Type>::new();
    rows.iter().for_each(|row| codes.append_option(row.text));
    let columns: [(&str, ArrayRef); 7] = [
        ("time", Arc::new(rows.iter().map(|row| row.time).collect::<TimestampNanosecondArray>())),
        ("number", Arc::new(rows.iter().map(|row| row.number).collect::<Int64Array>())),
        ("text", Arc::new(rows.iter().map(|row| row.text).collect::<StringArray>())),
        ("value", Arc::new(rows.iter().map(|row| row.value).collect::<Int64Array>())),
        ("real", Arc::new(rows.iter().map(|row| row.real).collect::<Float64Array>())),
        ("flag", Arc::new(rows.iter().map(|row| row.flag).collect::<BooleanArray>())),
        ("code", Arc::new(codes.finish())),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true))).unwrap()
}

pub fn call(function: impl Aggregate + 'static, arguments: &[usize], filter: Option<usize>) -> AggregateCall {
    AggregateCall { function: Arc::new(function), arguments: arguments.to_vec(), filter }
}

/// A specification with functions whose results do not depend on the order of rows.
pub fn spec(keys: &[usize], window_columns: usize) -> AggregateSpec {
    let input = batch(&[]).schema();
    let data_type = |column: usize| input.field(column).data_type();
    let calls = vec![
        call(Count::rows(), &[], None),
        call(Count::values(), &[VALUE], Some(FLAG)),
        call(Sum::new(data_type(VALUE)).unwrap(), &[VALUE], None),
        call(Average::new(data_type(VALUE)).unwrap(), &[VALUE], Some(FLAG)),
        call(Extreme::minimum(data_type(REAL)).unwrap(), &[REAL], None),
        call(Extreme::maximum(data_type(TEXT)).unwrap(), &[TEXT], None),
        call(CountDistinct::new(data_type(VALUE), 10_000).unwrap(), &[VALUE], None),
    ];
    let columns = keys.len() + window_columns + calls.len();
    AggregateSpec {
        keys: keys.to_vec(),
        calls,
        names: (0..columns).map(|column| format!("column_{column}")).collect(),
        input,
        partial_input: false,
        groups_max: 10_000,
    }
}

/// The keys that tests group by.
pub fn keys() -> impl Strategy<Value = Vec<usize>> {
    let choices =
        vec![vec![], vec![NUMBER], vec![TEXT], vec![CODE], vec![FLAG, CODE], vec![NUMBER, TEXT, REAL]];
    sample::select(choices)
}

/// The rows of a batch as text, a line break for NULL: no text of these tests has one, while `.` makes any other.
pub fn lines(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::new().with_null("\n");
    let formatters = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap());
    let formatters = formatters.collect::<Vec<_>>();
    let line =
        |row| formatters.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|");
    (0..batch.num_rows()).map(line).collect()
}

pub fn cut(cycle: usize, watermark: i64) -> Cut {
    Cut { cycle: cycle as u64, watermarks: vec![watermark], ..Cut::first() }
}

/// Runs one cycle and returns what it wrote.
pub fn run_cycle(
    operator: &mut dyn Operator,
    output: &mut Output,
    cycle: (usize, &[RecordBatch], i64),
) -> Vec<String> {
    let (number, calls, watermark) = cycle;
    let mut position = 0;
    output.begin_cycle(calls.iter().map(|call| call.num_rows() as u32).sum());
    for rows in calls {
        let positions = (position..position + rows.num_rows() as u32).collect::<Vec<_>>();
        position += rows.num_rows() as u32;
        let batch = Batch::from_source(rows.clone(), positions.into());
        operator.rows(0, batch.as_rows(), output).unwrap();
    }
    operator.end_of_cycle(&cut(number, watermark), output).unwrap();
    let Some(batch) = output.finish(0) else { return Vec::new() };
    assert!(batch.positions.iter().all(|written| *written == position), "caused by the end of the cycle");
    lines(&batch.rows)
}

/// Runs an operator over all cycles; it is replaced by one restored from its snapshot after `restored_after`
/// of them.
pub fn run(
    make: &dyn Fn() -> Box<dyn Operator>,
    schema: arrow_schema::SchemaRef,
    cycles: &[(Vec<RecordBatch>, i64)],
    restored_after: Option<usize>,
) -> Vec<Vec<String>> {
    let (mut operator, mut output) = (make(), Output::new(&[schema]));
    let mut written = Vec::new();
    for (number, (calls, watermark)) in cycles.iter().enumerate() {
        if restored_after == Some(number) {
            operator = restored(operator.as_ref(), make).unwrap();
        }
        written.push(run_cycle(operator.as_mut(), &mut output, (number, calls, *watermark)));
    }
    written
}

/// What an operator holds after all cycles, as its restored snapshot shows it: each kind of rows, sorted.
pub fn held(
    make: &dyn Fn() -> Box<dyn Operator>,
    schema: arrow_schema::SchemaRef,
    cycles: &[(Vec<RecordBatch>, i64)],
) -> Vec<(&'static str, Vec<String>)> {
    let (mut operator, mut output) = (make(), Output::new(&[schema]));
    for (number, (calls, watermark)) in cycles.iter().enumerate() {
        run_cycle(operator.as_mut(), &mut output, (number, calls, *watermark));
    }
    held_lines(operator.as_ref(), make, |kind| {
        let mut lines = lines(&kind.rows);
        lines.sort();
        lines
    })
}

/// The cycles as columns, each call by itself.
pub fn divided(cycles: &[Cycle]) -> Vec<(Vec<RecordBatch>, i64)> {
    let calls = |calls: &[Vec<Row>]| calls.iter().map(|rows| batch(rows)).collect();
    cycles.iter().map(|(cycle, watermark)| (calls(cycle), *watermark)).collect()
}

/// The cycles as columns, the rows of each in one call.
pub fn undivided(cycles: &[Cycle]) -> Vec<(Vec<RecordBatch>, i64)> {
    cycles.iter().map(|(calls, watermark)| (vec![batch(&calls.concat())], *watermark)).collect()
}

/// Each cycle's lines sorted.
pub fn sorted(mut cycles: Vec<Vec<String>>) -> Vec<Vec<String>> {
    cycles.iter_mut().for_each(|lines| lines.sort());
    cycles
}
