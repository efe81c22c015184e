//! The functions of PostgreSQL's catalogue.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_engine::Cause;
use tidemill_engine::arrow::array::cast::AsArray;
use tidemill_engine::arrow::array::types::Int64Type;
use tidemill_engine::arrow::array::{ArrayRef, Int64Array, StringArray};
use tidemill_engine::arrow::schema::DataType;
use tidemill_sql::Planner;

use super::numbers::{oid, type_number};
use super::parsed_names;
use super::relations::Relations;
use super::system_columns;
use crate::postgres::session_settings::SessionSettings;
use crate::postgres::values::{Kind, MODIFIER_HEAD, TYPES};

/// The functions that there are.
pub(super) const NAMES: [&str; 37] = [
    "current_catalog",
    "current_database",
    "current_schema",
    "current_schemas",
    "current_setting",
    "current_user",
    "format_type",
    "host",
    "parse_ident",
    "pg_conf_load_time",
    "pg_current_xact_id",
    "pg_expandarray",
    "pg_get_constraintdef",
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
    "pg_get_function_result",
    "pg_get_indexdef",
    "pg_get_userbyid",
    "pg_get_viewdef",
    "pg_postmaster_start_time",
    "pg_series",
    "pg_size_pretty",
    "pg_subscripts",
    "pg_typeof",
    "quote_ident",
    "quote_literal",
    "quote_nullable",
    "regclass_name",
    "session_user",
    "set_config",
    "to_regclass",
    "to_regtype",
    "transaction_age",
    "txid_current",
    "txid_current_snapshot",
    "type_names",
    "version",
];

const NUMBER: DataType = DataType::Int64;
const TEXT: DataType = DataType::Utf8;

/// Registers all of them.
pub(super) fn register(
    planner: &mut Planner,
    relations: &Relations,
    settings: &SessionSettings,
    catalogue_version: i64,
) {
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
    let user = relations.user.clone();
    of_number(planner, "pg_get_userbyid", move |_| Some(user.clone()));
    of_number(planner, "pg_size_pretty", |bytes| Some(size(bytes)));
    let names: BTreeMap<i64, String> =
        relations.relations.iter().map(|relation| (oid(&relation.name), relation.name.clone())).collect();
    let numbers_of: BTreeMap<String, i64> = names.iter().map(|(oid, name)| (name.clone(), *oid)).collect();
    let queries = relations.queries.clone();
    planner.register_function("pg_get_viewdef", vec![NUMBER, DataType::Boolean], TEXT, move |arguments| {
        let query = |number: i64| {
            queries.iter().find(|(name, _)| oid(name) == number).map(|(_, query)| query.clone())
        };
        Ok(texts(arguments[0].as_primitive::<Int64Type>().iter().map(|number| query(number?))))
    });
    of_number(planner, "regclass_name", move |oid| {
        Some(names.get(&oid).map_or(oid.to_string(), |name| quoted(name)))
    });
    planner.register_function("format_type", vec![NUMBER, NUMBER], TEXT, |arguments| {
        let oids = arguments[0].as_primitive::<Int64Type>().iter();
        let modifiers = arguments[1].as_primitive::<Int64Type>().iter();
        Ok(texts(oids.zip(modifiers).map(|(oid, modifier)| Some(type_name(oid?, modifier.unwrap_or(-1))))))
    });
    planner.register_type_function("pg_typeof", |data_type| match data_type {
        DataType::Null => "unknown".to_owned(),
        other => Kind::of(other).full_name(),
    });
    // A transaction of the catalogue is one of its versions.
    for name in ["txid_current", "pg_current_xact_id"] {
        planner.register_function(name, vec![], NUMBER, move |_| Ok(numbers([Some(catalogue_version)])));
    }
    planner.register_function("txid_current_snapshot", vec![], TEXT, move |_| {
        Ok(texts([Some(format!("{catalogue_version}:{catalogue_version}:"))]))
    });
    // Addresses have no masks here.
    of_text(planner, "host", |address| Some(address.to_owned()));
    planner.register_function("transaction_age", vec![NUMBER], NUMBER, move |arguments| {
        let versions = arguments[0].as_primitive::<Int64Type>().iter();
        Ok(numbers(versions.map(|version| Some(catalogue_version - version?))))
    });
    planner.register_function("to_regclass", vec![TEXT], NUMBER, move |arguments| {
        let names = arguments[0].as_string::<i32>().iter();
        let number = |name: &str| {
            let name = parsed_names::last_part(name)?;
            numbers_of.get(&name).copied().or_else(|| system_columns::number(&name))
        };
        Ok(numbers(names.map(|name| number(name?))))
    });
    planner.register_function("to_regtype", vec![TEXT], NUMBER, |arguments| {
        Ok(numbers(arguments[0].as_string::<i32>().iter().map(|name| type_number(name?))))
    });
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

/// A size in a unit that leaves it at most five digits, as PostgreSQL writes it: `118 MB`.
fn size(bytes: i64) -> String {
    if bytes.abs() < 10 << 10 {
        return format!("{bytes} bytes");
    }
    // Halves of a unit, so that it can be rounded.
    let mut halves = bytes / 512;
    for unit in ["kB", "MB", "GB", "TB"] {
        if halves.abs() < (20 << 10) - 1 {
            return format!("{} {unit}", (halves + halves.signum()) / 2);
        }
        halves /= 1024;
    }
    format!("{} PB", (halves + halves.signum()) / 2)
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

/// What SQL calls types of PostgreSQL that no column here has.
const OTHER_TYPES: [(i64, &str); 28] = [
    (18, "\"char\""),
    (19, "name"),
    (22, "int2vector"),
    (24, "regproc"),
    (26, "oid"),
    (27, "tid"),
    (28, "xid"),
    (30, "oidvector"),
    (114, "json"),
    (142, "xml"),
    (650, "cidr"),
    (705, "unknown"),
    (790, "money"),
    (829, "macaddr"),
    (869, "inet"),
    (1042, "character"),
    (1043, "character varying"),
    (1266, "time with time zone"),
    (1560, "bit"),
    (1562, "bit varying"),
    (2205, "regclass"),
    (2206, "regtype"),
    (2249, "record"),
    (2275, "cstring"),
    (2278, "void"),
    (2279, "trigger"),
    (2950, "uuid"),
    (3802, "jsonb"),
];

/// What SQL calls a type with a modifier; -1: none.
pub(super) fn type_name(oid: i64, modifier: i64) -> String {
    if oid == 0 {
        return "-".to_owned();
    }
    let scalar = TYPES.iter().find(|row| i64::from(row.oid) == oid).map(|row| row.name);
    let other = || OTHER_TYPES.iter().find(|(known, _)| *known == oid).map(|(_, name)| *name);
    if let Some(name) = scalar.or_else(other) {
        return name.to_owned() + &modifiers(oid, name, modifier - i64::from(MODIFIER_HEAD));
    }
    let list = TYPES.iter().find(|row| i64::from(row.array_oid) == oid).map(|row| row.name);
    list.map_or_else(|| "???".to_owned(), |item| [item, "[]"].concat())
}

/// What stands behind the name of a type for its modifier, which is less than 0 if there is none.
fn modifiers(oid: i64, name: &str, modifier: i64) -> String {
    match (oid, name) {
        _ if modifier < 0 => String::new(),
        (1700, _) => format!("({},{})", modifier >> 16 & 0xffff, modifier & 0x7ff),
        (_, "character" | "character varying") => format!("({modifier})"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a PostgreSQL 15 writes them.
    #[test]
    fn sizes_have_units() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (10239, "10239 bytes"),
            (10240, "10 kB"),
            (-123_456_789, "-118 MB"),
            (10_485_248, "10 MB"),
            (1 << 40, "1024 GB"),
            (i64::MAX, "8192 PB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
