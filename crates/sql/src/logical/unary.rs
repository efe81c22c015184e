//! Functions of one value that the planner calls and queries cannot name.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs};

/// The result, which is NULL only where the argument is.
pub(super) fn result_field(name: &str, data_type: DataType, arguments: &ReturnFieldArgs<'_>) -> FieldRef {
    Arc::new(Field::new(name, data_type, arguments.arg_fields[0].is_nullable()))
}

/// What a function of columns gives; for a constant, a constant.
pub(super) fn applied(
    args: &ScalarFunctionArgs,
    function: impl Fn(&ArrayRef) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    match &args.args[0] {
        ColumnarValue::Array(values) => Ok(ColumnarValue::Array(function(values)?)),
        ColumnarValue::Scalar(value) => {
            let computed = function(&value.to_array()?)?;
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&computed, 0)?))
        }
    }
}
