//! Names of types that PostgreSQL has for types of the language.

use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType, ExactNumberInfo};

/// The most digits, in base 2, of a REAL.
const REAL_DIGITS_MAX: u64 = 24;

/// Puts the name of the language in the place of another one: `FLOAT` and `FLOAT(53)` are DOUBLE, `FLOAT(24)` is REAL.
pub(crate) fn meant_type(data_type: &mut DataType) {
    let meant = match data_type {
        DataType::Float(ExactNumberInfo::Precision(0)) => return,
        DataType::Float(ExactNumberInfo::None) => DataType::DoublePrecision,
        DataType::Float(ExactNumberInfo::Precision(1..=REAL_DIGITS_MAX)) => DataType::Real,
        DataType::Float(ExactNumberInfo::Precision(..=53)) => DataType::DoublePrecision,
        DataType::CharacterVarying(length) | DataType::CharVarying(length) => DataType::Varchar(*length),
        DataType::Character(length) => DataType::Char(*length),
        DataType::Dec(digits) => DataType::Decimal(*digits),
        DataType::Custom(name, modifiers)
            if modifiers.is_empty() && name.to_string().eq_ignore_ascii_case("bpchar") =>
        {
            DataType::Varchar(None)
        }
        DataType::Array(
            ArrayElemTypeDef::AngleBracket(items) | ArrayElemTypeDef::SquareBracket(items, _),
        ) => return meant_type(items),
        DataType::Struct(fields, _) => {
            fields.iter_mut().for_each(|field| meant_type(&mut field.field_type));
            return;
        }
        _ => return,
    };
    *data_type = meant;
}
