//! Relations as maps from row to weight, with rows of plain values.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, ListBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use proptest::prelude::*;
use tidemill_operators::changes::changelog_schema;

/// A value. The order is that of encoded rows, and equality that of GROUP BY.
#[derive(Clone, Debug)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Real(f64),
    Text(String),
    Reals(Vec<Option<f64>>),
}

use Value::{Bool, Int, Null, Real, Reals, Text};

pub type Row = Vec<Value>;

/// A relation: how many times each row is there.
pub type Relation = BTreeMap<Row, i64>;

/// A real number so that all NaN and both zeros are one.
fn plain(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        let real = |a: &f64, b: &f64| plain(*a).total_cmp(&plain(*b));
        match (self, other) {
            (Null, Null) => Ordering::Equal,
            (Null, _) => Ordering::Less,
            (_, Null) => Ordering::Greater,
            (Bool(a), Bool(b)) => a.cmp(b),
            (Int(a), Int(b)) => a.cmp(b),
            (Real(a), Real(b)) => real(a, b),
            (Text(a), Text(b)) => a.cmp(b),
            (Reals(a), Reals(b)) => {
                let item = |a: &Option<f64>, b: &Option<f64>| match (a, b) {
                    (Some(a), Some(b)) => real(a, b),
                    (a, b) => a.is_some().cmp(&b.is_some()),
                };
                let differs = a.iter().zip(b).map(|(a, b)| item(a, b)).find(|order| order.is_ne());
                differs.unwrap_or_else(|| a.len().cmp(&b.len()))
            }
            (a, b) => panic!("{a:?} and {b:?} are in one column"),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Value {}

/// Integers, reals, texts and lists, each with NULLs.
pub fn schema() -> SchemaRef {
    let item = Arc::new(Field::new_list_field(DataType::Float64, true));
    Arc::new(Schema::new(vec![
        Field::new("int", DataType::Int64, true),
        Field::new("real", DataType::Float64, true),
        Field::new("text", DataType::Utf8, true),
        Field::new("reals", DataType::List(item), true),
    ]))
}

/// Rows of [`schema`], few enough that the same ones come often.
pub fn rows() -> impl Strategy<Value = Row> {
    let int = prop_oneof![Just(Null), (0..3_i64).prop_map(Int), (0..3_i64).prop_map(Int)];
    let reals = [0.0, -0.0, f64::NAN, 1.5].map(Real);
    let real = prop::sample::select([&[Null], &reals[..]].concat());
    let text =
        prop::sample::select(vec![Null, Text("".into()), Text("a".into()), Text("a long text".into())]);
    let lists = [vec![], vec![Some(0.0)], vec![Some(-0.0)], vec![Some(f64::NAN), None]].map(Reals);
    let list = prop::sample::select([&[Null, Null, Null], &lists[..]].concat());
    (int, real, text, list).prop_map(|(int, real, text, list)| vec![int, real, text, list])
}

/// Rows of these columns as a batch.
pub fn batch(schema: &SchemaRef, rows: &[&Row]) -> RecordBatch {
    let column = |(index, field): (usize, &Arc<Field>)| -> ArrayRef {
        let values = rows.iter().map(|row| &row[index]);
        match field.data_type() {
            DataType::Int64 => Arc::new(
                values
                    .map(|value| if let Int(value) = value { Some(*value) } else { None })
                    .collect::<Int64Array>(),
            ),
            DataType::Float64 => Arc::new(
                values
                    .map(|value| if let Real(value) = value { Some(*value) } else { None })
                    .collect::<Float64Array>(),
            ),
            DataType::Boolean => Arc::new(
                values
                    .map(|value| if let Bool(value) = value { Some(*value) } else { None })
                    .collect::<BooleanArray>(),
            ),
            DataType::Utf8 => Arc::new(
                values
                    .map(|value| if let Text(value) = value { Some(value) } else { None })
                    .collect::<StringArray>(),
            ),
            DataType::List(_) => {
                let mut lists = ListBuilder::new(Float64Builder::new());
                for value in values {
                    let Reals(items) = value else {
                        lists.append_null();
                        continue;
                    };
                    items.iter().for_each(|item| lists.values().append_option(*item));
                    lists.append(true);
                }
                Arc::new(lists.finish())
            }
            other => panic!("no values of {other}"),
        }
    };
    let columns = schema.fields().iter().enumerate().map(column).collect();
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).unwrap()
}

/// Rows with weights as a batch of a changelog.
pub fn changelog(schema: &SchemaRef, changes: &[(&Row, i64)]) -> RecordBatch {
    let rows: Vec<&Row> = changes.iter().map(|(row, _)| *row).collect();
    let mut columns = batch(schema, &rows).columns().to_vec();
    columns.push(Arc::new(Int64Array::from_iter_values(changes.iter().map(|(_, weight)| *weight))));
    RecordBatch::try_new(changelog_schema(schema), columns).unwrap()
}

fn value(column: &ArrayRef, row: usize) -> Value {
    if column.is_null(row) {
        return Null;
    }
    match column.data_type() {
        DataType::Int64 => Int(column.as_primitive::<Int64Type>().value(row)),
        DataType::UInt64 => Int(column.as_primitive::<UInt64Type>().value(row) as i64),
        DataType::Float64 => Real(column.as_primitive::<Float64Type>().value(row)),
        DataType::Boolean => Bool(column.as_boolean().value(row)),
        DataType::Utf8 => Text(column.as_string::<i32>().value(row).to_owned()),
        DataType::List(_) => {
            let items = column.as_list::<i32>().value(row);
            Reals(items.as_primitive::<Float64Type>().iter().collect())
        }
        other => panic!("no values of {other}"),
    }
}

/// The rows of a changelog with their weights, which are its last column.
pub fn changes(batch: &RecordBatch) -> Vec<(Row, i64)> {
    let (weights, columns) = batch.columns().split_last().unwrap();
    let weights = weights.as_primitive::<Int64Type>();
    let row = |row: usize| columns.iter().map(|column| value(column, row)).collect();
    (0..batch.num_rows()).map(|index| (row(index), weights.value(index))).collect()
}

/// Adds to a relation.
pub fn add(relation: &mut Relation, row: &Row, weight: i64) {
    let sum = relation.get(row).copied().unwrap_or(0) + weight;
    if sum == 0 {
        relation.remove(row);
    } else {
        // The first spelling stays.
        *relation.entry(row.clone()).or_default() = sum;
    }
}
