//! The changelog of a table of upserts against a map from key to row.

use std::collections::BTreeMap;

use arrow_array::RecordBatch;
use proptest::prelude::*;
use tidemill_core::{Batch, Cut, Fault, Operator, Output};
use tidemill_operators::changes::{Upserts, UpsertsSpec};

use super::relation::{Relation, Row, Value, add, batch, changes, rows, schema};
use crate::restored::{held_lines, restored};

fn spec(keys: Vec<usize>) -> UpsertsSpec {
    UpsertsSpec { schema: schema(), keys, rows_max: 100 }
}

proptest! {
    #[test]
    fn the_last_row_of_a_key_stays(
        cycles in prop::collection::vec(prop::collection::vec(rows(), 1..10), 1..8),
        keys in prop::sample::select(vec![vec![], vec![0], vec![1], vec![2, 3]]),
    ) {
        let make = || Box::new(Upserts::new(spec(keys.clone())).unwrap()) as Box<dyn Operator>;
        let mut operator = make();
        let mut output = Output::new(&[Upserts::output_schema(&spec(keys.clone()))]);
        let (mut table, mut sum) = (BTreeMap::<Row, Row>::new(), Relation::new());
        for cycle in &cycles {
            let given: RecordBatch = batch(&schema(), &cycle.iter().collect::<Vec<_>>());
            let given = Batch::from_source(given, (0..cycle.len() as u32).collect());
            operator.rows(0, given.as_rows(), &mut output).unwrap();
            operator.end_of_cycle(&Cut::first(), &mut output).unwrap();
            for row in cycle {
                table.insert(keys.iter().map(|key| row[*key].clone()).collect(), row.clone());
            }
            if let Some(written) = output.finish(0) {
                let written = changes(&written.rows);
                let deletions = written.iter().take_while(|(_, weight)| *weight < 0).count();
                prop_assert!(written[deletions..].iter().all(|(_, weight)| *weight == 1));
                written.iter().for_each(|(row, weight)| add(&mut sum, row, *weight));
            }
            prop_assert_eq!(&sum, &table.values().map(|row| (row.clone(), 1)).collect::<Relation>());
            operator = restored(operator.as_ref(), make).unwrap();
        }
        let held = held_lines(operator.as_ref(), make, |kind| crate::cycles::show(&kind.rows));
        prop_assert_eq!(held[0].1.len(), table.len());
    }
}

#[test]
fn a_table_has_a_limit() {
    let mut operator = Upserts::new(UpsertsSpec { rows_max: 2, ..spec(vec![0]) }).unwrap();
    let mut output = Output::new(&[Upserts::output_schema(&spec(vec![0]))]);
    let row = |key| vec![Value::Int(key), Value::Null, Value::Null, Value::Null];
    let rows = [row(1), row(2), row(3)];
    let given = Batch::from_source(batch(&schema(), &rows.iter().collect::<Vec<_>>()), vec![0, 1, 2].into());
    operator.rows(0, given.as_rows(), &mut output).unwrap();
    let refused = operator.end_of_cycle(&Cut::first(), &mut output).unwrap_err();
    assert!(refused.fault == Fault::Resource && refused.message.contains("max_state_rows"), "{refused}");
}
