//! The numbers by which PostgreSQL's catalogue knows everything.

use crate::postgres::values::TYPES;

pub(super) const PG_CATALOG: i64 = 11;
pub(super) const PUBLIC: i64 = 2200;
pub(super) const INFORMATION_SCHEMA: i64 = 13_000;
/// The schemas.
pub(super) const SCHEMAS: [(i64, &str); 3] =
    [(PG_CATALOG, "pg_catalog"), (PUBLIC, "public"), (INFORMATION_SCHEMA, "information_schema")];
/// The places of files.
pub(super) const DEFAULT_TABLESPACE: i64 = 1663;
pub(super) const GLOBAL_TABLESPACE: i64 = 1664;
/// The number of the one role.
pub(super) const OWNER: i64 = 10;
/// The first number of what users define.
const FIRST_OID: i64 = 16_384;

/// The number of a relation: a hash of its name, so that it stays the same whatever else is defined.
pub(super) fn oid(name: &str) -> i64 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    FIRST_OID + (hash % (1 << 30)) as i64
}

/// The number of the type that SQL calls so.
pub(super) fn type_number(name: &str) -> Option<i64> {
    let known = TYPES.iter().find(|row| row.name == name || row.short_name == name);
    known.map(|row| i64::from(row.oid))
}
