//! Tables against a map from key to all rows.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_schema::DataType;
use proptest::prelude::*;
use tidemill_core::{Batch, Operator, Output};
use tidemill_operators::aggregate::{Average, Spread, Sum, Variance};
use tidemill_operators::{AggregateSpec, TableAggregate};

use crate::aggregates::harness::{
    Cycle, NUMBER, REAL, Row, batch, call, cut, cycles, divided, held, keys, run, sorted, spec, undivided,
};
use crate::aggregates::oracle;

/// What each cycle writes, in order: the keys in the order of their first rows. A table without keys has its row from
/// the first cycle on.
///
/// And all rows at the end, sorted.
fn expected(keys: &[usize], cycles: &[Cycle]) -> (Vec<Vec<String>>, Vec<String>) {
    let mut table: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let mut written = Vec::new();
    for (index, (calls, _)) in cycles.iter().enumerate() {
        let mut touched = Vec::new();
        if index == 0 && keys.is_empty() {
            touched.push(String::new());
            table.entry(String::new()).or_default();
        }
        for row in calls.iter().flatten() {
            let key = oracle::key(row, keys);
            if !touched.contains(&key) {
                touched.push(key.clone());
            }
            table.entry(key).or_default().push(row.clone());
        }
        written.push(touched.iter().map(|key| format!("{key}{}", oracle::results(&table[key]))).collect());
    }
    let mut all: Vec<String> =
        table.iter().map(|(key, rows)| format!("{key}{}", oracle::results(rows))).collect();
    all.sort();
    (written, all)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_table_holds_what_a_map_of_rows_holds(
        keys in keys(),
        cycles in cycles(0..10),
        restored_after in 0..6_usize,
    ) {
        let spec = spec(&keys, 0);
        let schema = TableAggregate::output_schema(&spec).unwrap();
        let make = || -> Box<dyn Operator> { Box::new(TableAggregate::new(&spec).unwrap()) };
        let written = run(&make, schema.clone(), &divided(&cycles), None);
        let (expected, groups) = expected(&keys, &cycles);
        prop_assert_eq!(&written, &expected);
        prop_assert_eq!(&run(&make, schema.clone(), &undivided(&cycles), None), &written);
        prop_assert_eq!(&run(&make, schema.clone(), &divided(&cycles), Some(restored_after)), &written);
        prop_assert_eq!(held(&make, schema, &divided(&cycles)), [("groups", groups)]);
    }

    #[test]
    fn sums_of_reals_have_the_same_bits_however_rows_are_divided(
        reals in proptest::collection::vec(proptest::num::f64::NORMAL, 1..200),
        call_rows in 1..50_usize,
    ) {
        let reals = reals.iter().map(|real| real % 1e6);
        let rows = reals.enumerate().map(|(index, real)| Row {
            time: None, number: Some(index as i64 % 3), text: None, value: None, real: Some(real), flag: None,
        });
        let rows = rows.collect::<Vec<_>>();
        let float = DataType::Float64;
        let spec = AggregateSpec {
            calls: vec![
                call(Sum::new(&float).unwrap(), &[REAL], None),
                call(Average::new(&float).unwrap(), &[REAL], None),
                call(Variance::new(Spread::SampleDeviation, &float).unwrap(), &[REAL], None),
            ],
            names: ["number", "sum", "avg", "stddev"].map(str::to_owned).to_vec(),
            ..spec(&[NUMBER], 0)
        };
        let bits = |call_rows: usize| {
            let mut output = Output::new(&[TableAggregate::output_schema(&spec).unwrap()]);
            let mut table = TableAggregate::new(&spec).unwrap();
            for rows in rows.chunks(call_rows) {
                let rows = Batch::from_source(batch(rows), vec![0; rows.len()].into());
                table.rows(0, rows.as_rows(), &mut output).unwrap();
            }
            table.end_of_cycle(&cut(0, 0), &mut output).unwrap();
            let rows = output.finish(0).unwrap().rows;
            let column = |index: usize| rows.column(index).as_primitive::<Float64Type>().clone();
            let bits = |index: usize| column(index).iter().map(|real| real.map(f64::to_bits)).collect();
            (1..4).map(bits).collect::<Vec<Vec<_>>>()
        };
        let sum = |key: i64| {
            let own = rows.iter().filter(|row| row.number == Some(key)).filter_map(|row| row.real);
            own.fold(0.0, |sum: f64, real| sum + real).to_bits()
        };
        let sums = (0..rows.len().min(3) as i64).map(|key| Some(sum(key))).collect::<Vec<_>>();
        prop_assert_eq!(&bits(1000)[0], &sums);
        prop_assert_eq!(bits(call_rows), bits(1000));
    }
}

#[test]
fn a_cycle_without_rows_writes_nothing() {
    let written = |keys: &[usize]| {
        let spec = spec(keys, 0);
        let make = || -> Box<dyn Operator> { Box::new(TableAggregate::new(&spec).unwrap()) };
        let schema = TableAggregate::output_schema(&spec).unwrap();
        let cycles = vec![(vec![], 0), (vec![vec![]], 0)];
        sorted(run(&make, schema, &divided(&cycles), None))
    };
    assert_eq!(written(&[NUMBER]), vec![Vec::<String>::new(); 2]);
    // Without keys there is one row from the start, once.
    assert_eq!(written(&[]), vec![vec!["0|0|\n|\n|\n|\n|0".to_string()], vec![]]);
}
