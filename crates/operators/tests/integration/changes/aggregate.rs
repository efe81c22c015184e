//! Aggregates of changing relations against loops over the rows of each group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BooleanArray, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use proptest::prelude::*;
use tidemill_core::{Batch, Cause, Cut, Fault, FaultLog, Operator, Output};
use tidemill_operators::aggregate::{
    Accumulator, Aggregate as Function, Average, Count, CountDistinct, Extreme, Sum,
};
use tidemill_operators::changes::{Aggregate, ChangingAggregateSpec};
use tidemill_operators::{AggregateCall, AggregateSpec, FailedResults};

use super::relation::{self, Relation, Row, Value, changelog, changes};
use super::runs::{Change, Given, check, cycles};

/// A function that knows nothing of rows that go: the texts in the order in which it gets them, with commas.
#[derive(Debug)]
struct Texts;

#[derive(Default)]
struct TextsOfGroups(Vec<String>);

impl Function for Texts {
    fn name(&self) -> &str {
        "texts"
    }
    fn result_type(&self) -> DataType {
        DataType::Utf8
    }
    fn partial_types(&self) -> Vec<DataType> {
        vec![DataType::Utf8]
    }
    fn is_exact(&self) -> bool {
        false
    }
    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(TextsOfGroups::default())
    }
}

impl Accumulator for TextsOfGroups {
    fn resize(&mut self, groups: usize) {
        self.0.resize(groups, String::new());
    }
    fn update(
        &mut self,
        groups: &[u32],
        arguments: &[ArrayRef],
        _: Option<&BooleanArray>,
    ) -> Result<(), Cause> {
        for (group, text) in groups.iter().zip(arguments[0].as_string::<i32>()) {
            self.0[*group as usize] += &format!("{},", text.unwrap_or("NULL"));
        }
        Ok(())
    }
    fn merge(&mut self, groups: &[u32], partials: &[ArrayRef]) -> Result<(), Cause> {
        for (group, text) in groups.iter().zip(partials[0].as_string::<i32>()) {
            self.0[*group as usize] += text.unwrap_or_default();
        }
        Ok(())
    }
    fn partial(&self, groups: &[u32]) -> Result<Vec<ArrayRef>, Cause> {
        Ok(vec![self.evaluate(groups)?])
    }
    fn evaluate(&self, groups: &[u32]) -> Result<ArrayRef, Cause> {
        Ok(Arc::new(StringArray::from_iter_values(groups.iter().map(|group| &self.0[*group as usize]))))
    }
    fn clear(&mut self) {
        self.0.clear();
    }
    fn bytes(&self) -> usize {
        0
    }
}

/// The columns of relations, and a flag.
fn schema() -> SchemaRef {
    let flag = Arc::new(Field::new("flag", DataType::Boolean, true));
    Arc::new(Schema::new(relation::schema().fields().iter().cloned().chain([flag]).collect::<Vec<_>>()))
}

const INT: usize = 0;
const REAL: usize = 1;
const TEXT: usize = 2;
const FLAG: usize = 4;

fn with_flags(cycles: Vec<Vec<Change>>) -> Vec<Vec<Change>> {
    let flagged = |(input, mut row, weight): Change| {
        row.push(if let Value::Int(value) = row[INT] { Value::Bool(value == 1) } else { Value::Null });
        (input, row, weight)
    };
    cycles.into_iter().map(|cycle| cycle.into_iter().map(flagged).collect()).collect()
}

/// A call, and its answer from the rows that it counts.
struct Call {
    function: Arc<dyn Function>,
    argument: Option<usize>,
    answer: fn(&[Value]) -> Value,
}

fn ints(values: &[Value]) -> Vec<i64> {
    values
        .iter()
        .filter_map(|value| if let Value::Int(value) = value { Some(*value) } else { None })
        .collect()
}

fn reals(values: &[Value]) -> Vec<f64> {
    values
        .iter()
        .filter_map(|value| if let Value::Real(value) = value { Some(*value) } else { None })
        .collect()
}

fn known(values: &[Value]) -> Vec<&Value> {
    values.iter().filter(|value| **value != Value::Null).collect()
}

fn some<T>(values: &[T], of: impl Fn(&[T]) -> Value) -> Value {
    if values.is_empty() { Value::Null } else { of(values) }
}

/// All functions; without `inexact`, only those whose results do not depend on the order of rows that only come.
fn calls(inexact: bool) -> Vec<Call> {
    let call = |function: Arc<dyn Function>, argument, answer| Call { function, argument, answer };
    let mut calls = vec![
        call(Arc::new(Count::rows()), None, |rows| Value::Int(rows.len() as i64)),
        call(Arc::new(Count::values()), Some(TEXT), |texts| Value::Int(known(texts).len() as i64)),
        call(Arc::new(Sum::new(&DataType::Int64).unwrap()), Some(INT), |values| {
            some(&ints(values), |ints| Value::Int(ints.iter().sum()))
        }),
        call(Arc::new(Average::new(&DataType::Int64).unwrap()), Some(INT), |values| {
            some(&ints(values), |ints| Value::Real(ints.iter().sum::<i64>() as f64 / ints.len() as f64))
        }),
        call(Arc::new(Extreme::maximum(&DataType::Float64).unwrap()), Some(REAL), |values| {
            known(values).into_iter().max().cloned().unwrap_or(Value::Null)
        }),
        call(Arc::new(Extreme::minimum(&DataType::Utf8).unwrap()), Some(TEXT), |values| {
            known(values).into_iter().min().cloned().unwrap_or(Value::Null)
        }),
        call(Arc::new(CountDistinct::new(&DataType::Float64, 1000).unwrap()), Some(REAL), |values| {
            Value::Int(known(values).into_iter().collect::<BTreeSet<_>>().len() as i64)
        }),
    ];
    if inexact {
        // The values are halves, whose sums need no rounding.
        calls.push(call(Arc::new(Sum::new(&DataType::Float64).unwrap()), Some(REAL), |values| {
            some(&reals(values), |reals| Value::Real(reals.iter().sum()))
        }));
        calls.push(call(Arc::new(Average::new(&DataType::Float64).unwrap()), Some(REAL), |values| {
            some(&reals(values), |reals| Value::Real(reals.iter().sum::<f64>() / reals.len() as f64))
        }));
        calls.push(call(Arc::new(Texts), Some(TEXT), |values| {
            let mut values = values.to_vec();
            values.sort();
            let text =
                |value: &Value| if let Value::Text(text) = value { text.clone() } else { "NULL".into() };
            Value::Text(values.iter().map(|value| text(value) + ",").collect())
        }));
    }
    calls
}

fn spec(keys: &[usize], calls: &[Call], filtered: bool, changes: bool) -> ChangingAggregateSpec {
    let call = |call: &Call| AggregateCall {
        function: Arc::clone(&call.function),
        arguments: call.argument.into_iter().collect(),
        filter: filtered.then_some(FLAG),
    };
    let names = (0..keys.len() + calls.len()).map(|number| format!("column_{number}"));
    ChangingAggregateSpec {
        spec: AggregateSpec {
            keys: keys.to_vec(),
            calls: calls.iter().map(call).collect(),
            names: names.collect(),
            input: schema(),
            partial_input: false,
            groups_max: 1000,
        },
        changes,
        rows_max: 1000,
    }
}

fn answer(keys: &[usize], calls: &[Call], filtered: bool, given: &Relation) -> Relation {
    let mut groups: BTreeMap<Row, Vec<&Row>> = BTreeMap::new();
    if keys.is_empty() {
        groups.insert(Vec::new(), Vec::new());
    }
    for (row, weight) in given {
        let key = keys.iter().map(|key| row[*key].clone()).collect();
        groups.entry(key).or_default().extend(std::iter::repeat_n(row, *weight as usize));
    }
    let result = |(mut key, rows): (Row, Vec<&Row>)| {
        let rows: Vec<&&Row> =
            rows.iter().filter(|row| !filtered || row[FLAG] == Value::Bool(true)).collect();
        for call in calls {
            let value = |row: &&&Row| call.argument.map_or(Value::Null, |argument| row[argument].clone());
            key.push((call.answer)(&rows.iter().map(value).collect::<Vec<_>>()));
        }
        (key, 1)
    };
    groups.into_iter().map(result).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn it_is_the_aggregate_of_the_sum(
        (is_changing, cycles) in any::<bool>().prop_flat_map(|is| (Just(is), cycles(vec![is], 10))),
        keys in prop::sample::select(vec![vec![], vec![0], vec![1], vec![2, 3], vec![0, 1, 2, 3]]),
        filtered: bool,
        distinct: bool,
    ) {
        let calls = if distinct { Vec::new() } else { calls(is_changing) };
        let spec = spec(&keys, &calls, filtered, is_changing);
        let make = || Box::new(Aggregate::new(&spec).unwrap()) as Box<dyn Operator>;
        let inputs = [Given { schema: schema(), changes: is_changing }];
        let port = Aggregate::output_schema(&spec).unwrap();
        check(make, &port, &inputs, &with_flags(cycles), |given| answer(&keys, &calls, filtered, &given[0]));
    }
}

fn row(int: i64, real: f64) -> Row {
    vec![Value::Int(int), Value::Real(real), Value::Null, Value::Null, Value::Null]
}

/// Gives the changes of a cycle, and returns what is written.
fn cycle(
    aggregate: &mut Aggregate,
    output: &mut Output,
    given: &[(&Row, i64)],
) -> Result<Vec<(Row, i64)>, Cause> {
    let batch = Batch::from_source(changelog(&schema(), given), (0..given.len() as u32).collect());
    aggregate.rows(0, batch.as_rows(), output).unwrap();
    aggregate.end_of_cycle(&Cut { cycle: 9, ..Cut::first() }, output)?;
    Ok(output.finish(0).map(|batch| changes(&batch.rows)).unwrap_or_default())
}

fn made(spec: &ChangingAggregateSpec) -> (Aggregate, Output) {
    (Aggregate::new(spec).unwrap(), Output::new(&[Aggregate::output_schema(spec).unwrap()]))
}

fn sum_of_reals() -> Vec<Call> {
    let function = Arc::new(Sum::new(&DataType::Float64).unwrap());
    vec![Call { function, argument: Some(REAL), answer: |_| Value::Null }]
}

#[test]
fn what_goes_leaves_the_exact_sum_of_the_rest() {
    let (mut sum, mut output) = made(&spec(&[], &sum_of_reals(), false, true));
    let (large, small, tenth) = (row(0, 1e20), row(0, 1.0), row(0, 0.1));
    let mut total = |given: &[(&Row, i64)]| cycle(&mut sum, &mut output, given).unwrap().pop().unwrap().0;
    assert_eq!(total(&[(&small, 1), (&tenth, 1)]), [Value::Real(1.1)]);
    assert_eq!(total(&[(&large, 1)]), [Value::Real(1e20)]);
    assert_eq!(total(&[(&large, -1)]), [Value::Real(1.1)]);
    assert_eq!(total(&[(&row(0, f64::INFINITY), 1)]), [Value::Real(f64::INFINITY)]);
    assert_eq!(total(&[(&row(0, f64::INFINITY), -1)]), [Value::Real(1.1)]);
    assert_eq!(total(&[(&small, -1), (&tenth, -1)]), [Value::Null]);
}

#[test]
fn a_row_that_goes_without_having_come_is_reported_and_ignored() {
    let log = FaultLog::default();
    let calls = calls(false);
    let (aggregate, mut output) = made(&spec(&[INT], &calls[..5], false, true));
    let mut aggregate = aggregate.faults(log.clone());
    let (one, two) = (row(1, 1.5), row(2, 1.5));
    assert_eq!(cycle(&mut aggregate, &mut output, &[(&one, 1), (&two, -1)]).unwrap().len(), 1);
    let expected = "a deletion was ignored because no such row is left for int: 2, cycle 9";
    assert_eq!((log.read().count, log.read().samples[0].as_str()), (1, expected));
    // The group has rows, but none with this value.
    cycle(&mut aggregate, &mut output, &[(&one, 1), (&row(1, 7.5), -1)]).unwrap();
    let expected = "1 deletions were ignored because their groups have no such rows, cycle 9";
    assert_eq!((log.read().count, log.read().samples[1].as_str()), (2, expected));
}

#[test]
fn a_sum_that_does_not_fit_is_null_until_it_fits() {
    let calls = calls(false);
    let (aggregate, mut output) = made(&spec(&[], &calls[2..3], false, true));
    let log = FaultLog::default();
    let mut aggregate = aggregate.failed_results(FailedResults::Null(log.clone()));
    let (large, one) = (row(i64::MAX, 0.0), row(1, 0.0));
    let mut changes = |given: &[(&Row, i64)]| cycle(&mut aggregate, &mut output, given).unwrap();
    changes(&[(&large, 1)]);
    let null = (vec![Value::Null], 1);
    assert_eq!(changes(&[(&one, 1)]), [(vec![Value::Int(i64::MAX)], -1), null]);
    assert_eq!(changes(&[(&large, -1)]), [(vec![Value::Null], -1), (vec![Value::Int(1)], 1)]);
    assert_eq!(log.read().count, 1);
    assert!(log.read().samples[0].starts_with("column_0 is NULL, cycle 9: sum: a result does not fit"));
}

#[test]
fn groups_and_their_rows_have_limits() {
    let calls = calls(false);
    for (groups_max, rows_max, setting) in [(1, 100, "max_groups"), (100, 1, "max_state_rows")] {
        let mut spec = spec(&[INT], &calls, false, true);
        (spec.spec.groups_max, spec.rows_max) = (groups_max, rows_max);
        let (mut aggregate, mut output) = made(&spec);
        let (one, two) = (row(1, 1.5), row(2, 1.5));
        let refused = cycle(&mut aggregate, &mut output, &[(&one, 1), (&two, 1)]).unwrap_err();
        assert!(refused.fault == Fault::Resource && refused.message.contains(setting), "{refused}");
    }
}
