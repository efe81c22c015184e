//! Functions that make a column of columns, and need nothing else of the planner than the types of their arguments.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

/// Returns a function under its names; the first is its own. Each item of `arguments` is a list of types that it takes. Its value depends
/// on its arguments only.
pub(super) fn plain_function(
    names: &[&'static str],
    arguments: &[&[DataType]],
    result: DataType,
    compute: fn(&[ArrayRef]) -> Result<ArrayRef>,
) -> ScalarUDF {
    checked_function(names, arguments, result, |_| Ok(()), compute)
}

/// Returns such a function, which refuses constants when it is planned: `check` gets the first argument.
pub(super) fn checked_function(
    names: &[&'static str],
    arguments: &[&[DataType]],
    result: DataType,
    check: fn(&ScalarValue) -> Result<()>,
    compute: fn(&[ArrayRef]) -> Result<ArrayRef>,
) -> ScalarUDF {
    let signatures = arguments.iter().map(|types| TypeSignature::Exact(types.to_vec())).collect();
    named(names, Signature::one_of(signatures, Volatility::Immutable), of_type(result), check, compute)
}

/// Returns such a function of this many values of any types.
pub(super) fn function_of_any(
    names: &[&'static str],
    arguments: usize,
    result: Field,
    compute: fn(&[ArrayRef]) -> Result<ArrayRef>,
) -> ScalarUDF {
    named(names, Signature::any(arguments, Volatility::Immutable), result, |_| Ok(()), compute)
}

/// Returns such a function, whose result is what this field is but for its name.
pub(super) fn function_of_field(
    names: &[&'static str],
    arguments: &[&[DataType]],
    result: Field,
    compute: fn(&[ArrayRef]) -> Result<ArrayRef>,
) -> ScalarUDF {
    let signatures = arguments.iter().map(|types| TypeSignature::Exact(types.to_vec())).collect();
    named(names, Signature::one_of(signatures, Volatility::Immutable), result, |_| Ok(()), compute)
}

fn named(
    names: &[&'static str],
    signature: Signature,
    result: Field,
    check: fn(&ScalarValue) -> Result<()>,
    compute: fn(&[ArrayRef]) -> Result<ArrayRef>,
) -> ScalarUDF {
    let aliases = names[1..].iter().map(|name| (*name).to_owned()).collect();
    let result = result.with_name(names[0]);
    ScalarUDF::new_from_impl(PlainFunction { name: names[0], aliases, signature, result, check, compute })
}

fn of_type(result: DataType) -> Field {
    Field::new("", result, true)
}

#[derive(Debug)]
struct PlainFunction {
    name: &'static str,
    aliases: Vec<String>,
    signature: Signature,
    result: Field,
    check: fn(&ScalarValue) -> Result<()>,
    compute: fn(&[ArrayRef]) -> Result<ArrayRef>,
}

/// A name has one function.
impl PartialEq for PlainFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for PlainFunction {}

impl Hash for PlainFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for PlainFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.result.data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        if let Some(Some(first)) = args.scalar_arguments.first() {
            (self.check)(first)?;
        }
        Ok(Arc::new(self.result.clone()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let values = (self.compute)(&ColumnarValue::values_to_arrays(&args.args)?)?;
        Ok(if is_constant {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?)
        } else {
            ColumnarValue::Array(values)
        })
    }
}
