//! `regexp_split_to_array(text, pattern)`, as in PostgreSQL.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use datafusion::arrow::array::builder::{ListBuilder, StringBuilder};
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;
use regex::Regex;

use super::matched_groups::regex;
use super::plain_function::plain_function;

/// Returns the function.
pub(super) fn function() -> ScalarUDF {
    let texts: &[&[DataType]] =
        &[&[DataType::Utf8, DataType::Utf8], &[DataType::Utf8, DataType::Utf8, DataType::Utf8]];
    let list = DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)));
    plain_function(&["regexp_split_to_array"], texts, list, split)
}

fn split(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let columns: Vec<_> = arguments.iter().map(|argument| argument.as_string::<i32>()).collect();
    let mut compiled: HashMap<(&str, &str), Regex> = HashMap::new();
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in 0..columns[0].len() {
        if columns.iter().any(|column| column.is_null(row)) {
            lists.append_null();
            continue;
        }
        let key = (columns[1].value(row), columns.get(2).map_or("", |flags| flags.value(row)));
        let pattern = match compiled.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(regex("regexp_split_to_array", key.0, key.1)?),
        };
        pieces(columns[0].value(row), pattern).for_each(|piece| lists.values().append_value(piece));
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

/// The pieces of a text. A match of nothing divides two letters, but nothing at the ends or behind another match.
fn pieces<'a>(text: &'a str, pattern: &Regex) -> impl Iterator<Item = &'a str> {
    let mut pieces = Vec::new();
    let mut begin = 0;
    for found in pattern.find_iter(text) {
        let is_empty = found.is_empty() && (found.start() == begin || found.end() == text.len());
        if !is_empty {
            pieces.push(&text[begin..found.start()]);
            begin = found.end();
        }
    }
    pieces.push(&text[begin..]);
    pieces.into_iter()
}
