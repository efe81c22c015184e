//! Selections over split streams: rows that nobody wants are dropped before they are split, where that changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use proptest::prelude::*;
use tidemill_connect::memory::MemorySink;
use tidemill_engine::{Cause, Operator, Output, Rows, SnapshotReader, SnapshotWriter};
use tidemill_sql::{Arguments, BoundOperator, Planner, Reply, TableOperator, parse};

/// Numbers the rows of each instance.
struct Number(i64);

impl Operator for Number {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        for (value, position) in rows.column::<Int64Type>(0).iter().zip(rows.positions()) {
            output.port(0).push(*position, (*value, self.0));
            self.0 += 1;
        }
        Ok(())
    }
    fn snapshot(&self, _writer: &mut SnapshotWriter) {}
    fn restore(&mut self, _reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        Ok(())
    }
}

struct NumberFunction;

impl TableOperator for NumberFunction {
    fn bind(&self, _inputs: &[SchemaRef], _arguments: &Arguments) -> Result<BoundOperator, Cause> {
        let field = |name: &str| Field::new(name, DataType::Int64, false);
        Ok(BoundOperator {
            output: Arc::new(Schema::new(vec![field("value"), field("place")])),
            keys: vec![Vec::new()],
            carried: Vec::new(),
            factory: Arc::new(|_| Box::new(Number(0))),
        })
    }
}

/// Numbers the rows of each key, but for those of key 12.
#[derive(Default)]
struct NumberByKey(BTreeMap<i64, i64>);

impl Operator for NumberByKey {
    fn rows(&mut self, _input: usize, rows: Rows<'_>, output: &mut Output) -> Result<(), Cause> {
        let (keys, values) = (rows.column::<Int64Type>(0), rows.column::<Int64Type>(1));
        let rows = keys.iter().zip(values).zip(rows.positions());
        for ((key, value), position) in rows.filter(|((key, _), _)| **key != 12) {
            let place = self.0.entry(*key).or_default();
            output.port(0).push(*position, (*key, *value, *place));
            *place += 1;
        }
        Ok(())
    }
    fn snapshot(&self, _writer: &mut SnapshotWriter) {}
    fn restore(&mut self, _reader: &mut SnapshotReader<'_>) -> Result<(), Cause> {
        Ok(())
    }
}

/// Says that it carries these columns.
struct NumberByKeyFunction(Vec<String>);

impl TableOperator for NumberByKeyFunction {
    fn bind(&self, _inputs: &[SchemaRef], _arguments: &Arguments) -> Result<BoundOperator, Cause> {
        let field = |name: &str| Field::new(name, DataType::Int64, false);
        Ok(BoundOperator {
            output: Arc::new(Schema::new(vec![field("key"), field("value"), field("place")])),
            keys: vec![vec!["key".into()]],
            carried: self.0.clone(),
            factory: Arc::new(|_| Box::<NumberByKey>::default()),
        })
    }
}

/// The rows of a query, in their order, and how many rows were routed.
fn rows(query: &str) -> (Vec<Vec<i64>>, usize) {
    let routed = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&routed);
    let route = move |arguments: &[ArrayRef]| {
        counted.fetch_add(arguments[0].len(), Ordering::Relaxed);
        let values = arguments[0].as_primitive::<Int64Type>().iter();
        Ok(Arc::new(values.map(|value| Some(value? % 5)).collect::<Int64Array>()) as ArrayRef)
    };
    let mut planner = Planner::new();
    planner.settings_mut().workers = 3;
    planner.register_function("route_of", vec![DataType::Int64], DataType::Int64, route);
    planner.register_operator("number", Arc::new(NumberFunction));
    planner.register_operator("number_by_key", Arc::new(NumberByKeyFunction(vec!["key".into()])));
    let statement = parse(query, "test.sql").unwrap().remove(0);
    let Reply::Query(query) = planner.execute(&statement).unwrap_or_else(|error| panic!("{error}")) else {
        panic!("it is no query");
    };
    let (sink, kept) = MemorySink::new(&query.outputs()[0].schema, 10_000);
    let (status, _) = query.open(vec![Box::new(sink)]).unwrap().start().unwrap().wait().unwrap();
    assert_eq!(status.faults.count, 0, "a condition was computed of a row that is none of its own");
    let batch = kept.read().unwrap();
    let columns: Vec<_> = batch.columns().iter().map(|column| column.as_primitive::<Int64Type>()).collect();
    let row = |row: usize| columns.iter().map(|column| column.value(row)).collect();
    ((0..batch.num_rows()).map(row).collect(), routed.load(Ordering::Relaxed))
}

const SPLIT: &str = "splitstream((SELECT value FROM sequence(300)), 5, route => route_of(value), \
                     broadcast => value % 50 = 0, plan => 'fsplit')";

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_selection_gives_what_it_gives_after_the_split(modulus in 1..40_i64, rest in 0..40_i64, above in 0..300_i64) {
        let condition = format!("value % {modulus} = {rest} OR value > {above}");
        let holds = |value: i64| value % modulus == rest || value > above;
        let (all, _) = rows(&format!("SELECT value FROM mergestream({SPLIT})"));
        let (some, routed) = rows(&format!("SELECT value FROM mergestream({SPLIT}) WHERE {condition}"));
        let expected: Vec<Vec<i64>> = all.into_iter().filter(|row| holds(row[0])).collect();
        prop_assert_eq!(some, expected);
        prop_assert_eq!(routed, (0..300).filter(|value| holds(*value)).count(), "rows were routed for nothing");
    }

    #[test]
    fn no_selection_is_moved_into_what_an_operator_has_seen(modulus in 2..20_i64) {
        let mapped = format!("mergestream(number({SPLIT}))");
        let (all, _) = rows(&format!("SELECT value, place FROM {mapped}"));
        let (some, routed) = rows(&format!("SELECT value, place FROM {mapped} WHERE value % {modulus} = 0"));
        let expected: Vec<Vec<i64>> = all.into_iter().filter(|row| row[0] % modulus == 0).collect();
        prop_assert_eq!(some, expected, "the places are those among all rows");
        prop_assert_eq!(routed, 300);
    }

    #[test]
    fn a_selection_of_what_an_operator_carries_comes_before_it(
        key in 0..13_i64, above in 0..13_i64, value in 0..300_i64, is_split in any::<bool>()
    ) {
        let input = "(SELECT value % 13 AS key, value FROM sequence(300))";
        let split = format!("splitstream({input}, 5, route => route_of(key), plan => 'fsplit')");
        let numbered = if is_split {
            format!("mergestream(number_by_key({split})) AS n")
        } else {
            format!("number_by_key({input})")
        };
        let (all, _) = rows(&format!("SELECT key, value, place FROM {numbered}"));
        let on_key = |of: i64| of == key || (of > above && of != 11) || [3, 5].contains(&of);
        let condition = format!("(key = {key} OR (key > {above} AND NOT key = 11) OR key IN (3, 5)) \
                                 AND value <= {value} AND 5 / (12 - key) >= 0");
        let (some, routed) = rows(&format!("SELECT key, value, place FROM {numbered} WHERE {condition}"));
        let expected: Vec<Vec<i64>> = all.iter().filter(|row| on_key(row[0]) && row[1] <= value).cloned().collect();
        prop_assert_eq!(some, expected);
        let wanted = (0..300).filter(|value| on_key(value % 13)).count();
        prop_assert_eq!(routed, if is_split { wanted } else { 0 }, "rows were routed for nothing");
    }
}

#[test]
fn what_is_carried_must_be_in_the_output_and_in_all_inputs() {
    for (carried, input) in
        [("place", "key, value"), ("other", "key, value"), ("key", "CAST(key AS INT) AS key, value")]
    {
        let mut planner = Planner::new();
        planner.register_operator("numbered", Arc::new(NumberByKeyFunction(vec![carried.into()])));
        let query = format!(
            "SELECT * FROM numbered((SELECT {input} FROM (SELECT value AS key, value FROM sequence(9))))"
        );
        let error = planner.execute(&parse(&query, "test.sql").unwrap().remove(0)).err().unwrap().to_string();
        assert!(error.contains(&format!("numbered() declares that it carries '{carried}'")), "{error}");
    }
}

#[test]
fn a_row_that_would_go_nowhere_valid_is_no_error_if_nobody_wants_it() {
    let split =
        "mergestream(splitstream((SELECT value FROM sequence(9)), 4, route => value, plan => 'fsplit'))";
    let (some, _) = rows(&format!("SELECT value FROM {split} WHERE value < 4"));
    assert_eq!(some, [[0], [1], [2], [3]]);
}
