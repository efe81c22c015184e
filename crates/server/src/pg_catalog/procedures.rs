//! The functions that are defined in SQL, as PostgreSQL's catalogue has them.

use tidemill_sql::ListedFunction;

use super::numbers::{OWNER, PUBLIC, oid, type_number};
use super::table::Cell;
use super::table::CellKind::{self, Flag, Number, Numbers, Text};

pub(super) const PG_PROC: &[(&str, CellKind)] = &[
    ("oid", Number),
    ("proname", Text),
    ("pronamespace", Number),
    ("proowner", Number),
    ("prokind", Text),
    ("proretset", Flag),
    ("pronargs", Number),
    ("prorettype", Number),
    ("proargtypes", Numbers),
];
/// The type of a row of any columns.
const RECORD: i64 = 2249;

/// The number of a function. A relation may have the same name.
pub(super) fn number(function: &ListedFunction) -> i64 {
    oid(&format!("{}()", function.name))
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
            if function.is_aggregate { "a" } else { "f" }.into(),
            function.value.is_none().into(),
            (function.parameters.len() as i64).into(),
            result.into(),
            Cell::Numbers(function.parameters.iter().map(|(_, name)| type_of(name)).collect()),
        ]
    };
    functions.iter().map(row).collect()
}
