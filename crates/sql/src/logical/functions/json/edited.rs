//! Functions that make other JSON of JSON: `||`, `-` and `#-`, `jsonb_set`, `jsonb_insert`, and the keys of which some or all are there.

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::ScalarUDF;
use tidemill_connect::formats::{Json, JsonPlace};

use super::kind::json_field;
use super::read::{OF_ITEM, OF_TEXTS, TEXT, booleans, list_of_texts, parsed, path_of, texts};
use crate::logical::functions::plain_function::{function_of_field, plain_function};

/// Returns the functions that queries call by name.
pub(in crate::logical) fn functions() -> impl Iterator<Item = ScalarUDF> {
    let path = list_of_texts();
    let with_path = |path: &DataType, flag: bool| {
        let mut types = vec![TEXT, path.clone(), TEXT];
        types.extend(flag.then_some(DataType::Boolean));
        types
    };
    let types: Vec<Vec<DataType>> = [(&path, false), (&path, true), (&TEXT, false), (&TEXT, true)]
        .map(|(path, flag)| with_path(path, flag))
        .into();
    let types: Vec<&[DataType]> = types.iter().map(Vec::as_slice).collect();
    [
        function_of_field(&["jsonb_set"], &types, json_field(), |columns| {
            with_new(columns, true, |creates| JsonPlace::Replaced { creates })
        }),
        function_of_field(&["jsonb_insert"], &types, json_field(), |columns| {
            with_new(columns, false, |after| JsonPlace::Inserted { after })
        }),
        joined(),
        without(),
        without_at(),
        has_any(),
        has_all(),
    ]
    .into_iter()
}

/// Returns the function behind `||`.
pub(super) fn joined() -> ScalarUDF {
    function_of_field(&["jsonb_concat"], &[OF_TEXTS], json_field(), |columns| {
        let others = columns[1].as_string::<i32>();
        texts(columns, |value, row| Ok(Some(value.clone().joined(parsed(others.value(row))?).to_string())))
    })
}

/// Returns the function behind `-`.
pub(super) fn without() -> ScalarUDF {
    let list = [TEXT, list_of_texts()];
    function_of_field(&["jsonb_delete"], &[OF_ITEM, OF_TEXTS, &list], json_field(), |columns| {
        let items = columns[1].as_primitive_opt::<Int64Type>();
        let keys = columns[1].as_string_opt::<i32>();
        texts(columns, |value, row| {
            edited(match (items, keys) {
                (Some(items), _) => value.clone().without_item(items.value(row)),
                (None, Some(keys)) => value.clone().without(&[keys.value(row)]),
                (None, None) => {
                    let keys = path_of(&columns[1], row)?;
                    value.clone().without(&keys.iter().flatten().map(String::as_str).collect::<Vec<_>>())
                }
            })
        })
    })
}

/// Returns the function behind `#-`.
pub(super) fn without_at() -> ScalarUDF {
    let list = [TEXT, list_of_texts()];
    function_of_field(&["jsonb_delete_path"], &[OF_TEXTS, &list], json_field(), |columns| {
        texts(columns, |value, row| {
            let path = path_of(&columns[1], row)?;
            edited(value.clone().without_at(&steps(&path)?))
        })
    })
}

/// Returns the function behind `?|`.
pub(super) fn has_any() -> ScalarUDF {
    let list = [TEXT, list_of_texts()];
    plain_function(&["jsonb_exists_any"], &[&list, OF_TEXTS], DataType::Boolean, |columns| {
        keys(columns, |value, keys| keys.iter().any(|key| value.has(key)))
    })
}

/// Returns the function behind `?&`.
pub(super) fn has_all() -> ScalarUDF {
    let list = [TEXT, list_of_texts()];
    plain_function(&["jsonb_exists_all"], &[&list, OF_TEXTS], DataType::Boolean, |columns| {
        keys(columns, |value, keys| keys.iter().all(|key| value.has(key)))
    })
}

/// The steps of a path. As in PostgreSQL, none may be NULL where something is changed.
fn steps(path: &[Option<String>]) -> Result<Vec<&str>> {
    let steps: Option<Vec<&str>> = path.iter().map(Option::as_deref).collect();
    steps.ok_or_else(|| exec_datafusion_err!("a step of the path is NULL"))
}

fn edited(value: std::result::Result<Json, String>) -> Result<Option<String>> {
    value.map(|value| Some(value.to_string())).map_err(|reason| exec_datafusion_err!("{reason}"))
}

/// The new value at the place of a path. The last argument, if it is there, says more of the place.
fn with_new(columns: &[ArrayRef], usually: bool, place: fn(bool) -> JsonPlace) -> Result<ArrayRef> {
    let new = columns[2].as_string::<i32>();
    let flags = columns.get(3).map(|flags| flags.as_boolean());
    texts(columns, |value, row| {
        let path = path_of(&columns[1], row)?;
        let place = place(flags.map_or(usually, |flags| flags.value(row)));
        edited(value.clone().with_at(&steps(&path)?, parsed(new.value(row))?, place))
    })
}

/// What is so of the keys in a list. Those that are NULL do not count.
fn keys(columns: &[ArrayRef], is_so: fn(&Json, &[&str]) -> bool) -> Result<ArrayRef> {
    booleans(columns, |value, row| {
        let keys = path_of(&columns[1], row)?;
        Ok(is_so(value, &keys.iter().flatten().map(String::as_str).collect::<Vec<_>>()))
    })
}
