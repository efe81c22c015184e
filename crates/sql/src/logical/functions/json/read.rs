//! Functions that take JSON apart. JSON is a text, and so is a part of it, written as PostgreSQL writes JSONB; what is not JSON is a bad row.

use std::cell::RefCell;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, ListBuilder, StringArray, StringBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::logical_expr::ScalarUDF;
use tidemill_connect::formats::Json;

use super::kind::json_field;
use super::texts::JsonColumn;
use crate::logical::functions::plain_function::{function_of_any, function_of_field, plain_function};
use crate::logical::limits::made_bytes::MadeBytes;
use crate::statement::list_items;

pub(super) const TEXT: DataType = DataType::Utf8;
const OF_TEXT: &[DataType] = &[TEXT];
pub(super) const OF_TEXTS: &[DataType] = &[TEXT, TEXT];
pub(super) const OF_ITEM: &[DataType] = &[TEXT, DataType::Int64];

/// Returns the functions that queries call by name.
pub(in crate::logical) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let whole = |names: &[&'static str], result, compute| plain_function(names, &[OF_TEXT], result, compute);
    let of_text = |names: &[&'static str], compute| whole(names, TEXT, compute);
    let path: Vec<Vec<DataType>> = (1..=PATH_MAX).map(|steps| vec![TEXT; steps + 1]).collect();
    let path: Vec<&[DataType]> = path.iter().map(Vec::as_slice).collect();
    [
        json(),
        jsonb(),
        of_text(&["json_typeof", "jsonb_typeof"], |columns| {
            texts(columns, |value, _| Ok(Some(value.kind().to_owned())))
        }),
        function_of_field(&["json_strip_nulls", "jsonb_strip_nulls"], &[OF_TEXT], json_field(), |columns| {
            texts(columns, |value, _| Ok(Some(value.clone().without_nulls().to_string())))
        }),
        of_text(&["jsonb_pretty"], |columns| texts(columns, |value, _| Ok(Some(value.pretty())))),
        whole(&["json_array_length", "jsonb_array_length"], DataType::Int64, lengths),
        whole(&["json_items"], list_of_texts(), |columns| {
            lists("json_items", columns, |value| match value {
                Json::List(items) => Some(items.iter().map(|item| Some(item.to_string())).collect()),
                _ => None,
            })
        }),
        whole(&["json_item_texts"], list_of_texts(), |columns| {
            lists("json_item_texts", columns, |value| match value {
                Json::List(items) => Some(items.iter().map(Json::as_text).collect()),
                _ => None,
            })
        }),
        whole(&["json_keys"], list_of_texts(), |columns| {
            lists("json_keys", columns, |value| match value {
                Json::Object(members) => Some(members.iter().map(|(key, _)| Some(key.clone())).collect()),
                _ => None,
            })
        }),
        whole(&["json_values"], list_of_texts(), |columns| {
            lists("json_values", columns, |value| match value {
                Json::Object(members) => {
                    Some(members.iter().map(|(_, value)| Some(value.to_string())).collect())
                }
                _ => None,
            })
        }),
        whole(&["json_value_texts"], list_of_texts(), |columns| {
            lists("json_value_texts", columns, |value| match value {
                Json::Object(members) => Some(members.iter().map(|(_, value)| value.as_text()).collect()),
                _ => None,
            })
        }),
        function_of_field(&["json_extract_path", "jsonb_extract_path"], &path, json_field(), |columns| {
            steps(columns, |part| Some(part.to_string()))
        }),
        plain_function(&["json_extract_path_text", "jsonb_extract_path_text"], &path, TEXT, |columns| {
            steps(columns, Json::as_text)
        }),
        exists(),
    ]
    .into_iter()
}

/// The most steps of a path in arguments.
const PATH_MAX: usize = 8;

/// Returns the function behind `x::json`: the text, if it is JSON; another value as JSON.
pub(super) fn json() -> ScalarUDF {
    function_of_any(&["json"], 1, json_field(), |columns| {
        let columns = [as_json(&columns[0])?];
        let given = columns[0].as_string::<i32>();
        texts(&columns, |_, row| Ok(Some(given.value(row).to_owned())))
    })
}

/// Returns the function behind `x::jsonb`: the value as PostgreSQL writes it.
pub(super) fn jsonb() -> ScalarUDF {
    function_of_any(&["jsonb"], 1, json_field(), |columns| {
        texts(&[as_json(&columns[0])?], |value, _| Ok(Some(value.to_string())))
    })
}

/// A text is JSON; other values become JSON.
fn as_json(values: &ArrayRef) -> Result<ArrayRef> {
    if values.data_type().is_string() || values.data_type().is_null() {
        return Ok(cast(values, &TEXT)?);
    }
    let column = JsonColumn::of(values)?;
    let text = |row| values.is_valid(row).then(|| column.text(row));
    Ok(Arc::new((0..values.len()).map(text).collect::<StringArray>()))
}

/// Returns the function behind `->`.
pub(super) fn part() -> ScalarUDF {
    function_of_field(&["json_part"], &[OF_ITEM, OF_TEXTS], json_field(), |columns| {
        parts(columns, |part| Some(part.to_string()))
    })
}

/// Returns the function behind `->>`.
pub(super) fn part_as_text() -> ScalarUDF {
    plain_function(&["json_part_text"], &[OF_ITEM, OF_TEXTS], TEXT, |columns| parts(columns, Json::as_text))
}

/// Returns the function behind `#>`.
pub(super) fn part_at() -> ScalarUDF {
    function_of_field(&["json_part_at"], &[OF_TEXTS, &[TEXT, list_of_texts()]], json_field(), |columns| {
        paths(columns, |part| Some(part.to_string()))
    })
}

/// Returns the function behind `#>>`.
pub(super) fn part_at_as_text() -> ScalarUDF {
    plain_function(&["json_part_at_text"], &[OF_TEXTS, &[TEXT, list_of_texts()]], TEXT, |columns| {
        paths(columns, Json::as_text)
    })
}

/// Returns the function behind `?`.
pub(super) fn exists() -> ScalarUDF {
    plain_function(&["jsonb_exists", "json_exists"], &[OF_TEXTS], DataType::Boolean, |columns| {
        let keys = columns[1].as_string::<i32>();
        booleans(columns, |value, row| Ok(value.has(keys.value(row))))
    })
}

/// Returns the function behind `@>`.
pub(super) fn contains() -> ScalarUDF {
    plain_function(&["json_contains"], &[OF_TEXTS], DataType::Boolean, |columns| {
        let others = columns[1].as_string::<i32>();
        booleans(columns, |value, row| Ok(value.contains(&parsed(others.value(row))?)))
    })
}

pub(super) fn list_of_texts() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)))
}

pub(super) fn parsed(text: &str) -> Result<Json> {
    Json::parse(text).map_err(|reason| exec_datafusion_err!("{reason}"))
}

/// Computes a value of each row's JSON; NULL where an argument is NULL.
fn rows<T>(columns: &[ArrayRef], of: impl Fn(&Json, usize) -> Result<Option<T>>) -> Result<Vec<Option<T>>> {
    let texts = columns[0].as_string::<i32>();
    let row = |row: usize| {
        if columns.iter().any(|column| column.is_null(row)) {
            return Ok(None);
        }
        of(&parsed(texts.value(row))?, row)
    };
    (0..texts.len()).map(row).collect()
}

pub(super) fn texts(
    columns: &[ArrayRef],
    of: impl Fn(&Json, usize) -> Result<Option<String>>,
) -> Result<ArrayRef> {
    let made = RefCell::new(MadeBytes::of(columns[0].len()));
    let texts = rows(columns, |value, row| {
        let text = of(value, row)?;
        made.borrow_mut().add(text.as_ref().map_or(0, String::len))?;
        Ok(text)
    });
    Ok(Arc::new(texts?.into_iter().collect::<StringArray>()))
}

pub(super) fn booleans(columns: &[ArrayRef], of: impl Fn(&Json, usize) -> Result<bool>) -> Result<ArrayRef> {
    let answers = rows(columns, |value, row| of(value, row).map(Some))?;
    Ok(Arc::new(answers.into_iter().collect::<BooleanArray>()))
}

fn lengths(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let length = |value: &Json, _| match value {
        Json::List(items) => Ok(i64::try_from(items.len()).ok()),
        other => exec_err!("the length of a list is asked for, but the JSON is of type {}", other.kind()),
    };
    Ok(Arc::new(rows(columns, length)?.into_iter().collect::<Int64Array>()))
}

fn lists(
    name: &str,
    columns: &[ArrayRef],
    of: impl Fn(&Json) -> Option<Vec<Option<String>>>,
) -> Result<ArrayRef> {
    let made = RefCell::new(MadeBytes::of(columns[0].len()));
    let list = |value: &Json, _| match of(value) {
        Some(items) => {
            made.borrow_mut().add(items.iter().flatten().map(String::len).sum())?;
            Ok(Some(items))
        }
        None => exec_err!("{name} does not take JSON of type {}", value.kind()),
    };
    let mut builder = ListBuilder::new(StringBuilder::new());
    for items in rows(columns, list)? {
        builder.append_option(items);
    }
    Ok(Arc::new(builder.finish()))
}

/// What a key, or the number of an item, names.
fn parts(columns: &[ArrayRef], written: fn(&Json) -> Option<String>) -> Result<ArrayRef> {
    let items = columns[1].as_primitive_opt::<Int64Type>();
    let keys = columns[1].as_string_opt::<i32>();
    texts(columns, |value, row| {
        let part = match (items, keys) {
            (Some(items), _) => value.item(items.value(row)),
            (None, Some(keys)) => value.member(keys.value(row)),
            (None, None) => None,
        };
        Ok(part.and_then(written))
    })
}

/// What a path names: a list of keys and numbers, or the text of one.
fn paths(columns: &[ArrayRef], written: fn(&Json) -> Option<String>) -> Result<ArrayRef> {
    texts(columns, |value, row| {
        let path = path_of(&columns[1], row)?;
        // A step that is NULL leads nowhere.
        let path: Option<Vec<&str>> = path.iter().map(Option::as_deref).collect();
        Ok(path.and_then(|path| value.at(path)).and_then(written))
    })
}

/// The steps of the path in a row: a list, or the text of one.
pub(super) fn path_of(column: &ArrayRef, row: usize) -> Result<Vec<Option<String>>> {
    if let Some(lists) = column.as_list_opt::<i32>() {
        return Ok(lists.value(row).as_string::<i32>().iter().map(|step| step.map(str::to_owned)).collect());
    }
    let path = column.as_string::<i32>().value(row);
    list_items(path).ok_or_else(|| exec_datafusion_err!("'{path}' is not a path: write '{{a,0,b}}'"))
}

/// What a path in arguments names.
fn steps(columns: &[ArrayRef], written: fn(&Json) -> Option<String>) -> Result<ArrayRef> {
    let path: Vec<&StringArray> = columns[1..].iter().map(|step| step.as_string::<i32>()).collect();
    texts(columns, |value, row| Ok(value.at(path.iter().map(|step| step.value(row))).and_then(written)))
}
