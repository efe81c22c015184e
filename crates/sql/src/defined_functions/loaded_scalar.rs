//! Scalar functions whose code is loaded, as DataFusion calls them.

use std::fmt;
use std::hash::{Hash, Hasher};

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use tidemill_engine::Cause;
use tidemill_wasm::{Failure, Function};

use crate::limit_reached::stopped;

/// A scalar function whose code is loaded. Its name in plans is made of its own and of what it computes, because plans as text
/// say which queries compute the same.
pub(crate) struct LoadedScalar {
    name: String,
    /// In messages.
    shown: String,
    signature: Signature,
    function: Function,
}

impl LoadedScalar {
    /// A function under its name in plans.
    pub fn function(shown: &str, name: String, function: Function) -> ScalarUDF {
        let signature = match function.arguments() {
            [] => Signature::nullary(Volatility::Immutable),
            arguments => Signature::exact(arguments.to_vec(), Volatility::Immutable),
        };
        ScalarUDF::new_from_impl(LoadedScalar { name, shown: shown.to_owned(), signature, function })
    }

    fn failed(&self, failure: &Failure) -> DataFusionError {
        let message = format!("{}: {failure}", self.shown);
        if failure.stops() { stopped(Cause::resource(message)) } else { DataFusionError::Execution(message) }
    }
}

impl ScalarUDFImpl for LoadedScalar {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.function.result().clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant =
            !args.args.is_empty() && args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let columns: Result<Vec<ArrayRef>> =
            args.args.into_iter().map(|value| value.into_array(rows)).collect();
        let values = self.function.call(&columns?, rows).map_err(|failure| self.failed(&failure))?;
        if is_constant {
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?))
        } else {
            Ok(ColumnarValue::Array(values))
        }
    }
}

impl fmt::Debug for LoadedScalar {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LoadedScalar").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for LoadedScalar {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for LoadedScalar {}

impl Hash for LoadedScalar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}
