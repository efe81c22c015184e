//! The columns of an answer, as clients know them.

use tidemill_engine::arrow::schema::{DataType, Field, Schema};

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
    /// A list of values of another type.
    Array(&'static Kind),
    /// Numbers of columns, as the catalogue has them.
    Int2Vector,
}

/// What PostgreSQL knows of a type.
pub(crate) struct TypeRow {
    pub kind: Kind,
    pub oid: u32,
    /// In bytes; -1: of any size.
    pub size: i16,
    /// In SQL.
    pub name: &'static str,
    /// In the catalogue.
    pub short_name: &'static str,
    /// Of its lists.
    pub array_oid: u32,
    pub array_name: &'static str,
    /// What it is like: a number, a text, a time, ...
    pub category: &'static str,
}

macro_rules! types {
    ($(
        $kind:ident $oid:literal $size:literal $name:literal $short:literal
        $array:literal $array_name:literal $category:literal;
    )*) => {
        [$(TypeRow {
            kind: Kind::$kind,
            oid: $oid,
            size: $size,
            name: $name,
            short_name: $short,
            array_oid: $array,
            array_name: $array_name,
            category: $category,
        },)*]
    };
}

/// All of them but lists.
pub(crate) static TYPES: [TypeRow; 14] = types! {
    Bool 16 1 "boolean" "bool" 1000 "_bool" "B";
    Int2 21 2 "smallint" "int2" 1005 "_int2" "N";
    Int4 23 4 "integer" "int4" 1007 "_int4" "N";
    Int8 20 8 "bigint" "int8" 1016 "_int8" "N";
    Float4 700 4 "real" "float4" 1021 "_float4" "N";
    Float8 701 8 "double precision" "float8" 1022 "_float8" "N";
    Numeric 1700 -1 "numeric" "numeric" 1231 "_numeric" "N";
    Text 25 -1 "text" "text" 1009 "_text" "S";
    Bytea 17 -1 "bytea" "bytea" 1001 "_bytea" "U";
    Date 1082 4 "date" "date" 1182 "_date" "D";
    Time 1083 8 "time without time zone" "time" 1183 "_time" "D";
    Timestamp 1114 8 "timestamp without time zone" "timestamp" 1115 "_timestamp" "D";
    TimestampTz 1184 8 "timestamp with time zone" "timestamptz" 1185 "_timestamptz" "D";
    Interval 1186 16 "interval" "interval" 1187 "_interval" "T";
};

/// What the items of a list are called whose type is `int2vector`.
pub(crate) const INT2VECTOR: &str = "int2vector";
const INT2VECTOR_OID: u32 = 22;

impl Kind {
    /// The type of a column. Structs, lists of lists, and whatever else clients do not know are texts.
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
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                Kind::of_list(item)
            }
            _ => Kind::Text,
        }
    }

    fn of_list(item: &Field) -> Kind {
        if item.name() == INT2VECTOR {
            return Kind::Int2Vector;
        }
        let kind = Kind::of(item.data_type());
        TYPES.iter().find(|row| row.kind == kind).map_or(Kind::Text, |row| Kind::Array(&row.kind))
    }

    /// Whether values of an array are of this type, or can be written as texts.
    pub fn holds(self, data_type: &DataType) -> bool {
        let kind = Kind::of(data_type);
        kind == self || (self == Kind::Text && kind.is_list())
    }

    /// Whether it is a list of any type.
    pub fn is_list(self) -> bool {
        matches!(self, Kind::Array(_) | Kind::Int2Vector)
    }

    fn row(self) -> &'static TypeRow {
        let scalar = match self {
            Kind::Array(item) => *item,
            Kind::Int2Vector => Kind::Int2,
            other => other,
        };
        TYPES.iter().find(|row| row.kind == scalar).unwrap_or(&TYPES[0])
    }

    /// PostgreSQL's number of the type.
    pub fn oid(self) -> u32 {
        match self {
            Kind::Array(_) => self.row().array_oid,
            Kind::Int2Vector => INT2VECTOR_OID,
            _ => self.row().oid,
        }
    }

    /// Its name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Array(_) | Kind::Int2Vector => "ARRAY",
            _ => self.row().name,
        }
    }

    /// Its name in SQL, and for a list that of its values with brackets.
    pub fn full_name(self) -> String {
        match self {
            Kind::Array(item) => [item.name(), "[]"].concat(),
            _ => self.name().to_owned(),
        }
    }

    /// Its name in PostgreSQL's catalogue.
    pub fn short_name(self) -> &'static str {
        match self {
            Kind::Array(_) => self.row().array_name,
            Kind::Int2Vector => INT2VECTOR,
            _ => self.row().short_name,
        }
    }

    /// Its size in bytes; -1: of any size.
    pub fn size(self) -> i16 {
        match self {
            Kind::Array(_) | Kind::Int2Vector => -1,
            _ => self.row().size,
        }
    }
}

/// The bytes that PostgreSQL counts to a type's modifier for the length of its own fields.
pub(crate) const MODIFIER_HEAD: i32 = 4;

/// Returns the digits of a decimal, and how many of them are behind the point.
pub(crate) fn digits_of(data_type: &DataType) -> Option<(u8, i8)> {
    match data_type {
        DataType::Decimal32(digits, scale)
        | DataType::Decimal64(digits, scale)
        | DataType::Decimal128(digits, scale)
        | DataType::Decimal256(digits, scale) => Some((*digits, *scale)),
        _ => None,
    }
}

/// Returns what PostgreSQL says of a type besides its number, a `typmod`; -1: nothing.
pub(crate) fn type_modifier(data_type: &DataType) -> i32 {
    let digits = digits_of(data_type).filter(|(_, scale)| *scale >= 0);
    digits.map_or(-1, |(digits, scale)| (i32::from(digits) << 16 | i32::from(scale)) + MODIFIER_HEAD)
}

/// A column of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub name: String,
    pub kind: Kind,
    /// What is said of its type besides: the digits of a decimal.
    pub modifier: i32,
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
        modifier: type_modifier(field.data_type()),
        is_binary: format(index) == 1,
    };
    fields.map(column).collect()
}
