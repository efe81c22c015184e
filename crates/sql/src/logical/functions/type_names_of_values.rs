//! `pg_typeof(value)`: the type of a value, by the name that it has in PostgreSQL.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use tidemill_connect::formats::sql_type;

/// The function under its own name.
pub(super) fn pg_typeof() -> ScalarUDF {
    ScalarUDF::new_from_impl(TypeOf { signature: Signature::any(1, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TypeOf {
    signature: Signature,
}

impl ScalarUDFImpl for TypeOf {
    fn name(&self) -> &str {
        "pg_typeof"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.arg_fields.as_slice() {
            [value] => Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(name(value.data_type()))))),
            _ => exec_err!("pg_typeof has one argument"),
        }
    }
}

fn name(data_type: &DataType) -> String {
    match data_type {
        DataType::Null => "unknown".to_owned(),
        DataType::List(items) | DataType::LargeList(items) | DataType::FixedSizeList(items, _) => {
            format!("{}[]", name(items.data_type()))
        }
        DataType::Struct(_) => "record".to_owned(),
        DataType::Int8 | DataType::Int16 => "smallint".to_owned(),
        DataType::Int32 => "integer".to_owned(),
        DataType::Int64 => "bigint".to_owned(),
        DataType::Float64 => "double precision".to_owned(),
        data_type if data_type.is_decimal() => "numeric".to_owned(),
        data_type if data_type.is_string() => "text".to_owned(),
        DataType::Timestamp(_, None) => "timestamp without time zone".to_owned(),
        DataType::Time32(_) | DataType::Time64(_) => "time without time zone".to_owned(),
        // The others have the same name in both.
        other => sql_type(other).to_lowercase(),
    }
}
