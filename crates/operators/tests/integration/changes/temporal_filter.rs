//! Conditions on the time that passes against a loop over all rows.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, TimestampNanosecondArray};
use arrow_schema::{DataType, TimeUnit};
use proptest::prelude::*;
use tidemill_core::{Batch, Cause, Cut, Expression, Operator, Output};
use tidemill_operators::changes::{TemporalFilter, TemporalFilterSpec};

use super::relation::{Relation, Row, Value, batch, schema};
use super::runs::{CYCLE_NS, Given, check_at, cycles};

/// A row passes from its number on for a while, and rows with the text `a` for good; rows without a number never pass.
fn passes(int: Option<i64>, text: Option<&str>, spans: &[(i64, i64)], now_ns: i64) -> Option<bool> {
    let int = int?;
    let is_within = spans.iter().any(|(from, until)| {
        let start_ns = int * 2 * CYCLE_NS as i64;
        (start_ns + from..start_ns + until).contains(&now_ns)
    });
    Some(is_within || text == Some("a") && now_ns >= int * CYCLE_NS as i64)
}

#[derive(Clone, Debug)]
struct Condition(Vec<(i64, i64)>);

impl Expression for Condition {
    fn data_type(&self) -> DataType {
        DataType::Boolean
    }
    fn evaluate(&self, rows: &RecordBatch, cut: &Cut) -> Result<ArrayRef, Cause> {
        let (ints, texts) = (rows.column(0).as_primitive::<Int64Type>(), rows.column(2).as_string::<i32>());
        let pairs = ints.iter().zip(texts);
        let now_ns = cut.closed_at_ns as i64;
        Ok(Arc::new(pairs.map(|(int, text)| passes(int, text, &self.0, now_ns)).collect::<BooleanArray>()))
    }
}

/// The number of a row times a factor, plus a time.
#[derive(Debug)]
struct Moment(i64, i64);

impl Expression for Moment {
    fn data_type(&self) -> DataType {
        DataType::Timestamp(TimeUnit::Nanosecond, None)
    }
    fn evaluate(&self, rows: &RecordBatch, _: &Cut) -> Result<ArrayRef, Cause> {
        let ints = rows.column(0).as_primitive::<Int64Type>();
        let moments = ints.iter().map(|int| Some(int? * self.0 + self.1));
        Ok(Arc::new(moments.collect::<TimestampNanosecondArray>()))
    }
}

fn spec(spans: &[(i64, i64)], changes: bool) -> TemporalFilterSpec {
    let cycle_ns = CYCLE_NS as i64;
    let bounds = spans.iter().flat_map(|(from, until)| [*from, *until]);
    let mut moments: Vec<Arc<dyn Expression>> =
        bounds.map(|bound| Arc::new(Moment(2 * cycle_ns, bound)) as Arc<dyn Expression>).collect();
    moments.push(Arc::new(Moment(cycle_ns, 0)));
    let condition = Arc::new(Condition(spans.to_vec()));
    TemporalFilterSpec { schema: schema(), changes, condition, moments, rows_max: 1000 }
}

fn answer(spans: &[(i64, i64)], given: &Relation, now_ns: u64) -> Relation {
    let passing = |row: &Row| {
        let int = if let Value::Int(int) = row[0] { Some(int) } else { None };
        let text = if let Value::Text(text) = &row[2] { Some(text.as_str()) } else { None };
        passes(int, text, spans, now_ns as i64) == Some(true)
    };
    given.iter().filter(|(row, _)| passing(row)).map(|(row, weight)| (row.clone(), *weight)).collect()
}

proptest! {
    #[test]
    fn rows_pass_while_the_condition_is_true(
        (changes, cycles) in any::<bool>().prop_flat_map(|is| (Just(is), cycles(vec![is], 14))),
        // The first one may lie in the past of all rows, or be empty.
        spans in prop::collection::vec((-15..40_i64, 0..50_i64).prop_map(|(from, length)| (from, from + length)), 1..3),
    ) {
        let make = || Box::new(TemporalFilter::new(spec(&spans, changes)).unwrap()) as Box<dyn Operator>;
        let inputs = [Given { schema: schema(), changes }];
        let port = TemporalFilter::output_schema(&spec(&spans, changes));
        check_at(make, &port, &inputs, &cycles, |given, now_ns| answer(&spans, &given[0], now_ns));
    }
}

#[test]
fn nothing_is_kept_of_rows_that_have_left_for_good_or_stay() {
    let spec = spec(&[(0, 25)], false);
    let mut output = Output::new(&[TemporalFilter::output_schema(&spec)]);
    let mut filter = TemporalFilter::new(spec).unwrap();
    let row =
        |int: i64, text: &str| vec![Value::Int(int), Value::Null, Value::Text(text.to_owned()), Value::Null];
    let rows: Vec<Row> = vec![row(1, "b"), row(5, "b"), row(0, "a")];
    let rows = batch(&schema(), &rows.iter().collect::<Vec<_>>());
    filter.rows(0, Batch::from_source(rows, vec![0, 1, 2].into()).as_rows(), &mut output).unwrap();
    let mut close = |filter: &mut TemporalFilter, closed_at_ns: u64| {
        filter.end_of_cycle(&Cut { closed_at_ns, ..Cut::first() }, &mut output).unwrap();
        let kept = filter.state_rows().unwrap().unwrap()[0].rows.num_rows();
        (output.finish(0).map_or(0, |written| written.len()), kept, filter.next_clock_timer())
    };
    assert_eq!(close(&mut filter, 20), (2, 3, Some(25)), "the first and the last have come");
    assert_eq!(close(&mut filter, 30), (0, 2, Some(45)), "the last stays for good");
    assert_eq!(close(&mut filter, 28), (0, 2, Some(45)), "time does not go back");
    assert_eq!(close(&mut filter, 45), (1, 1, Some(50)), "the first has left");
    assert_eq!(close(&mut filter, 1000), (0, 0, None), "the second was never seen");
}
