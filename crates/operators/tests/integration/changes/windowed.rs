//! Functions over ordered partitions against a loop over all of their rows.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::DataType;
use proptest::prelude::*;
use tidemill_core::{Cause, Operator, PartitionFunction};
use tidemill_operators::changes::{Windowed, WindowedSpec};

use super::relation::{Relation, Value, add, schema};
use super::runs::{Given, check, cycles};
use super::top::{in_order, orders};

/// `row_number()`.
#[derive(Debug)]
struct RowNumber;

impl PartitionFunction for RowNumber {
    fn data_type(&self) -> DataType {
        DataType::Int64
    }
    fn evaluate(&self, partition: &RecordBatch) -> Result<ArrayRef, Cause> {
        Ok(Arc::new(Int64Array::from_iter_values(1..=partition.num_rows() as i64)))
    }
}

/// `lag(int)`.
#[derive(Debug)]
struct Before;

impl PartitionFunction for Before {
    fn data_type(&self) -> DataType {
        DataType::Int64
    }
    fn evaluate(&self, partition: &RecordBatch) -> Result<ArrayRef, Cause> {
        let ints = partition.column(0).as_primitive::<Int64Type>();
        let before = std::iter::once(None).chain(ints.iter().take(ints.iter().len() - 1));
        Ok(Arc::new(before.collect::<Int64Array>()))
    }
}

fn answer(spec: &WindowedSpec, given: &Relation) -> Relation {
    let mut answer = Relation::new();
    for rows in in_order(given, &spec.partition, &spec.order) {
        for (index, row) in rows.iter().enumerate() {
            let before = index.checked_sub(1).map_or(Value::Null, |before| rows[before][0].clone());
            let row = [row.clone(), vec![Value::Int(index as i64 + 1), before]].concat();
            add(&mut answer, &row, 1);
        }
    }
    answer
}

proptest! {
    #[test]
    fn they_are_the_functions_of_the_sum(
        (changes, cycles) in any::<bool>().prop_flat_map(|is| (Just(is), cycles(vec![is], 10))),
        partition in prop::sample::select(vec![vec![], vec![0], vec![1], vec![2, 3]]),
        order in orders(),
    ) {
        let spec = WindowedSpec {
            schema: schema(),
            changes,
            partition,
            order,
            functions: vec![Arc::new(RowNumber), Arc::new(Before)],
            names: vec!["row_number".into(), "before".into()],
            rows_max: 1000,
        };
        let make = || Box::new(Windowed::new(spec.clone()).unwrap()) as Box<dyn Operator>;
        let inputs = [Given { schema: schema(), changes }];
        check(make, &Windowed::output_schema(&spec), &inputs, &cycles, |given| answer(&spec, &given[0]));
    }
}
