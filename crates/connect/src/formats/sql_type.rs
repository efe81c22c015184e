//! The names of types in SQL.

use arrow_schema::DataType;

/// The name of a type in SQL, for messages.
///
/// ```
/// use tidemill_core::arrow::schema::{DataType, TimeUnit};
/// use tidemill_connect::formats::sql_type;
/// assert_eq!(sql_type(&DataType::Int64), "BIGINT");
/// assert_eq!(sql_type(&DataType::Timestamp(TimeUnit::Nanosecond, None)), "TIMESTAMP");
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
        DataType::Timestamp(_, None) => "TIMESTAMP",
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR",
        DataType::Interval(_) => "INTERVAL",
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
