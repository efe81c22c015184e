//! The functions that give the number of an object by its name, and the name by its number.

use std::collections::BTreeMap;

use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::Int64Type;
use tidemill_engine::arrow::schema::DataType;
use tidemill_sql::Planner;

use super::functions::{numbers, quoted, texts};
use super::numbers::SCHEMAS;
use super::parsed_names::last_part;
use super::procedures;
use super::relations::Relations;

/// The functions that there are.
pub(super) const NAMES: [&str; 5] =
    ["regnamespace_name", "regproc_name", "to_regnamespace", "to_regproc", "to_regrole"];

/// Registers all of them.
pub(super) fn register(planner: &mut Planner, relations: &Relations) {
    let schemas = SCHEMAS.map(|(number, name)| (number, name.to_owned()));
    both(planner, "to_regnamespace", "regnamespace_name", schemas.into());
    both(planner, "to_regproc", "regproc_name", procedures::names(&relations.functions));
    let (user, owner) = (relations.user.clone(), relations.number_of(&relations.user));
    of_name(planner, "to_regrole", move |name| (name == user).then_some(owner));
}

/// Registers a function that gives a number by a name, and one that gives a name by a number.
fn both(planner: &mut Planner, to_number: &str, to_name: &str, objects: Vec<(i64, String)>) {
    let by_name: BTreeMap<String, i64> =
        objects.iter().map(|(number, name)| (name.clone(), *number)).collect();
    let by_number: BTreeMap<i64, String> = objects.into_iter().collect();
    of_name(planner, to_number, move |name| by_name.get(name).copied());
    planner.register_function(to_name, vec![DataType::Int64], DataType::Utf8, move |arguments| {
        let name = |number: i64| match by_number.get(&number) {
            Some(name) => quoted(name),
            None if number == 0 => "-".to_owned(),
            None => number.to_string(),
        };
        Ok(texts(arguments[0].as_primitive::<Int64Type>().iter().map(|number| number.map(name))))
    });
}

/// Registers a function that gives a number by a name, which may have a schema and quotes. `-` is none.
fn of_name(
    planner: &mut Planner,
    function: &str,
    number: impl Fn(&str) -> Option<i64> + Send + Sync + 'static,
) {
    planner.register_function(function, vec![DataType::Utf8], DataType::Int64, move |arguments| {
        let number = |name: &str| if name == "-" { Some(0) } else { number(&last_part(name)?) };
        Ok(numbers(arguments[0].as_string::<i32>().iter().map(|name| number(name?))))
    });
}
