//! `information_schema.columns`: its columns, and what they say of types.

use tidemill_engine::arrow::schema::DataType;

use super::table::Cell;
use super::table::CellKind::{self, Number, Text};
use crate::postgres::values::{Kind, digits_of};

/// The most bytes of a text, as PostgreSQL says.
const TEXT_BYTES_MAX: i64 = 1 << 30;

pub(super) const COLUMNS: &[(&str, CellKind)] = &[
    ("table_catalog", Text),
    ("table_schema", Text),
    ("table_name", Text),
    ("column_name", Text),
    ("ordinal_position", Number),
    ("is_nullable", Text),
    ("data_type", Text),
    ("udt_name", Text),
    ("udt_schema", Text),
    ("udt_catalog", Text),
    ("is_self_referencing", Text),
    ("is_identity", Text),
    ("is_generated", Text),
    ("is_updatable", Text),
    ("character_octet_length", Number),
    ("numeric_precision", Number),
    ("numeric_precision_radix", Number),
    ("numeric_scale", Number),
    ("datetime_precision", Number),
    ("dtd_identifier", Text),
];

/// What `information_schema.columns` says of a type: its bytes as a text, the digits of a number (with their radix and those behind the
/// point), and those of the seconds of a time.
pub(super) fn measures(data_type: &DataType) -> [Cell; 5] {
    let numbers = |values: [Option<i64>; 5]| values.map(|value| value.map_or(Cell::Null, Cell::Number));
    let binary = |digits: i64, scale: Option<i64>| numbers([None, Some(digits), Some(2), scale, None]);
    match Kind::of(data_type) {
        Kind::Int2 => binary(16, Some(0)),
        Kind::Int4 => binary(32, Some(0)),
        Kind::Int8 => binary(64, Some(0)),
        Kind::Float4 => binary(24, None),
        Kind::Float8 => binary(53, None),
        Kind::Numeric => {
            let (digits, scale) = decimal(data_type).unzip();
            numbers([None, digits, Some(10), scale, None])
        }
        Kind::Text => numbers([Some(TEXT_BYTES_MAX), None, None, None, None]),
        Kind::Date => numbers([None, None, None, None, Some(0)]),
        Kind::Time | Kind::Timestamp | Kind::TimestampTz | Kind::Interval => {
            numbers([None, None, None, None, Some(6)])
        }
        Kind::Bool | Kind::Bytea | Kind::Array(_) | Kind::Int2Vector => numbers([None; 5]),
    }
}

/// The digits of a decimal, and how many of them are behind the point.
fn decimal(data_type: &DataType) -> Option<(i64, i64)> {
    let (digits, scale) = digits_of(data_type)?;
    Some((digits.into(), scale.into()))
}
