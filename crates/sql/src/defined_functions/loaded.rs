//! Functions whose code is loaded, as DataFusion calls them.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use tidemill_engine::Cause;
use tidemill_wasm::{Failure, Function};

use crate::limit_reached::stopped;

/// Between the name of a function and the digest of its code, in plans.
pub(super) const DIGEST_MARK: char = '@';

/// A function whose code is loaded. Its name in plans is made of its own and of what it computes, because plans as text
/// say which queries compute the same.
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
        let name = format!("{shown}{DIGEST_MARK}{digest}");
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

/// The functions by their names in plans, as long as definitions or plans hold them. One that is replaced stays for what
/// was defined with it.
#[derive(Clone, Default)]
pub(crate) struct LoadedFunctions(BTreeMap<String, Weak<ScalarUDF>>);

impl LoadedFunctions {
    /// The function of a name that something holds.
    pub fn get(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.0.get(name)?.upgrade()
    }

    /// Adds a function. The name says what it computes, so one of the same name that is there is the same, and is kept.
    pub fn add(&mut self, function: ScalarUDF) -> Arc<ScalarUDF> {
        self.0.retain(|_, held| held.strong_count() > 0);
        if let Some(same) = self.get(function.name()) {
            return same;
        }
        let function = Arc::new(function);
        self.0.insert(function.name().to_owned(), Arc::downgrade(&function));
        function
    }
}

#[cfg(test)]
mod tests {
    use tidemill_wasm::{Limits, Module};

    use super::*;

    fn function(name: &str) -> ScalarUDF {
        let module = Module::new(br#"(module (func (export "one") (result i32) i32.const 1))"#).unwrap();
        let one = Function::new(&module, "one", &[], &DataType::Int32, Limits::default()).unwrap();
        LoadedFunction::scalar(name, "0123", one)
    }

    #[test]
    fn what_nothing_holds_is_gone() {
        let mut functions = LoadedFunctions::default();
        let (held, dropped) = (functions.add(function("held")), functions.add(function("dropped")));
        assert!(Arc::ptr_eq(&held, &functions.add(function("held"))));
        assert!(functions.get("dropped@0123").is_some_and(|found| Arc::ptr_eq(&found, &dropped)));
        drop(dropped);
        assert!(functions.get("dropped@0123").is_none() && functions.get("held@0123").is_some());
        let _other = functions.add(function("other"));
        assert_eq!(functions.0.keys().collect::<Vec<_>>(), ["held@0123", "other@0123"]);
    }
}
