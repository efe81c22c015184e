//! The value of a subquery that must have one row.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::max;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

use crate::refusal::refuse;

/// Returns the function of a count of rows and the value of one of them. Queries cannot name it.
pub(super) fn only_value() -> ScalarUDF {
    ScalarUDF::new_from_impl(OnlyValue { signature: Signature::any(2, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OnlyValue {
    signature: Signature,
}

impl ScalarUDFImpl for OnlyValue {
    fn name(&self) -> &str {
        "value of the only row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [_, value] => Ok(value.clone()),
            _ => internal_err!("{} has two arguments", self.name()),
        }
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let value = arguments.arg_fields[1].data_type().clone();
        Ok(Arc::new(Field::new(self.name(), value, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let counts = args.args[0].to_array(args.number_rows)?;
        match max(counts.as_primitive::<Int64Type>()) {
            Some(rows) if rows > 1 => Err(refuse(
                format!(
                    "a scalar subquery must return one row, but this one returns {rows} for an outer row"
                ),
                "select one of them with max() or LIMIT 1",
            )),
            _ => Ok(args.args[1].clone()),
        }
    }
}
