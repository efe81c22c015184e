//! Types in casts, in columns and before strings. A type with a part that no value would show is refused.

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType, ExactNumberInfo, StructBracketKind, StructField, TimezoneInfo,
};

/// Why a type is refused, and what to write.
pub(super) struct Refusal {
    pub message: String,
    pub hint: String,
}

type Checked = Result<(), Refusal>;

/// Maximum number of digits of a decimal.
const DIGITS_MAX: u64 = 38;
/// Numbers of digits after the second for which a unit of time exists.
const SECOND_DIGITS: [u64; 4] = [0, 3, 6, 9];

/// The type of a column that a source has, or of a cast: it may limit the length of texts, and say that they are JSON or UUIDs.
pub(super) fn check_stored(data_type: &DataType) -> Checked {
    match crate::statement::text_length(data_type) {
        Some(1..) => Ok(()),
        Some(0) => refused("a text of no characters", "write VARCHAR, or a length from 1"),
        None if is_form_of_text(data_type) => Ok(()),
        None => check(data_type),
    }
}

/// Whether it is a text that has a certain form.
fn is_form_of_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::JSON | DataType::JSONB | DataType::Uuid)
}

/// Refuses a type that does not exist, or a part of a type that has no effect here.
pub(super) fn check(data_type: &DataType) -> Checked {
    use DataType as T;
    match data_type {
        T::Bool
        | T::Boolean
        | T::Real
        | T::Float4
        | T::Float8
        | T::DoublePrecision
        | T::Text
        | T::Bytea
        | T::Date
        | T::Interval { fields: None, precision: None }
        | T::Time(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => Ok(()),
        T::TinyInt(width)
        | T::SmallInt(width)
        | T::Int2(width)
        | T::Int(width)
        | T::Integer(width)
        | T::Int4(width)
        | T::BigInt(width)
        | T::Int8(width)
        | T::TinyIntUnsigned(width)
        | T::SmallIntUnsigned(width)
        | T::Int2Unsigned(width)
        | T::IntUnsigned(width)
        | T::IntegerUnsigned(width)
        | T::Int4Unsigned(width)
        | T::BigIntUnsigned(width)
        | T::Int8Unsigned(width) => match width {
            None => Ok(()),
            Some(_) => refused("the display width of an integer has no effect", "remove the width"),
        },
        T::Float(digits) => match digits {
            ExactNumberInfo::None | ExactNumberInfo::Precision(1..=53) => Ok(()),
            ExactNumberInfo::Precision(_) => {
                refused("a FLOAT has 1 to 53 digits in base 2", "write DOUBLE, which is FLOAT(53)")
            }
            ExactNumberInfo::PrecisionAndScale(_, _) => {
                absent(data_type, "write REAL, or DECIMAL for exact digits")
            }
        },
        T::Double(digits) => match digits {
            ExactNumberInfo::None => Ok(()),
            ExactNumberInfo::Precision(_) | ExactNumberInfo::PrecisionAndScale(_, _) => {
                absent(data_type, "write DOUBLE, or DECIMAL for exact digits")
            }
        },
        T::Decimal(digits) | T::Numeric(digits) | T::Dec(digits) => decimal(digits),
        T::Char(length)
        | T::Varchar(length)
        | T::Character(length)
        | T::CharacterVarying(length)
        | T::CharVarying(length) => match length {
            None => Ok(()),
            Some(length) => text(&length.to_string()),
        },
        T::String(length) => match length {
            None => Ok(()),
            Some(length) => text(&length.to_string()),
        },
        T::Timestamp(digits, zone) => {
            match zone {
                TimezoneInfo::None
                | TimezoneInfo::WithoutTimeZone
                | TimezoneInfo::WithTimeZone
                | TimezoneInfo::Tz => {}
            }
            match digits {
                Some(digits) if !SECOND_DIGITS.contains(digits) => {
                    refused("a TIMESTAMP has 0, 3, 6 or 9 fractional digits", "write TIMESTAMP, which has 9")
                }
                Some(_) | None => Ok(()),
            }
        }
        T::Array(items) => match items {
            ArrayElemTypeDef::AngleBracket(items) | ArrayElemTypeDef::SquareBracket(items, _) => check(items),
            ArrayElemTypeDef::Parenthesis(items) => absent(data_type, &format!("write {items}[]")),
            ArrayElemTypeDef::None => {
                refused("the item type of the list is missing", "write the type of the items: BIGINT[]")
            }
        },
        T::Struct(fields, brackets) => {
            match brackets {
                StructBracketKind::AngleBrackets | StructBracketKind::Parentheses => {}
            }
            fields.iter().try_for_each(field)
        }
        T::Time(_, _) => absent(data_type, "write TIME, or TIMESTAMP for an instant"),
        T::Interval { fields: _, precision: _ } => absent(data_type, "write INTERVAL"),
        T::Nvarchar(_)
        | T::CharacterLargeObject(_)
        | T::CharLargeObject(_)
        | T::Clob(_)
        | T::TinyText
        | T::MediumText
        | T::LongText
        | T::FixedString(_)
        | T::Uuid
        | T::Enum(_, _)
        | T::Set(_) => absent(data_type, "write VARCHAR"),
        T::JSON | T::JSONB => absent(
            data_type,
            "a column and a cast can have it; elsewhere write VARCHAR, which -> and ->> take apart",
        ),
        T::Map(_, _) | T::Tuple(_) | T::Nested(_) | T::Union(_) => {
            absent(data_type, "write the fields: STRUCT<name VARCHAR>")
        }
        T::Binary(_)
        | T::Varbinary(_)
        | T::Blob(_)
        | T::TinyBlob
        | T::MediumBlob
        | T::LongBlob
        | T::Bytes(_)
        | T::Bit(_)
        | T::BitVarying(_)
        | T::VarBit(_) => absent(data_type, "write BYTEA"),
        T::BigNumeric(_)
        | T::BigDecimal(_)
        | T::DecimalUnsigned(_)
        | T::DecUnsigned(_)
        | T::Int128
        | T::Int256
        | T::UInt128
        | T::UInt256
        | T::HugeInt
        | T::UHugeInt => absent(data_type, "write DECIMAL(38, 0), or fewer digits if they suffice"),
        T::MediumInt(_) | T::Int32 => absent(data_type, "write INT"),
        T::MediumIntUnsigned(_) | T::UInt32 => absent(data_type, "write INT UNSIGNED"),
        T::Int16 => absent(data_type, "write SMALLINT"),
        T::UInt8 | T::UTinyInt => absent(data_type, "write TINYINT UNSIGNED"),
        T::UInt16 | T::USmallInt => absent(data_type, "write SMALLINT UNSIGNED"),
        T::Int64 | T::Signed | T::SignedInteger => absent(data_type, "write BIGINT"),
        T::UInt64 | T::UBigInt | T::Unsigned | T::UnsignedInteger => {
            absent(data_type, "write BIGINT UNSIGNED")
        }
        T::Float32 | T::FloatUnsigned(_) | T::RealUnsigned => absent(data_type, "write REAL"),
        T::Float64 | T::DoubleUnsigned(_) | T::DoublePrecisionUnsigned => absent(data_type, "write DOUBLE"),
        T::Date32 => absent(data_type, "write DATE"),
        T::Datetime(_) | T::Datetime64(_, _) | T::TimestampNtz(_) => absent(data_type, "write TIMESTAMP"),
        T::Nullable(inner) | T::LowCardinality(inner) => absent(data_type, &format!("write {inner}")),
        T::Custom(name, modifiers)
            if modifiers.is_empty() && name.to_string().eq_ignore_ascii_case("bpchar") =>
        {
            Ok(())
        }
        // Among them are misspelt names.
        T::Custom(_, _)
        | T::Regclass
        | T::Unspecified
        | T::Trigger
        | T::AnyType
        | T::Table(_)
        | T::NamedTable { name: _, columns: _ }
        | T::GeometricType(_)
        | T::TsVector
        | T::TsQuery => unknown(data_type),
    }
}

fn refused<T>(message: impl Into<String>, hint: &str) -> Result<T, Refusal> {
    Err(Refusal { message: message.into(), hint: hint.to_string() })
}

fn absent(data_type: &DataType, hint: &str) -> Checked {
    refused(format!("the type {data_type} is not part of the language"), hint)
}

fn unknown(data_type: &DataType) -> Checked {
    const NAMES: [&str; 12] = [
        "BIGINT",
        "DOUBLE",
        "VARCHAR",
        "BOOLEAN",
        "TIMESTAMP",
        "DATE",
        "INT",
        "SMALLINT",
        "REAL",
        "DECIMAL",
        "TIME",
        "INTERVAL",
    ];
    let hint = match crate::closest(&data_type.to_string(), NAMES) {
        Some(meant) => format!("did you mean {meant}?"),
        None => "types are BIGINT, DOUBLE, VARCHAR, BOOLEAN, TIMESTAMP, DATE and others".to_string(),
    };
    refused(format!("unknown type `{data_type}`"), &hint)
}

fn text(length: &str) -> Checked {
    refused(
        "values are not truncated to the length of their type",
        &format!("write VARCHAR, and left(text, {length}) to truncate the text"),
    )
}

fn decimal(digits: &ExactNumberInfo) -> Checked {
    let (precision, scale) = match digits {
        ExactNumberInfo::None => return Ok(()),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    if precision == 0 || precision > DIGITS_MAX {
        return refused(
            "a DECIMAL has 1 to 38 digits",
            "write DECIMAL(38, 10), or DOUBLE for larger numbers",
        );
    }
    if u64::try_from(scale).is_ok_and(|scale| scale <= precision) {
        Ok(())
    } else {
        refused(
            format!("a DECIMAL of {precision} digits has 0 to {precision} of them after the decimal point"),
            "write the number of all digits, then of those after the decimal point: DECIMAL(10, 2)",
        )
    }
}

fn field(field: &StructField) -> Checked {
    let StructField { field_name: _, field_type, options } = field;
    match options {
        Some(_) => refused("the fields of a STRUCT have no options", "remove OPTIONS"),
        None => check(field_type),
    }
}
