//! Runs an operator over the changes of its inputs, cycle by cycle, and checks each changelog that it writes.

use std::cmp::Reverse;

use arrow_schema::SchemaRef;
use proptest::prelude::*;
use tidemill_core::{Batch, Cut, Operator, Output, Rows};

use super::relation::{Relation, Row, add, batch, changelog, changes, rows};
use crate::restored::restored;

/// A change of an input: its number, the row, and the weight.
pub type Change = (usize, Row, i64);

/// An input: its columns, and whether it has weights.
#[derive(Clone)]
pub struct Given {
    pub schema: SchemaRef,
    pub changes: bool,
}

/// Draws cycles of changes; only inputs that change lose rows, and only such as they have.
pub fn cycles(inputs: Vec<bool>, count: usize) -> impl Strategy<Value = Vec<Vec<Change>>> {
    let drawn = (0..inputs.len(), rows(), -3..4_i64, any::<prop::sample::Index>());
    let cycle = prop::collection::vec(drawn, 0..12);
    prop::collection::vec(cycle, 1..count).prop_map(move |cycles| {
        let mut live = vec![Relation::new(); inputs.len()];
        let mut change = |(input, row, weight, which): (usize, Row, i64, prop::sample::Index)| {
            let known = &mut live[input];
            let (row, weight) = match weight {
                _ if !inputs[input] => (row, 1),
                0 => (row, 1),
                weight if weight < 0 => {
                    if known.is_empty() {
                        return None;
                    }
                    let (row, there) = known.iter().nth(which.index(known.len())).unwrap();
                    (row.clone(), weight.max(-there))
                }
                weight => (row, weight),
            };
            add(known, &row, weight);
            Some((input, row, weight))
        };
        cycles.into_iter().map(|cycle| cycle.into_iter().filter_map(&mut change).collect()).collect()
    })
}

/// How the rows of a cycle come.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The most rows of one call.
    pub call: usize,
    pub is_reversed: bool,
    /// Whether the operator is replaced after each cycle by one that continues from its snapshot.
    pub restarts: bool,
}

const ARRIVALS: [Arrival; 3] = [
    Arrival { call: 100, is_reversed: false, restarts: false },
    Arrival { call: 1, is_reversed: true, restarts: false },
    Arrival { call: 3, is_reversed: false, restarts: true },
];

fn give(
    operator: &mut dyn Operator,
    inputs: &[Given],
    cycle: &[Change],
    arrival: Arrival,
    output: &mut Output,
) {
    for (input, given) in inputs.iter().enumerate() {
        let of_input = cycle.iter().enumerate().filter(|(_, change)| change.0 == input);
        let (mut positions, mut rows): (Vec<u32>, Vec<(&Row, i64)>) =
            of_input.map(|(at, (_, row, weight))| (at as u32, (row, *weight))).unzip();
        if arrival.is_reversed {
            (positions.sort(), rows.reverse()).1
        }
        if rows.is_empty() {
            continue;
        }
        let rows = if given.changes {
            changelog(&given.schema, &rows)
        } else {
            batch(&given.schema, &rows.iter().map(|(row, _)| *row).collect::<Vec<_>>())
        };
        let gathered = Batch::from_source(rows, positions.into());
        for start in (0..gathered.len()).step_by(arrival.call) {
            let end = (start + arrival.call).min(gathered.len());
            operator.rows(input, Rows::new(&gathered, start, end), output).unwrap();
        }
    }
}

/// Runs the operator, and checks after each cycle that the sum of what it wrote is what `answer` makes of the sums of
/// the inputs, that each changelog is consolidated and in order, and that it does not depend on how the rows came.
pub fn check(
    make: impl Fn() -> Box<dyn Operator>,
    port: &SchemaRef,
    inputs: &[Given],
    cycles: &[Vec<Change>],
    answer: impl Fn(&[Relation]) -> Relation,
) {
    check_at(make, port, inputs, cycles, |given, _| answer(given));
}

/// Cycles close at multiples of this time.
pub const CYCLE_NS: u64 = 10;

/// As [`check`], if the answer depends on the closing time of the cycle.
pub fn check_at(
    make: impl Fn() -> Box<dyn Operator>,
    port: &SchemaRef,
    inputs: &[Given],
    cycles: &[Vec<Change>],
    answer: impl Fn(&[Relation], u64) -> Relation,
) {
    let mut first: Option<Vec<String>> = None;
    for arrival in ARRIVALS {
        let mut output = Output::new(std::slice::from_ref(port));
        let mut operator = make();
        let mut given = vec![Relation::new(); inputs.len()];
        let mut sum = Relation::new();
        let mut texts = Vec::new();
        for (number, cycle) in cycles.iter().enumerate() {
            output.begin_cycle(cycle.len() as u32);
            output.begin_partition(0);
            give(operator.as_mut(), inputs, cycle, arrival, &mut output);
            let closed_at_ns = number as u64 * CYCLE_NS;
            let cut = Cut { cycle: number as u64, watermarks: vec![0], closed_at_ns, ..Cut::first() };
            let is_due = operator.next_timer().is_some_and(|due| due <= 0)
                || operator.next_clock_timer().is_some_and(|due_ns| due_ns <= closed_at_ns);
            if !cycle.is_empty() || is_due {
                operator.end_of_cycle(&cut, &mut output).unwrap();
            }
            cycle.iter().for_each(|(input, row, weight)| add(&mut given[*input], row, *weight));
            let written = output.finish(0).map(|batch| {
                assert!(
                    batch.positions.iter().all(|at| *at == cycle.len() as u32),
                    "the end causes the rows"
                );
                changes(&batch.rows)
            });
            let written = written.unwrap_or_default();
            check_order(&written);
            written.iter().for_each(|(row, weight)| add(&mut sum, row, *weight));
            let wanted = answer(&given, closed_at_ns);
            assert_eq!(sum, wanted, "cycle {number} of {cycles:?}, {arrival:?}, wrote {written:?}");
            texts.push(format!("{written:?}"));
            if arrival.restarts {
                operator = restored(operator.as_ref(), &make).unwrap();
            }
        }
        match &first {
            None => first = Some(texts),
            Some(first) => assert_eq!(first, &texts, "{arrival:?}"),
        }
    }
}

/// Deletions come before insertions, each in the order of the rows, and no row twice.
fn check_order(written: &[(Row, i64)]) {
    assert!(written.iter().all(|(_, weight)| *weight != 0), "{written:?}");
    let place = |(row, weight): &(Row, i64)| (Reverse(*weight < 0), row.clone());
    assert!(written.windows(2).all(|two| place(&two[0]) < place(&two[1])), "{written:?}");
    let mut rows: Vec<&Row> = written.iter().map(|(row, _)| row).collect();
    rows.sort();
    rows.dedup();
    assert_eq!(rows.len(), written.len(), "a row is deleted and inserted: {written:?}");
}
