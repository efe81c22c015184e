//! The columns of an answer, as clients know them.

use tidemill_engine::arrow::schema::{DataType, Schema};

/// A type that clients know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Numeric,
    Text,
    Bytea,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Interval,
}

/// All of them, with the number and the size that PostgreSQL gives them; -1: of any size.
pub(crate) const TYPES: [(Kind, u32, i16, &str); 14] = [
    (Kind::Bool, 16, 1, "boolean"),
    (Kind::Int2, 21, 2, "smallint"),
    (Kind::Int4, 23, 4, "integer"),
    (Kind::Int8, 20, 8, "bigint"),
    (Kind::Float4, 700, 4, "real"),
    (Kind::Float8, 701, 8, "double precision"),
    (Kind::Numeric, 1700, -1, "numeric"),
    (Kind::Text, 25, -1, "text"),
    (Kind::Bytea, 17, -1, "bytea"),
    (Kind::Date, 1082, 4, "date"),
    (Kind::Time, 1083, 8, "time without time zone"),
    (Kind::Timestamp, 1114, 8, "timestamp without time zone"),
    (Kind::TimestampTz, 1184, 8, "timestamp with time zone"),
    (Kind::Interval, 1186, 16, "interval"),
];

impl Kind {
    /// The type of a column. Lists, structs and whatever else clients do not know are texts.
    pub fn of(data_type: &DataType) -> Kind {
        match data_type {
            DataType::Boolean => Kind::Bool,
            DataType::Int8 | DataType::Int16 | DataType::UInt8 => Kind::Int2,
            DataType::Int32 | DataType::UInt16 => Kind::Int4,
            DataType::Int64 | DataType::UInt32 => Kind::Int8,
            DataType::Float16 | DataType::Float32 => Kind::Float4,
            DataType::Float64 => Kind::Float8,
            DataType::UInt64
            | DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => Kind::Numeric,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => Kind::Bytea,
            DataType::Date32 | DataType::Date64 => Kind::Date,
            DataType::Time32(_) | DataType::Time64(_) => Kind::Time,
            DataType::Timestamp(_, None) => Kind::Timestamp,
            DataType::Timestamp(_, Some(_)) => Kind::TimestampTz,
            DataType::Interval(_) | DataType::Duration(_) => Kind::Interval,
            _ => Kind::Text,
        }
    }

    /// Whether values of an array are of this type.
    pub fn holds(self, data_type: &DataType) -> bool {
        Kind::of(data_type) == self
    }

    fn row(self) -> &'static (Kind, u32, i16, &'static str) {
        TYPES.iter().find(|(kind, ..)| *kind == self).unwrap_or(&TYPES[0])
    }

    /// PostgreSQL's number of the type.
    pub fn oid(self) -> u32 {
        self.row().1
    }

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        self.row().3
    }

    /// Its name in PostgreSQL's catalogue.
    pub fn short_name(self) -> &'static str {
        match self {
            Kind::Bool => "bool",
            Kind::Int2 => "int2",
            Kind::Int4 => "int4",
            Kind::Int8 => "int8",
            Kind::Float4 => "float4",
            Kind::Float8 => "float8",
            Kind::Time => "time",
            Kind::Timestamp => "timestamp",
            Kind::TimestampTz => "timestamptz",
            other => other.name(),
        }
    }

    /// Its size in bytes; -1: of any size.
    pub fn size(self) -> i16 {
        self.row().2
    }
}

/// A column of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub name: String,
    pub kind: Kind,
    /// Whether its values are sent in binary form.
    pub is_binary: bool,
}

/// The columns of a schema. Formats: none (all as text), one for all, or one for each.
pub(crate) fn columns(schema: &Schema, formats: &[u16]) -> Vec<Column> {
    let format = |index: usize| match formats {
        [] => 0,
        [all] => *all,
        each => each.get(index).copied().unwrap_or(0),
    };
    let fields = schema.fields().iter().enumerate();
    let column = |(index, field): (usize, &tidemill_engine::arrow::schema::FieldRef)| Column {
        name: field.name().clone(),
        kind: Kind::of(field.data_type()),
        is_binary: format(index) == 1,
    };
    fields.map(column).collect()
}
