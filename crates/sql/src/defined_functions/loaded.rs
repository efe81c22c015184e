//! Functions whose code is loaded, as DataFusion calls them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use tidemill_engine::Cause;
use tidemill_wasm::{Failure, Function};

use crate::limit_reached::stopped;

/// A function whose code is loaded. Its name in plans is made of its own and of what it computes, because plans as text say which
/// queries compute the same.
pub(crate) struct LoadedFunction {
    name: String,
    /// In messages.
    shown: String,
    signature: Signature,
    function: Function,
}

impl LoadedFunction {
    /// A function, with the digest of all that it is defined by.
    pub fn scalar(shown: &str, digest: &str, function: Function) -> ScalarUDF {
        let signature = match function.arguments() {
            [] => Signature::nullary(Volatility::Immutable),
            arguments => Signature::exact(arguments.to_vec(), Volatility::Immutable),
        };
        let name = format!("{shown}@{digest}");
        ScalarUDF::new_from_impl(LoadedFunction { name, shown: shown.to_owned(), signature, function })
    }

    fn failed(&self, failure: &Failure) -> DataFusionError {
        let message = format!("{}: {failure}", self.shown);
        match failure.stops() {
            true => stopped(Cause::resource(message)),
            false => DataFusionError::Execution(message),
        }
    }
}

impl ScalarUDFImpl for LoadedFunction {
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
        match is_constant {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?)),
            false => Ok(ColumnarValue::Array(values)),
        }
    }
}

impl fmt::Debug for LoadedFunction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LoadedFunction").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for LoadedFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for LoadedFunction {}

impl Hash for LoadedFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// The functions by their names in plans. A function that is replaced stays: what was defined with it calls it.
pub(crate) type LoadedFunctions = std::collections::BTreeMap<String, Arc<ScalarUDF>>;
