//! Functions as PostgreSQL's catalogue has them: those that are defined in SQL, and those that read and write the values of each type.

use tidemill_sql::ListedFunction;

use super::numbers::{OWNER, PG_CATALOG, PUBLIC, oid, type_number};
use super::table::Cell;
use super::table::CellKind::{self, Flag, Number, Text, Vector};
use crate::postgres::values::{Kind, TYPES};

pub(super) const PG_PROC: &[(&str, CellKind)] = &[
    ("oid", Number),
    ("proname", Text),
    ("pronamespace", Number),
    ("proowner", Number),
    ("prolang", Number),
    ("prokind", Text),
    ("proretset", Flag),
    ("pronargs", Number),
    ("prorettype", Number),
    ("proargtypes", Vector),
    ("prosrc", Text),
    ("provolatile", Text),
    ("proparallel", Text),
];
pub(super) const PG_LANGUAGE: &[(&str, CellKind)] =
    &[("oid", Number), ("lanname", Text), ("lanowner", Number), ("lanpltrusted", Flag)];
/// The type of a row of any columns.
const RECORD: i64 = 2249;
/// The types of a value's text, of its bytes while they are read, and of any list.
const CSTRING: i64 = 2275;
const INTERNAL: i64 = 2281;
const ANY_ARRAY: i64 = 2277;
/// The languages in which functions are written.
const INTERNAL_LANGUAGE: i64 = 12;
const SQL_LANGUAGE: i64 = 14;

/// The rows of `pg_language`.
pub(super) fn languages() -> Vec<Vec<Cell>> {
    let languages = [(INTERNAL_LANGUAGE, "internal", false), (13, "c", false), (SQL_LANGUAGE, "sql", true)];
    languages.map(|(oid, name, trusted)| vec![oid.into(), name.into(), OWNER.into(), trusted.into()]).to_vec()
}

/// Returns the name of the function that reads (`in`, `recv`) or writes (`out`, `send`) the values of a type.
pub(super) fn of_type(type_name: &str, way: &str) -> String {
    // The functions of these have a line between their name and what they do.
    let with_line = ["array", "numeric", "date", "time", "timestamp", "timestamptz", "interval"];
    [type_name, if with_line.contains(&type_name) { "_" } else { "" }, way].concat()
}

/// The rows of `pg_proc` for the functions that read and write the values of each type.
fn of_types() -> Vec<Vec<Cell>> {
    let bytea = i64::from(Kind::Bytea.oid());
    let types = TYPES.iter().map(|row| (row.short_name, i64::from(row.oid)));
    let row = |(name, number): (&str, i64)| {
        let ways = [("in", CSTRING, number), ("out", number, CSTRING)];
        let ways = ways.into_iter().chain([("recv", INTERNAL, number), ("send", number, bytea)]);
        ways.map(|(way, takes, gives)| {
            let name = of_type(name, way);
            let mut row: Vec<Cell> = vec![number_of_name(&name).into(), name.as_str().into()];
            row.extend([PG_CATALOG, OWNER, INTERNAL_LANGUAGE].map(Cell::from));
            row.extend(["f".into(), false.into(), 1_i64.into(), gives.into()]);
            row.extend([Cell::Numbers(vec![takes]), name.as_str().into(), "i".into(), "s".into()]);
            row
        })
        .collect::<Vec<_>>()
    };
    types.chain([("array", ANY_ARRAY)]).flat_map(row).collect()
}

/// Returns the number of the function of this name.
pub(super) fn number_of_name(name: &str) -> i64 {
    oid(&format!("{name}()"))
}

/// Returns the numbers and names of all functions.
pub(super) fn names(functions: &[ListedFunction]) -> Vec<(i64, String)> {
    let named = |row: Vec<Cell>| match row.as_slice() {
        [Cell::Number(number), Cell::Text(name), ..] => Some((*number, name.clone())),
        _ => None,
    };
    rows(functions).into_iter().filter_map(named).collect()
}

/// The number of a function. A relation may have the same name.
pub(super) fn number(function: &ListedFunction) -> i64 {
    number_of_name(&function.name)
}

/// What PostgreSQL calls a type that is declared so.
pub(super) fn type_name(declared: &str) -> String {
    match declared.to_lowercase().as_str() {
        "double" => "double precision".to_owned(),
        "varchar" => "text".to_owned(),
        other => other.to_owned(),
    }
}

/// The rows of `pg_proc`.
pub(super) fn rows(functions: &[ListedFunction]) -> Vec<Vec<Cell>> {
    let type_of = |name: &str| type_number(&type_name(name)).unwrap_or(0);
    let row = |function: &ListedFunction| {
        let result = function.value.as_deref().map_or(RECORD, type_of);
        vec![
            number(function).into(),
            function.name.as_str().into(),
            PUBLIC.into(),
            OWNER.into(),
            SQL_LANGUAGE.into(),
            if function.is_aggregate { "a" } else { "f" }.into(),
            function.value.is_none().into(),
            (function.parameters.len() as i64).into(),
            result.into(),
            Cell::Numbers(function.parameters.iter().map(|(_, name)| type_of(name)).collect()),
            "".into(),
            "i".into(),
            "s".into(),
        ]
    };
    functions.iter().map(row).chain(of_types()).collect()
}
