//! The types of PostgreSQL's catalogue.

use super::numbers::{OWNER, PG_CATALOG};
use super::procedures;
use super::table::Cell;
use super::table::CellKind::{self, Flag, Number, Text};
use crate::postgres::values::TYPES;

pub(super) const PG_TYPE: &[(&str, CellKind)] = &[
    ("oid", Number),
    ("typname", Text),
    ("typnamespace", Number),
    ("typlen", Number),
    ("typtype", Text),
    ("typrelid", Number),
    ("typelem", Number),
    ("typarray", Number),
    ("typbasetype", Number),
    ("typtypmod", Number),
    ("typcollation", Number),
    ("typnotnull", Flag),
    ("typdelim", Text),
    ("typowner", Number),
    ("typisdefined", Flag),
    ("typcategory", Text),
    ("typispreferred", Flag),
    ("typinput", Text),
    ("typoutput", Text),
    ("typreceive", Text),
    ("typsend", Text),
    ("typdefault", Text),
    ("typndims", Number),
];

/// The rows of `pg_type`.
pub(super) fn rows() -> Vec<Vec<Cell>> {
    let lists = TYPES
        .iter()
        .map(|row| type_row(row.array_oid, row.array_name, -1, "A", "array", (i64::from(row.oid), 0)));
    let scalars = TYPES.iter().map(|row| {
        type_row(
            row.oid,
            row.short_name,
            row.size,
            row.category,
            row.short_name,
            (0, i64::from(row.array_oid)),
        )
    });
    // The type of names: drivers ask how long a name can be.
    let names = type_row(19, "name", 64, "S", "name", (18, 1003));
    scalars.chain(lists).chain([names]).collect()
}

/// A row of `pg_type`, with the types of the items and of the lists.
fn type_row(
    oid: u32,
    name: &str,
    size: i16,
    category: &str,
    reads: &str,
    (element, array): (i64, i64),
) -> Vec<Cell> {
    let function = |way: &str| Cell::Text(procedures::of_type(reads, way));
    let mut row: Vec<Cell> =
        vec![i64::from(oid).into(), name.into(), PG_CATALOG.into(), i64::from(size).into(), "b".into()];
    row.extend([0, element, array, 0, -1, 0].map(Cell::from));
    row.extend([false.into(), ",".into(), OWNER.into(), true.into(), category.into(), false.into()]);
    row.extend([
        function("in"),
        function("out"),
        function("recv"),
        function("send"),
        Cell::Null,
        0_i64.into(),
    ]);
    row
}
