//! Which columns Arrow's JSON reader makes itself, and which it is asked for as text.

use arrow_schema::{DataType, Field};

/// Whether Arrow itself makes a column of this type from JSON.
pub(super) fn is_direct(data_type: &DataType) -> bool {
    data_type.is_nested() || data_type.is_null() || data_type.is_binary()
}

/// The field requested from Arrow instead of a declared column.
pub(super) fn raw_field(field: &Field, name: &str) -> Field {
    if is_direct(field.data_type()) {
        field.clone().with_name(name).with_nullable(true)
    } else {
        Field::new(name, DataType::Utf8, true)
    }
}
