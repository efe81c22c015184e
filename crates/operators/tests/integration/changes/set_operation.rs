//! `INTERSECT` and `EXCEPT` against their definition over numbers of rows.

use proptest::prelude::*;
use tidemill_core::{Batch, Cut, FaultLog, Operator, Output};
use tidemill_operators::changes::{SetOperation, SetOperationKind, SetOperationSpec};

use super::relation::{Relation, Value, changelog, schema};
use super::runs::{Given, check, cycles};

use SetOperationKind::*;

fn spec(kind: SetOperationKind, changes: &[bool]) -> SetOperationSpec {
    let (left_changes, right_changes) = (changes[0], changes[1]);
    SetOperationSpec { schema: schema(), kind, left_changes, right_changes, rows_max: 1000 }
}

fn answer(kind: SetOperationKind, left: &Relation, right: &Relation) -> Relation {
    let count = |(row, weight): (&_, &i64)| {
        let other = right.get(row).copied().unwrap_or(0);
        let count = match kind {
            Intersect => i64::from(other > 0),
            IntersectAll => other.min(*weight),
            Except => i64::from(other == 0),
            ExceptAll => weight - other.min(*weight),
        };
        (Clone::clone(row), count)
    };
    left.iter().map(count).filter(|(_, count)| *count > 0).collect()
}

proptest! {
    #[test]
    fn it_is_the_operation_on_the_sums(
        (changing, cycles) in prop::collection::vec(any::<bool>(), 2)
            .prop_flat_map(|sides| (Just(sides.clone()), cycles(sides, 10))),
        kind in prop::sample::select(vec![Intersect, IntersectAll, Except, ExceptAll]),
    ) {
        // Few different rows, so that both sides have some.
        let mut cycles = cycles;
        for (_, row, _) in cycles.iter_mut().flatten() {
            (row[0], row[3]) = (Value::Null, Value::Null);
        }
        let spec = spec(kind, &changing);
        let inputs: Vec<_> =
            changing.iter().map(|changes| Given { schema: schema(), changes: *changes }).collect();
        let make = || Box::new(SetOperation::new(spec.clone()).unwrap()) as Box<dyn Operator>;
        check(make, &SetOperation::output_schema(&spec), &inputs, &cycles, |given| {
            answer(kind, &given[0], &given[1])
        });
    }
}

#[test]
fn a_row_that_goes_without_having_come_is_reported_and_ignored() {
    let log = FaultLog::default();
    let spec = spec(ExceptAll, &[true, true]);
    let mut output = Output::new(&[SetOperation::output_schema(&spec)]);
    let mut except = SetOperation::new(spec).unwrap().faults(log.clone());
    let row = vec![Value::Int(7), Value::Null, Value::Null, Value::Null];
    let mut give = |input: usize, weight: i64| {
        let rows = Batch::from_source(changelog(&schema(), &[(&row, weight)]), vec![0].into());
        except.rows(input, rows.as_rows(), &mut output).unwrap();
        except.end_of_cycle(&Cut::first(), &mut output).unwrap();
        output.finish(0).map_or(0, |batch| batch.len())
    };
    assert_eq!((give(1, -1), log.read().count), (0, 1));
    assert_eq!((give(0, 1), log.read().count), (1, 1));
}
