//! Maps columns of rows to columns of a table.

use arrow_schema::{DataType, TimeUnit};
use tidemill_core::Cause;
use tokio_postgres::types::{Kind, Type};

/// How a value is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    /// An integer of 2, 4 or 8 bytes.
    Integer {
        bytes: usize,
    },
    /// Decimal digits, with this many after the point.
    Numeric {
        scale: i8,
    },
    Float4,
    Float8,
    Boolean,
    Text,
    Bytes,
    Date,
    Timestamp(TimeUnit),
    /// Elements and the number of their type.
    List(Box<Encoding>, u32),
}

/// The type of a column in a table that is created.
pub(super) fn type_name(name: &str, data_type: &DataType) -> Result<String, Cause> {
    use DataType::*;
    Ok(match data_type {
        Int8 | UInt8 | Int16 => "smallint".to_owned(),
        UInt16 | Int32 => "integer".to_owned(),
        UInt32 | Int64 => "bigint".to_owned(),
        UInt64 => "numeric(20,0)".to_owned(),
        Float32 => "real".to_owned(),
        Float64 => "double precision".to_owned(),
        Boolean => "boolean".to_owned(),
        Utf8 | LargeUtf8 | Utf8View => "text".to_owned(),
        Binary | LargeBinary | BinaryView => "bytea".to_owned(),
        Date32 => "date".to_owned(),
        Timestamp(_, None) => "timestamp".to_owned(),
        Timestamp(_, Some(_)) => "timestamptz".to_owned(),
        Decimal128(precision, scale) if *scale >= 0 => format!("numeric({precision},{scale})"),
        Decimal128(..) => "numeric".to_owned(),
        Dictionary(_, values) => type_name(name, values)?,
        List(item) | LargeList(item) | FixedSizeList(item, _) => match item.data_type() {
            List(_) | LargeList(_) | FixedSizeList(..) => return Err(unsupported(name, data_type)),
            item => type_name(name, item)? + "[]",
        },
        _ => return Err(unsupported(name, data_type)),
    })
}

fn unsupported(name: &str, data_type: &DataType) -> Cause {
    Cause::user(format!("column '{name}' has type {data_type}, which PostgreSQL cannot store; cast it"))
}

/// How values of this type are written to a column of that type.
pub(super) fn encoding(name: &str, data_type: &DataType, column: &Type) -> Result<Encoding, Cause> {
    let expected = type_name(name, data_type)?;
    choose(data_type, column).ok_or_else(|| {
        Cause::user(format!(
            "column '{name}' has type {column} in the table, which cannot store {data_type}; change it to \
             {expected}, or cast the values"
        ))
    })
}

fn choose(data_type: &DataType, column: &Type) -> Option<Encoding> {
    use DataType::*;
    let is = |types: &[Type]| types.contains(column);
    match data_type {
        Dictionary(_, values) => choose(values, column),
        Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 => match *column {
            Type::INT2 => Some(Encoding::Integer { bytes: 2 }),
            Type::INT4 => Some(Encoding::Integer { bytes: 4 }),
            Type::INT8 => Some(Encoding::Integer { bytes: 8 }),
            Type::NUMERIC => Some(Encoding::Numeric { scale: 0 }),
            _ => None,
        },
        Float32 if is(&[Type::FLOAT4]) => Some(Encoding::Float4),
        Float32 | Float64 => is(&[Type::FLOAT8]).then_some(Encoding::Float8),
        Boolean => is(&[Type::BOOL]).then_some(Encoding::Boolean),
        Utf8 | LargeUtf8 | Utf8View => {
            is(&[Type::TEXT, Type::VARCHAR, Type::BPCHAR, Type::JSON]).then_some(Encoding::Text)
        }
        Binary | LargeBinary | BinaryView => is(&[Type::BYTEA]).then_some(Encoding::Bytes),
        Date32 => is(&[Type::DATE]).then_some(Encoding::Date),
        // One without a zone is in UTC, as everywhere in Tidemill.
        Timestamp(unit, _) => is(&[Type::TIMESTAMP, Type::TIMESTAMPTZ]).then_some(Encoding::Timestamp(*unit)),
        Decimal128(_, scale) => is(&[Type::NUMERIC]).then_some(Encoding::Numeric { scale: *scale }),
        List(item) | LargeList(item) | FixedSizeList(item, _) => match column.kind() {
            Kind::Array(element) if !matches!(item.data_type(), List(_) | LargeList(_)) => {
                Some(Encoding::List(Box::new(choose(item.data_type(), element)?), element.oid()))
            }
            _ => None,
        },
        _ => None,
    }
}
