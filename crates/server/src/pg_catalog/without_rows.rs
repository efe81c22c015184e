//! Relations of PostgreSQL's catalogue for what does not exist here. They have the columns that clients name, and no rows.

use super::table::CellKind::{self, Flag, Number, Text};
use super::table::Table;

/// The columns of a relation.
type Columns = &'static [(&'static str, CellKind)];

/// The relations that there are.
const RELATIONS: [(&str, Columns); 13] = [
    ("pg_attrdef", &[("oid", Number), ("adrelid", Number), ("adnum", Number), ("adbin", Text)]),
    (
        "pg_collation",
        &[("oid", Number), ("collname", Text), ("collnamespace", Number), ("collprovider", Text)],
    ),
    (
        "pg_depend",
        &[
            ("classid", Number),
            ("objid", Number),
            ("objsubid", Number),
            ("refclassid", Number),
            ("refobjid", Number),
            ("refobjsubid", Number),
            ("deptype", Text),
        ],
    ),
    (
        "pg_description",
        &[("objoid", Number), ("classoid", Number), ("objsubid", Number), ("description", Text)],
    ),
    ("pg_enum", &[("oid", Number), ("enumtypid", Number), ("enumsortorder", Number), ("enumlabel", Text)]),
    ("pg_extension", &[("oid", Number), ("extname", Text), ("extnamespace", Number), ("extversion", Text)]),
    ("pg_foreign_table", &[("ftrelid", Number), ("ftserver", Number), ("ftoptions", Text)]),
    ("pg_inherits", &[("inhrelid", Number), ("inhparent", Number), ("inhseqno", Number)]),
    ("pg_range", &[("rngtypid", Number), ("rngsubtype", Number), ("rngmultitypid", Number)]),
    (
        "pg_rewrite",
        &[("oid", Number), ("rulename", Text), ("ev_class", Number), ("ev_type", Text), ("is_instead", Flag)],
    ),
    (
        "pg_sequence",
        &[
            ("seqrelid", Number),
            ("seqtypid", Number),
            ("seqstart", Number),
            ("seqincrement", Number),
            ("seqmax", Number),
            ("seqmin", Number),
            ("seqcache", Number),
            ("seqcycle", Flag),
        ],
    ),
    ("pg_tablespace", &[("oid", Number), ("spcname", Text), ("spcowner", Number)]),
    (
        "pg_trigger",
        &[
            ("oid", Number),
            ("tgrelid", Number),
            ("tgname", Text),
            ("tgfoid", Number),
            ("tgtype", Number),
            ("tgenabled", Text),
            ("tgisinternal", Flag),
        ],
    ),
];

/// Their names.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    RELATIONS.iter().map(|(name, _)| *name)
}

/// A relation by its name.
pub(super) fn table(name: &str) -> Option<Table> {
    let (_, columns) = RELATIONS.iter().find(|(known, _)| *known == name)?;
    Some(Table { columns, values: Vec::new() })
}
