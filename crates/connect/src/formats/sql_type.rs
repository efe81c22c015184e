//! The names of types in SQL.

use arrow_schema::{DataType, Field, TimeUnit};

/// The name of a type in SQL, for messages and to be declared again.
///
/// ```
/// use tidemill_core::arrow::schema::{DataType, TimeUnit};
/// use tidemill_connect::formats::sql_type;
/// assert_eq!(sql_type(&DataType::Int64), "BIGINT");
/// assert_eq!(sql_type(&DataType::Timestamp(TimeUnit::Nanosecond, None)), "TIMESTAMP");
/// assert_eq!(sql_type(&DataType::Timestamp(TimeUnit::Millisecond, None)), "TIMESTAMP(3)");
/// assert_eq!(sql_type(&DataType::Binary), "BYTEA");
/// ```
pub fn sql_type(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INT",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "TINYINT UNSIGNED",
        DataType::UInt16 => "SMALLINT UNSIGNED",
        DataType::UInt32 => "INT UNSIGNED",
        DataType::UInt64 => "BIGINT UNSIGNED",
        DataType::Float32 => "REAL",
        DataType::Float64 => "DOUBLE",
        DataType::Date32 | DataType::Date64 => "DATE",
        DataType::Time32(_) | DataType::Time64(_) => "TIME",
        DataType::Timestamp(TimeUnit::Second, None) => "TIMESTAMP(0)",
        DataType::Timestamp(TimeUnit::Millisecond, None) => "TIMESTAMP(3)",
        DataType::Timestamp(TimeUnit::Microsecond, None) => "TIMESTAMP(6)",
        DataType::Timestamp(TimeUnit::Nanosecond, None) => "TIMESTAMP",
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            "BYTEA"
        }
        DataType::Interval(_) | DataType::Duration(_) => "INTERVAL",
        DataType::Null => "NULL",
        DataType::Struct(fields) => {
            let field = |field: &Field| format!("{} {}", name(field.name()), sql_type(field.data_type()));
            let fields: Vec<String> = fields.iter().map(|one| field(one)).collect();
            return format!("STRUCT<{}>", fields.join(", "));
        }
        DataType::Dictionary(_, value) => return sql_type(value),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            return format!("{}[]", sql_type(item.data_type()));
        }
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => return format!("DECIMAL({precision}, {scale})"),
        other => return other.to_string(),
    };
    name.to_owned()
}

/// The name of a field, in quotes if it would be another one without.
fn name(name: &str) -> String {
    let is_plain = name.starts_with(|letter: char| letter.is_ascii_lowercase() || letter == '_')
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}
