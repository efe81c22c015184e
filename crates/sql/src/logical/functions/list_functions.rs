//! Functions of lists, as in PostgreSQL: `array_remove(list, NULL)` removes the items that are NULL, and a list without items has no
//! dimension that `array_length(list, 1)` could count. DataFusion (55.2) gives NULL, and 0.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, Scalar, UInt64Array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::kernels::cmp::eq;
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::arrow::compute::{filter, is_not_null, is_null, nullif};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// Returns the function that removes items, for NULL as well.
pub(crate) fn removing(function: ScalarUDF) -> ScalarUDF {
    ScalarUDF::new_from_impl(OfLists { function, compute: remove })
}

/// Returns the function that counts the items of a dimension, if the list has it.
pub(crate) fn length_of(function: ScalarUDF) -> ScalarUDF {
    ScalarUDF::new_from_impl(OfLists { function, compute: count })
}

type Compute = fn(&ScalarUDF, ScalarFunctionArgs) -> Result<ColumnarValue>;

/// A function of DataFusion that is computed in another way.
#[derive(Debug)]
struct OfLists {
    function: ScalarUDF,
    compute: Compute,
}

/// Each function is computed in one way.
impl PartialEq for OfLists {
    fn eq(&self, other: &Self) -> bool {
        self.function == other.function
    }
}

impl Eq for OfLists {}

impl Hash for OfLists {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.hash(state);
    }
}

impl ScalarUDFImpl for OfLists {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.function.inner().return_type(types)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        self.function.inner().return_field_from_args(arguments)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.inner().coerce_types(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        (self.compute)(&self.function, args)
    }
}

fn remove(function: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
    let rows = args.number_rows;
    let (lists, items) = (args.args[0].to_array(rows)?, args.args[1].to_array(rows)?);
    if items.logical_null_count() == 0 || !matches!(lists.data_type(), DataType::List(_)) {
        return function.inner().invoke_with_args(args);
    }
    let without_nulls = without_nulls(lists.as_list())?;
    if items.logical_null_count() == items.len() {
        return Ok(ColumnarValue::Array(without_nulls));
    }
    let removed = function.inner().invoke_with_args(args)?.into_array(rows)?;
    Ok(ColumnarValue::Array(zip(&is_null(&items)?, &without_nulls, &removed)?))
}

/// Returns the lists without their NULLs.
fn without_nulls(lists: &ListArray) -> Result<ArrayRef> {
    let DataType::List(field) = lists.data_type() else { return Ok(Arc::new(lists.clone())) };
    let values = lists.values();
    let lengths = lists.offsets().windows(2).map(|bounds| {
        (bounds[0]..bounds[1]).filter(|at| values.is_valid(usize::try_from(*at).unwrap_or_default())).count()
    });
    let offsets = OffsetBuffer::from_lengths(lengths);
    let (first, last) = (lists.offsets()[0] as usize, lists.offsets()[lists.len()] as usize);
    let used = values.slice(first, last - first);
    let kept = filter(&used, &is_not_null(&used)?)?;
    Ok(Arc::new(ListArray::try_new(Arc::clone(field), offsets, kept, lists.nulls().cloned())?))
}

fn count(function: &ScalarUDF, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
    let (rows, has_dimension) = (args.number_rows, args.args.len() > 1);
    let lengths = function.inner().invoke_with_args(args)?;
    if !has_dimension {
        return Ok(lengths);
    }
    let lengths = lengths.into_array(rows)?;
    let is_empty = eq(&lengths, &Scalar::new(UInt64Array::from(vec![0])))?;
    Ok(ColumnarValue::Array(nullif(&lengths, &is_empty)?))
}
