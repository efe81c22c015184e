//! The functions by which clients read keys: lists as rows, and the text of indexes and constraints.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_engine::arrow::array::builder::{ArrayBuilder, Int64Builder, ListBuilder, StringBuilder};
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::Int64Type;
use tidemill_engine::arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, ListArray, StructArray};
use tidemill_engine::arrow::buffer::OffsetBuffer;
use tidemill_engine::arrow::schema::{DataType, Field, Fields};
use tidemill_sql::Planner;

use super::functions::{quoted, texts, type_name};
use super::relations::Relations;

/// The most numbers of a series.
const SERIES_MAX: i64 = 100_000;

const NUMBER: DataType = DataType::Int64;

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

/// A value of a list, and its number.
fn places() -> Fields {
    Fields::from(vec![Field::new("x", NUMBER, true), Field::new("n", NUMBER, true)])
}

/// Registers all of them.
pub(super) fn register(planner: &mut Planner, relations: &Relations) {
    let schemas = list_of(DataType::Utf8);
    planner.register_function("current_schemas", vec![DataType::Boolean], schemas, |arguments| {
        Ok(current_schemas(arguments[0].as_boolean()))
    });
    let expanded = list_of(DataType::Struct(places()));
    planner.register_function("pg_expandarray", vec![list_of(NUMBER)], expanded, |arguments| {
        Ok(expanded_list(arguments[0].as_list::<i32>()))
    });
    // The list, which of its dimensions (it has one), and the number of its first value.
    let types = vec![list_of(NUMBER), NUMBER, NUMBER];
    planner.register_function("pg_subscripts", types, list_of(NUMBER), |arguments| {
        let lists = arguments[0].as_list::<i32>();
        let first = arguments[2].as_primitive::<Int64Type>();
        let range = |row: usize| {
            let is_there = !lists.is_null(row) && !first.is_null(row);
            is_there.then(|| (first.value(row), first.value(row) + i64::from(lists.value_length(row)) - 1))
        };
        Ok(series((0..lists.len()).map(range)))
    });
    planner.register_function("type_names", vec![list_of(NUMBER)], list_of(DataType::Utf8), |arguments| {
        let mut names = ListBuilder::new(StringBuilder::new());
        let lists = arguments[0].as_list::<i32>();
        for row in 0..lists.len() {
            let items = if lists.is_null(row) { None } else { Some(lists.value(row)) };
            for oid in items.iter().flat_map(|items| items.as_primitive::<Int64Type>().iter()) {
                names.values().append_option(oid.map(|oid| type_name(oid, -1)));
            }
            names.append(items.is_some());
        }
        Ok(Arc::new(names.finish()) as ArrayRef)
    });
    planner.register_function("pg_series", vec![NUMBER, NUMBER], list_of(NUMBER), |arguments| {
        let (first, last) =
            (arguments[0].as_primitive::<Int64Type>(), arguments[1].as_primitive::<Int64Type>());
        Ok(series(first.iter().zip(last.iter()).map(|(first, last)| first.zip(last))))
    });

    let indexes: BTreeMap<i64, (String, Vec<String>)> = relations
        .indexes()
        .map(|index| (index.oid(), (index.definition(quoted), index.column_names().map(quoted).collect())))
        .collect();
    let types = vec![NUMBER, NUMBER, DataType::Boolean];
    planner.register_function("pg_get_indexdef", types, DataType::Utf8, move |arguments| {
        let columns = arguments[1].as_primitive::<Int64Type>().iter();
        let oids = arguments[0].as_primitive::<Int64Type>().iter();
        let text = |(oid, column): (Option<i64>, Option<i64>)| {
            let (whole, columns) = indexes.get(&oid?)?;
            match usize::try_from(column?).ok()? {
                0 => Some(whole.clone()),
                column => columns.get(column - 1).cloned(),
            }
        };
        Ok(texts(oids.zip(columns).map(text)))
    });
    let constraints: BTreeMap<i64, String> =
        relations.indexes().filter_map(|index| index.constraint(quoted)).collect();
    let types = vec![NUMBER, DataType::Boolean];
    planner.register_function("pg_get_constraintdef", types, DataType::Utf8, move |arguments| {
        let oids = arguments[0].as_primitive::<Int64Type>().iter();
        Ok(texts(oids.map(|oid| constraints.get(&oid?).cloned())))
    });
}

/// The schemas in which names are looked up, with that of the catalogue or without.
fn current_schemas(with_catalogue: &BooleanArray) -> ArrayRef {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in 0..with_catalogue.len() {
        if !with_catalogue.is_null(row) && with_catalogue.value(row) {
            lists.values().append_value("pg_catalog");
        }
        lists.values().append_value("public");
        lists.append(true);
    }
    Arc::new(lists.finish())
}

/// The values of each list with their numbers, which count from 1.
fn expanded_list(lists: &ListArray) -> ArrayRef {
    let mut values = Int64Builder::new();
    let mut numbers = Int64Builder::new();
    let lengths = (0..lists.len()).map(|row| {
        let items = if lists.is_null(row) { None } else { Some(lists.value(row)) };
        let items = items.iter().flat_map(|items| items.as_primitive::<Int64Type>().iter());
        let before = values.len();
        for (value, number) in items.zip(1_i64..) {
            values.append_option(value);
            numbers.append_value(number);
        }
        values.len() - before
    });
    let offsets = OffsetBuffer::from_lengths(lengths.collect::<Vec<_>>());
    let (values, numbers): (Int64Array, Int64Array) = (values.finish(), numbers.finish());
    let items = StructArray::new(places(), vec![Arc::new(values), Arc::new(numbers)], None);
    let item = Arc::new(Field::new_list_field(DataType::Struct(places()), true));
    Arc::new(ListArray::new(item, offsets, Arc::new(items), None))
}

/// All numbers from one to another.
fn series(ranges: impl Iterator<Item = Option<(i64, i64)>>) -> ArrayRef {
    let mut lists = ListBuilder::new(Int64Builder::new());
    for range in ranges {
        if let Some((first, last)) = range {
            (first..=last.min(first.saturating_add(SERIES_MAX - 1)))
                .for_each(|number| lists.values().append_value(number));
        }
        lists.append(true);
    }
    Arc::new(lists.finish())
}
