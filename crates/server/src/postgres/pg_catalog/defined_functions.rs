//! The functions of PostgreSQL's catalogue that say what functions take and give.

use std::collections::BTreeMap;

use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::Int64Type;
use tidemill_engine::arrow::schema::DataType;
use tidemill_sql::{ListedFunction, Planner};

use super::functions::{quoted, texts};
use super::procedures::{number, type_name};

/// Registers the functions that say what a function takes and gives.
pub(super) fn register(planner: &mut Planner, functions: &[ListedFunction]) {
    let arguments = |function: &ListedFunction| typed(&function.parameters);
    let result = |function: &ListedFunction| match &function.value {
        Some(value) => type_name(value),
        None => format!("TABLE({})", typed(&function.columns)),
    };
    of_function(planner, "pg_get_function_arguments", functions, arguments);
    of_function(planner, "pg_get_function_identity_arguments", functions, arguments);
    of_function(planner, "pg_get_function_result", functions, result);
}

fn typed(names: &[(String, String)]) -> String {
    let one = |(name, data_type): &(String, String)| format!("{} {}", quoted(name), type_name(data_type));
    names.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn of_function(
    planner: &mut Planner,
    name: &str,
    functions: &[ListedFunction],
    text: impl Fn(&ListedFunction) -> String,
) {
    let known: BTreeMap<i64, String> =
        functions.iter().map(|function| (number(function), text(function))).collect();
    planner.register_function(name, vec![DataType::Int64], DataType::Utf8, move |arguments| {
        let numbers = arguments[0].as_primitive::<Int64Type>().iter();
        Ok(texts(numbers.map(|number| known.get(&number?).cloned())))
    });
}
