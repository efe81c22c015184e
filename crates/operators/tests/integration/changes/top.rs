//! The first rows of partitions against sorting all of their rows.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use proptest::prelude::*;
use tidemill_core::{Batch, Cut, Fault, FaultLog, Operator, Output};
use tidemill_operators::changes::{ChangingTopSpec, Top};
use tidemill_operators::top::{Numbering, OrderBy};

use super::relation::{Relation, Row, Value, add, changelog, schema};
use super::runs::{Given, check, cycles};

/// The order of two values by a column's options.
fn compare(by: &OrderBy, a: &Row, b: &Row) -> Ordering {
    let (a, b) = (&a[by.column], &b[by.column]);
    match (*a == Value::Null, *b == Value::Null) {
        (true, true) => Ordering::Equal,
        (true, false) if by.nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) => compare_nulls(by).reverse(),
        (false, false) if by.descending => b.cmp(a),
        (false, false) => a.cmp(b),
    }
}

fn compare_nulls(by: &OrderBy) -> Ordering {
    if by.nulls_first { Ordering::Less } else { Ordering::Greater }
}

/// The rows of each partition in order, each as many times as it is there.
pub fn in_order(given: &Relation, partition: &[usize], order: &[OrderBy]) -> Vec<Vec<Row>> {
    let mut partitions: BTreeMap<Row, Vec<Row>> = BTreeMap::new();
    for (row, weight) in given {
        let key = partition.iter().map(|column| row[*column].clone()).collect();
        partitions.entry(key).or_default().extend(std::iter::repeat_n(row.clone(), *weight as usize));
    }
    let sorted = |mut rows: Vec<Row>| {
        rows.sort_by(|a, b| {
            let by = order.iter().map(|by| compare(by, a, b)).find(|order| order.is_ne());
            by.unwrap_or(Ordering::Equal).then_with(|| a.cmp(b))
        });
        rows
    };
    partitions.into_values().map(sorted).collect()
}

fn answer(spec: &ChangingTopSpec, given: &Relation) -> Relation {
    let mut chosen = Relation::new();
    for rows in in_order(given, &spec.partition, &spec.order) {
        let is_tie = |a: &Row, b: &Row| spec.order.iter().all(|by| compare(by, a, b).is_eq());
        for (index, row) in rows.iter().enumerate() {
            let before = rows.iter().position(|other| is_tie(other, row)).unwrap();
            let number = match spec.numbering {
                Numbering::RowNumber => index + 1,
                Numbering::Rank => before + 1,
                Numbering::DenseRank => {
                    (0..=before).filter(|at| *at == 0 || !is_tie(&rows[at - 1], &rows[*at])).count()
                }
            };
            let last = spec.fetch.map_or(usize::MAX, |fetch| spec.skip + fetch);
            if number > spec.skip && number <= last {
                let mut row = row.clone();
                row.extend(spec.number_column.iter().map(|_| Value::Int(number as i64)));
                add(&mut chosen, &row, 1);
            }
        }
    }
    chosen
}

pub fn orders() -> impl Strategy<Value = Vec<OrderBy>> {
    let by = (0..4_usize, any::<bool>(), any::<bool>());
    let by = by.prop_map(|(column, descending, nulls_first)| OrderBy { column, descending, nulls_first });
    prop::collection::vec(by, 0..3)
}

fn spec(changes: bool) -> ChangingTopSpec {
    ChangingTopSpec {
        schema: schema(),
        changes,
        partition: vec![0],
        order: vec![OrderBy { column: 1, descending: true, nulls_first: false }],
        skip: 0,
        fetch: Some(2),
        numbering: Numbering::RowNumber,
        number_column: None,
        rows_max: 1000,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn they_are_the_first_rows_of_the_sum(
        (changes, cycles) in any::<bool>().prop_flat_map(|is| (Just(is), cycles(vec![is], 10))),
        partition in prop::sample::select(vec![vec![], vec![0], vec![1], vec![2, 3]]),
        order in orders(),
        skip in 0..3_usize,
        fetch in prop::option::of(0..4_usize),
        numbering in prop::sample::select(vec![Numbering::RowNumber, Numbering::Rank, Numbering::DenseRank]),
        with_number: bool,
    ) {
        let number_column = with_number.then(|| "number".to_owned());
        let spec = ChangingTopSpec { partition, order, skip, fetch, numbering, number_column, ..spec(changes) };
        let make = || Box::new(Top::new(spec.clone()).unwrap()) as Box<dyn Operator>;
        let inputs = [Given { schema: schema(), changes }];
        check(make, &Top::output_schema(&spec), &inputs, &cycles, |given| answer(&spec, &given[0]));
    }
}

fn row(key: i64, real: f64) -> Row {
    vec![Value::Int(key), Value::Real(real), Value::Null, Value::Null]
}

fn give(top: &mut Top, output: &mut Output, changes: &[(&Row, i64)]) -> usize {
    let rows = Batch::from_source(changelog(&schema(), changes), (0..changes.len() as u32).collect());
    top.rows(0, rows.as_rows(), output).unwrap();
    top.end_of_cycle(&Cut::first(), output).unwrap();
    output.finish(0).map_or(0, |batch| batch.len())
}

#[test]
fn a_row_that_goes_without_having_come_is_reported_and_ignored() {
    let log = FaultLog::default();
    let mut output = Output::new(&[Top::output_schema(&spec(true))]);
    let mut top = Top::new(spec(true)).unwrap().faults(log.clone());
    assert_eq!(give(&mut top, &mut output, &[(&row(1, 1.5), -1), (&row(1, 2.5), 1)]), 1);
    assert_eq!(log.read().count, 1);
    assert_eq!(give(&mut top, &mut output, &[(&row(1, 1.5), 1)]), 1);
}

#[test]
fn rows_that_cannot_be_among_the_first_are_released_if_none_goes() {
    let spec = ChangingTopSpec { rows_max: 10, ..spec(false) };
    let mut output = Output::new(&[Top::output_schema(&spec)]);
    let mut top = Top::new(spec.clone()).unwrap();
    for number in 0..100 {
        let rows: Vec<Row> = (0..3).map(|key| row(key, f64::from(number))).collect();
        let rows = super::relation::batch(&schema(), &rows.iter().collect::<Vec<_>>());
        let rows = Batch::from_source(rows, vec![0, 1, 2].into());
        top.rows(0, rows.as_rows(), &mut output).unwrap();
        top.end_of_cycle(&Cut::first(), &mut output).unwrap();
        output.finish(0);
    }
    let mut top = Top::new(ChangingTopSpec { changes: true, ..spec.clone() }).unwrap();
    let rows: Vec<Row> = (0..11).map(|number| row(1, f64::from(number))).collect();
    let changes: Vec<(&Row, i64)> = rows.iter().map(|row| (row, 1)).collect();
    let given = Batch::from_source(changelog(&schema(), &changes), (0..11).collect());
    top.rows(0, given.as_rows(), &mut output).unwrap();
    let refused = top.end_of_cycle(&Cut::first(), &mut output).unwrap_err();
    assert!(refused.fault == Fault::Resource && refused.message.contains("max_state_rows"), "{refused}");
}
