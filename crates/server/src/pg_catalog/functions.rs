//! The functions of PostgreSQL's catalogue.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_engine::Cause;
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::Int64Type;
use tidemill_engine::arrow::array::{ArrayRef, BooleanArray, Int64Array, StringArray};
use tidemill_engine::arrow::schema::DataType;
use tidemill_sql::Planner;

use super::numbers::{oid, type_number};
use super::relations::Relations;
use crate::session_settings::SessionSettings;
use crate::values::TYPES;

/// The functions that there are.
pub(super) const NAMES: [&str; 41] = [
    "col_description",
    "current_catalog",
    "current_database",
    "current_schema",
    "current_schemas",
    "current_setting",
    "current_user",
    "format_type",
    "obj_description",
    "parse_ident",
    "pg_advisory_unlock_all",
    "pg_encoding_to_char",
    "pg_expandarray",
    "pg_function_is_visible",
    "pg_get_constraintdef",
    "pg_get_expr",
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
    "pg_get_function_result",
    "pg_get_indexdef",
    "pg_get_userbyid",
    "pg_get_viewdef",
    "pg_is_in_recovery",
    "pg_relation_size",
    "pg_series",
    "pg_size_pretty",
    "pg_subscripts",
    "pg_table_is_visible",
    "pg_table_size",
    "pg_total_relation_size",
    "pg_type_is_visible",
    "quote_ident",
    "quote_literal",
    "quote_nullable",
    "regclass_name",
    "session_user",
    "set_config",
    "shobj_description",
    "to_regclass",
    "to_regtype",
    "version",
];

const NUMBER: DataType = DataType::Int64;
const TEXT: DataType = DataType::Utf8;

/// Registers all of them.
pub(super) fn register(planner: &mut Planner, relations: &Relations, settings: &SessionSettings) {
    let version = format!("PostgreSQL {}", settings.get("server_version").unwrap_or_default());
    for (name, value) in [
        ("version", version.as_str()),
        ("current_database", "tidemill"),
        ("current_catalog", "tidemill"),
        ("current_schema", "public"),
        ("current_user", &relations.user),
        ("session_user", &relations.user),
    ] {
        let value = value.to_owned();
        planner.register_function(name, vec![], TEXT, move |_| Ok(texts([Some(value.clone())])));
    }
    let no = |_: &[ArrayRef]| Ok(Arc::new(BooleanArray::from(vec![false])) as ArrayRef);
    planner.register_function("pg_is_in_recovery", vec![], DataType::Boolean, no);

    for name in ["pg_table_is_visible", "pg_type_is_visible", "pg_function_is_visible"] {
        planner.register_function(name, vec![NUMBER], DataType::Boolean, |arguments| {
            Ok(Arc::new(BooleanArray::from(vec![true; arguments[0].len()])) as ArrayRef)
        });
    }
    for name in ["pg_relation_size", "pg_table_size", "pg_total_relation_size"] {
        planner.register_function(name, vec![NUMBER], NUMBER, |arguments| {
            Ok(numbers(vec![Some(0); arguments[0].len()]))
        });
    }
    let user = relations.user.clone();
    of_number(planner, "pg_get_userbyid", move |_| Some(user.clone()));
    of_number(planner, "pg_encoding_to_char", |_| Some("UTF8".to_owned()));
    of_number(planner, "pg_size_pretty", |bytes| Some(format!("{bytes} bytes")));
    let names: BTreeMap<i64, String> =
        relations.relations.iter().map(|relation| (oid(&relation.name), relation.name.clone())).collect();
    let numbers_of: BTreeMap<String, i64> = names.iter().map(|(oid, name)| (name.clone(), *oid)).collect();
    of_number(planner, "regclass_name", move |oid| {
        Some(names.get(&oid).map_or(oid.to_string(), |name| quoted(name)))
    });
    for (name, second) in [
        ("format_type", NUMBER),
        ("col_description", NUMBER),
        ("obj_description", TEXT),
        ("shobj_description", TEXT),
        ("pg_get_viewdef", DataType::Boolean),
    ] {
        let is_format = name == "format_type";
        planner.register_function(name, vec![NUMBER, second], TEXT, move |arguments| {
            let oids = arguments[0].as_primitive::<Int64Type>().iter();
            // Nothing has a description, and the text of a definition is not kept by its name.
            Ok(texts(oids.map(|oid| oid.filter(|_| is_format).map(type_name))))
        });
    }
    planner.register_function("to_regclass", vec![TEXT], NUMBER, move |arguments| {
        let names = arguments[0].as_string::<i32>().iter();
        let plain = |name: &str| name.rsplit('.').next().unwrap_or(name).trim_matches('"').to_owned();
        let number =
            |name: &str| numbers_of.get(&plain(name)).copied().or_else(|| catalogue_oid(&plain(name)));
        Ok(numbers(names.map(|name| number(name?))))
    });
    planner.register_function("to_regtype", vec![TEXT], NUMBER, |arguments| {
        Ok(numbers(arguments[0].as_string::<i32>().iter().map(|name| type_number(name?))))
    });
    planner.register_function("pg_get_expr", vec![TEXT, NUMBER], TEXT, |arguments| {
        Ok(texts(vec![None; arguments[0].len()]))
    });
    // There are no such locks.
    planner.register_function("pg_advisory_unlock_all", vec![], TEXT, |_| Ok(texts([None])));
    of_text(planner, "quote_literal", |text| Some(literal(text)));
    planner.register_function("quote_nullable", vec![TEXT], TEXT, |arguments| {
        let values = arguments[0].as_string::<i32>().iter();
        Ok(texts(values.map(|text| Some(text.map_or("NULL".to_owned(), literal)))))
    });
    of_text(planner, "quote_ident", |name| Some(quoted(name)));
    let known: BTreeMap<String, String> =
        settings.all().map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    of_text(planner, "current_setting", move |name| known.get(&name.to_ascii_lowercase()).cloned());
    // The conversation has changed the setting before.
    planner.register_function("set_config", vec![TEXT, TEXT, DataType::Boolean], TEXT, |arguments| {
        Ok(Arc::clone(&arguments[1]))
    });
}

fn of_number(
    planner: &mut Planner,
    name: &str,
    text: impl Fn(i64) -> Option<String> + Send + Sync + 'static,
) {
    planner.register_function(name, vec![NUMBER], TEXT, move |arguments| -> Result<ArrayRef, Cause> {
        let numbers = arguments[0].as_primitive::<Int64Type>().iter();
        Ok(texts(numbers.map(|number| text(number?))))
    });
}

fn of_text(planner: &mut Planner, name: &str, text: impl Fn(&str) -> Option<String> + Send + Sync + 'static) {
    planner.register_function(name, vec![TEXT], TEXT, move |arguments| -> Result<ArrayRef, Cause> {
        Ok(texts(arguments[0].as_string::<i32>().iter().map(|value| text(value?))))
    });
}

pub(super) fn texts(values: impl IntoIterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<StringArray>())
}

pub(super) fn numbers(values: impl IntoIterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<Int64Array>())
}

/// A text as a statement has it.
fn literal(text: &str) -> String {
    let escape = if text.contains('\\') { " E" } else { "" };
    format!("{escape}'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// A name in quotes, if it needs them.
pub(super) fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name.chars().all(|char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '_');
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// The numbers of relations of the catalogue, which descriptions name.
fn catalogue_oid(name: &str) -> Option<i64> {
    let known = [
        ("pg_type", 1247),
        ("pg_attribute", 1249),
        ("pg_proc", 1255),
        ("pg_class", 1259),
        ("pg_database", 1262),
        ("pg_constraint", 2606),
        ("pg_namespace", 2615),
    ];
    known.iter().find(|(known, _)| *known == name).map(|(_, oid)| *oid)
}

fn type_name(oid: i64) -> String {
    let scalar = TYPES.iter().find(|row| i64::from(row.oid) == oid).map(|row| row.name.to_owned());
    let list =
        || TYPES.iter().find(|row| i64::from(row.array_oid) == oid).map(|row| [row.name, "[]"].concat());
    scalar.or_else(list).unwrap_or_else(|| "???".to_owned())
}
