//! Functions of the type of their argument, whatever it is.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::Planner;

/// What is said of a type.
type Description = dyn Fn(&DataType) -> String + Send + Sync;

impl Planner {
    /// Registers a function that describes the type of its argument. It does not look at the value.
    pub fn register_type_function(
        &mut self,
        name: &str,
        description: impl Fn(&DataType) -> String + Send + Sync + 'static,
    ) {
        let signature = Signature::any(1, Volatility::Immutable);
        let function = TypeFunction { name: name.to_owned(), signature, description: Arc::new(description) };
        let function = ScalarUDF::new_from_impl(function);
        Arc::make_mut(&mut self.catalog.functions).add_scalar(Arc::new(function));
    }
}

struct TypeFunction {
    name: String,
    signature: Signature,
    description: Arc<Description>,
}

impl std::fmt::Debug for TypeFunction {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TypeFunction").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for TypeFunction {
    fn eq(&self, other: &TypeFunction) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.description, &other.description)
    }
}

impl Eq for TypeFunction {}

impl Hash for TypeFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for TypeFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let described = args.arg_fields.first().map(|field| (self.description)(field.data_type()));
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(described)))
    }
}
