//! Joins of changing relations against nested loops.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::DataType;
use proptest::prelude::*;
use tidemill_core::{Batch, Cause, Cut, Expression, Fault, FaultLog, Operator, Output};
use tidemill_operators::changes::{ChangingJoinKind, ChangingJoinSpec, Join};

use super::relation::{Relation, Row, Value, add, changelog, schema};
use super::runs::{Given, check, cycles};

/// The left integer is smaller than the right one; NULL if one of them is.
#[derive(Debug)]
struct IsSmaller;

impl Expression for IsSmaller {
    fn data_type(&self) -> DataType {
        DataType::Boolean
    }
    fn evaluate(&self, rows: &RecordBatch, _cut: &Cut) -> Result<ArrayRef, Cause> {
        let values = |column: usize| rows.column(column).as_primitive::<Int64Type>();
        let pairs = values(0).iter().zip(values(4));
        Ok(Arc::new(pairs.map(|(left, right)| Some(left? < right?)).collect::<BooleanArray>()))
    }
}

use ChangingJoinKind::*;

const KINDS: [ChangingJoinKind; 9] =
    [Inner, Left, Right, Full, LeftSemi, LeftAnti, RightSemi, RightAnti, LeftMark];

fn spec(kind: ChangingJoinKind, keys: &[usize]) -> ChangingJoinSpec {
    ChangingJoinSpec {
        left: schema(),
        right: schema(),
        left_changes: true,
        right_changes: true,
        left_keys: keys.to_vec(),
        right_keys: keys.to_vec(),
        null_equals_null: false,
        kind,
        residual: None,
        rows_max: 10_000,
    }
}

fn matches(spec: &ChangingJoinSpec, left: &Row, right: &Row) -> bool {
    let keys = spec.left_keys.iter().zip(&spec.right_keys);
    let are_equal = keys.clone().all(|(l, r)| left[*l] == right[*r]);
    let has_null = keys.clone().any(|(l, _)| left[*l] == Value::Null);
    let holds = match (&spec.residual, &left[0], &right[0]) {
        (None, _, _) => true,
        (_, Value::Int(left), Value::Int(right)) => left < right,
        _ => false,
    };
    are_equal && (spec.null_equals_null || !has_null) && holds
}

/// The join by its definition.
fn answer(spec: &ChangingJoinSpec, left: &Relation, right: &Relation) -> Relation {
    let mut joined = Relation::new();
    let nulls = || vec![Value::Null; 4];
    for (l, weight) in left {
        let partners: Vec<_> = right.iter().filter(|(r, _)| matches(spec, l, r)).collect();
        match spec.kind {
            Inner | Left | Right | Full => {
                for (r, other) in &partners {
                    add(&mut joined, &[l.clone(), r.to_vec()].concat(), weight * *other);
                }
                if partners.is_empty() && matches!(spec.kind, Left | Full) {
                    add(&mut joined, &[l.clone(), nulls()].concat(), *weight);
                }
            }
            LeftSemi if !partners.is_empty() => add(&mut joined, l, *weight),
            LeftAnti if partners.is_empty() => add(&mut joined, l, *weight),
            LeftMark => {
                add(&mut joined, &[l.clone(), vec![Value::Bool(!partners.is_empty())]].concat(), *weight)
            }
            _ => {}
        }
    }
    for (r, weight) in right {
        let is_matched = left.iter().any(|(l, _)| matches(spec, l, r));
        match spec.kind {
            Right | Full if !is_matched => add(&mut joined, &[nulls(), r.clone()].concat(), *weight),
            RightSemi if is_matched => add(&mut joined, r, *weight),
            RightAnti if !is_matched => add(&mut joined, r, *weight),
            _ => {}
        }
    }
    joined
}

fn sides() -> impl Strategy<Value = Vec<bool>> {
    prop::sample::select(vec![vec![true, true], vec![true, false], vec![false, true], vec![false, false]])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn it_is_the_join_of_the_sums(
        (changing, cycles) in sides().prop_flat_map(|sides| (Just(sides.clone()), cycles(sides, 8))),
        kind in prop::sample::select(KINDS.to_vec()),
        keys in prop::sample::select(vec![vec![], vec![0], vec![1], vec![2], vec![3], vec![0, 1], vec![2, 3]]),
        null_equals_null: bool,
        has_residual: bool,
    ) {
        let spec = ChangingJoinSpec {
            left_changes: changing[0],
            right_changes: changing[1],
            null_equals_null,
            residual: has_residual.then(|| Arc::new(IsSmaller) as _),
            ..spec(kind, &keys)
        };
        let inputs = changing.iter().map(|changes| Given { schema: schema(), changes: *changes });
        let make = || Box::new(Join::new(spec.clone()).unwrap()) as Box<dyn Operator>;
        check(make, &Join::output_schema(&spec), &inputs.collect::<Vec<_>>(), &cycles, |given| {
            answer(&spec, &given[0], &given[1])
        });
    }
}

fn row(key: i64, text: &str) -> Row {
    vec![Value::Int(key), Value::Null, Value::Text(text.into()), Value::Null]
}

fn give(join: &mut Join, input: usize, changes: &[(&Row, i64)], output: &mut Output) {
    let positions = (0..changes.len() as u32).collect();
    join.rows(input, Batch::from_source(changelog(&schema(), changes), positions).as_rows(), output).unwrap();
}

#[test]
fn a_row_that_goes_without_having_come_is_reported_and_ignored() {
    let log = FaultLog::default();
    let spec = spec(Left, &[0]);
    let mut output = Output::new(&[Join::output_schema(&spec)]);
    let mut join = Join::new(spec).unwrap().faults(log.clone());
    let (a, b) = (row(1, "a"), row(1, "b"));
    give(&mut join, 0, &[(&a, 1), (&b, -1)], &mut output);
    join.end_of_cycle(&Cut { cycle: 9, ..Cut::first() }, &mut output).unwrap();
    assert_eq!(output.finish(0).unwrap().len(), 1);
    let told = log.read();
    assert_eq!(told.count, 1);
    assert_eq!(
        told.samples[0],
        "a deletion was ignored because no such row is left for int: 1, real: NULL, text: b, reals: NULL, cycle 9"
    );
    give(&mut join, 0, &[(&b, 1)], &mut output);
    join.end_of_cycle(&Cut::first(), &mut output).unwrap();
    assert_eq!(output.finish(0).unwrap().len(), 1, "it comes, as if nothing had happened");
}

#[test]
fn a_key_with_many_rows_is_matched_in_pieces() {
    #[derive(Debug)]
    struct Bounded;
    impl Expression for Bounded {
        fn data_type(&self) -> DataType {
            DataType::Boolean
        }
        fn evaluate(&self, rows: &RecordBatch, _cut: &Cut) -> Result<ArrayRef, Cause> {
            assert!(rows.num_rows() <= 8192, "{} pairs at a time", rows.num_rows());
            Ok(Arc::new(BooleanArray::from(vec![true; rows.num_rows()])))
        }
    }
    let spec = ChangingJoinSpec { residual: Some(Arc::new(Bounded)), ..spec(Full, &[0]) };
    let mut output = Output::new(&[Join::output_schema(&spec)]);
    let mut join = Join::new(spec).unwrap();
    let rows: Vec<Row> = (0..200).map(|number| row(7, &number.to_string())).collect();
    let changes: Vec<(&Row, i64)> = rows.iter().map(|row| (row, 1)).collect();
    give(&mut join, 0, &changes, &mut output);
    give(&mut join, 1, &changes, &mut output);
    join.end_of_cycle(&Cut::first(), &mut output).unwrap();
    assert_eq!(output.finish(0).unwrap().len(), 40_000);
}

#[test]
fn keys_that_are_gone_are_released() {
    let spec = spec(Full, &[0]);
    let mut output = Output::new(&[Join::output_schema(&spec)]);
    let mut join = Join::new(spec).unwrap();
    let mut bytes = Vec::new();
    for cycle in 0..80_i64 {
        let rows: Vec<Row> = (0..1000).map(|key| row(cycle / 2 * 1000 + key, "text")).collect();
        let weight = if cycle % 2 == 0 { 1 } else { -1 };
        let changes: Vec<(&Row, i64)> = rows.iter().map(|row| (row, weight)).collect();
        give(&mut join, 0, &changes, &mut output);
        give(&mut join, 1, &changes, &mut output);
        join.end_of_cycle(&Cut::first(), &mut output).unwrap();
        assert_eq!(output.finish(0).unwrap().len(), 1000);
        bytes.push(join.state_bytes());
    }
    let most = |of: &[usize]| of.iter().copied().max().unwrap();
    assert!(most(&bytes[60..]) < 2 * most(&bytes[..20]), "{bytes:?}");
}

#[test]
fn a_join_has_a_limit() {
    let spec = ChangingJoinSpec { rows_max: 2, ..spec(Inner, &[0]) };
    let mut output = Output::new(&[Join::output_schema(&spec)]);
    let mut join = Join::new(spec).unwrap();
    let rows = [row(1, "a"), row(2, "b")];
    let changes: Vec<(&Row, i64)> = rows.iter().map(|row| (row, 1)).collect();
    give(&mut join, 0, &changes, &mut output);
    give(&mut join, 1, &changes, &mut output);
    let refused = join.end_of_cycle(&Cut::first(), &mut output).unwrap_err();
    assert!(refused.fault == Fault::Resource && refused.message.contains("max_state_rows"), "{refused}");
}
