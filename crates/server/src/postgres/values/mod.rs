//! Values as clients know them: types, texts, bytes.

mod binary;
mod column;
mod days;
mod numeric;
mod parameter;

pub(crate) use self::column::{
    Column, INT2VECTOR, Kind, MODIFIER_HEAD, TYPES, columns, digits_of, type_modifier,
};
pub(crate) use self::parameter::{kind_of_parameter, parameter, type_of_parameter};

use tidemill_engine::arrow::array::{Array, ArrayRef};
use tidemill_engine::arrow::schema::DataType;
use tidemill_sql::value_text;

/// Writes a value in the format of its column; whether there is one.
pub(crate) fn write_value(column: &Column, array: &ArrayRef, row: usize, bytes: &mut Vec<u8>) -> bool {
    if array.is_null(row) || *array.data_type() == DataType::Null {
        return false;
    }
    if column.is_binary {
        binary::write(column.kind, array.as_ref(), row, bytes)
    } else if column.kind == Kind::Int2Vector {
        value_text::write_vector(array.as_ref(), row, bytes)
    } else {
        value_text::write(array.as_ref(), row, bytes)
    }
}
